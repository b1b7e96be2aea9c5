package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// npxEverything is the command of the README. It runs in this folder, where the
// pinned package is installed, and may not look anywhere else for it.
var npxEverything = hosting{
	flags:   []string{"--env", "npm_config_offline=true"},
	command: []string{"npx", "-y", "@modelcontextprotocol/server-everything"},
	dir:     ".",
}

// clientAnswers is what the client says to what servers ask.
var clientAnswers = object{
	"sampling/createMessage": object{
		"role": "assistant", "model": "no-model", "stopReason": "endTurn",
		"content": object{"type": "text", "text": "a sampled answer"},
	},
	"elicitation/create": object{"action": "accept", "content": object{"name": "Ada", "check": true, "integer": 7}},
	"roots/list":         object{"roots": []object{{"uri": "file:///srv/one", "name": "one"}, {"uri": "file:///srv/two", "name": "two"}}},
}

// The official client against the official server, hosted as the README says, with
// every feature that the two have. One client does it all: what comes later runs in
// a session with a history.
func TestOfficialClientUsesServerEverything(t *testing.T) {
	t.Parallel()
	needNode(t)
	tour(t, serve(t, npxEverything).url)
}

func tour(t *testing.T, url string) {
	t.Helper()
	cutter, url := behindCutter(t, url)
	c := newTSClient(t)
	s := c.connect(url, clientAnswers)
	if s.Server.Name != "mcp-servers/everything" || s.Protocol != vNov || s.Session == "" {
		t.Fatalf("connected to %+v", s)
	}
	c.listening(0)
	run := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) { c.t = t; f(t) }) {
			t.FailNow() // one client: what follows would only repeat it
		}
	}

	run("tools", func(t *testing.T) {
		want := []string{"echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"}
		// The server adds some tools only once it is initialized.
		eventually(t, patience, "the list of tools has those that need capabilities of the client", func() bool {
			names := toolNames(t, c.do("listTools", object{}))
			return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
		})
		if got := c.tool("echo", object{"message": "héllo\u2028wörld"}); got != "Echo: héllo\u2028wörld" {
			t.Errorf("echo: %q", got)
		}
		if got := c.tool("get-sum", object{"a": 2, "b": 3}); got != "The sum of 2 and 3 is 5." {
			t.Errorf("get-sum: %q", got)
		}
		// The client checks structured content against the tool's schema.
		structured := decode[struct{ StructuredContent object }](t, c.do("callTool", object{"name": "get-structured-content", "arguments": object{"location": "Chicago"}}))
		if len(structured.StructuredContent) == 0 {
			t.Error("no structured content")
		}
		failed := decode[struct{ IsError bool }](t, c.do("callTool", object{"name": "get-sum", "arguments": object{"a": "one"}}))
		if !failed.IsError {
			t.Error("a call with bad arguments is no error")
		}
	})
	run("progress", func(t *testing.T) { c.longRunning(t, 500*time.Millisecond, 5, nil) })
	run("sampling", func(t *testing.T) {
		got := c.tool("trigger-sampling-request", object{"prompt": "say something", "maxTokens": 10})
		if !strings.Contains(got, "a sampled answer") {
			t.Errorf("the client's answer is not in the result: %q", got)
		}
	})
	run("elicitation", func(t *testing.T) {
		got := string(c.do("callTool", object{"name": "trigger-elicitation-request", "arguments": object{}}))
		if !strings.Contains(got, "Name: Ada") || !strings.Contains(got, "Favorite Integer: 7") {
			t.Errorf("the client's answer is not in the result: %s", got)
		}
	})
	run("roots", func(t *testing.T) {
		if got := c.tool("get-roots-list", object{}); !strings.Contains(got, "file:///srv/one") || !strings.Contains(got, "file:///srv/two") {
			t.Errorf("the client's roots are not in the result: %q", got)
		}
		// A request of the server's that belongs to none of the client's.
		from := c.mark()
		c.do("sendRootsListChanged", nil)
		c.await(from, "a request for the roots", func(e tsEvent) bool { return e.Event == "request" && e.Method == "roots/list" })
	})
	run("resources", func(t *testing.T) {
		if got := string(c.do("listResources", object{})); !strings.Contains(got, "demo://resource/static/document/architecture.md") {
			t.Errorf("listResources: %.300s", got)
		}
		if got := string(c.do("listResourceTemplates", object{})); !strings.Contains(got, "demo://resource/dynamic/text/{resourceId}") {
			t.Errorf("listResourceTemplates: %.300s", got)
		}
		if got := string(c.do("readResource", object{"uri": "demo://resource/dynamic/text/7"})); !strings.Contains(got, "Resource 7") {
			t.Errorf("readResource: %.300s", got)
		}
		if got := string(c.do("readResource", object{"uri": "demo://resource/dynamic/blob/7"})); !strings.Contains(got, `"blob":"`) {
			t.Errorf("readResource of a blob: %.300s", got)
		}
		from := c.mark()
		got := string(c.do("callTool", object{"name": "gzip-file-as-resource", "arguments": object{
			"name": "hello.gz", "data": "data:text/plain,hello", "outputType": "resourceLink",
		}}))
		if !strings.Contains(got, "demo://resource/session/hello.gz") {
			t.Errorf("gzip-file-as-resource: %.300s", got)
		}
		c.await(from, "that the list of resources has changed", isNotification("notifications/resources/list_changed"))
	})
	run("prompts", func(t *testing.T) {
		if got := string(c.do("listPrompts", object{})); !strings.Contains(got, "args-prompt") {
			t.Errorf("listPrompts: %.300s", got)
		}
		got := string(c.do("getPrompt", object{"name": "args-prompt", "arguments": object{"city": "Pune", "state": "MH"}}))
		if !strings.Contains(got, "Pune, MH") {
			t.Errorf("getPrompt: %.300s", got)
		}
		got = string(c.do("complete", object{
			"ref":      object{"type": "ref/prompt", "name": "completable-prompt"},
			"argument": object{"name": "name", "value": "B"}, "context": object{"arguments": object{"department": "Engineering"}},
		}))
		if !strings.Contains(got, `"Bob"`) || strings.Contains(got, `"Alice"`) {
			t.Errorf("complete: %s", got)
		}
	})
	run("subscriptions", func(t *testing.T) {
		const uri = "demo://resource/dynamic/text/1"
		c.do("subscribeResource", object{"uri": uri})
		from := c.mark()
		c.tool("toggle-subscriber-updates", object{})
		e := c.await(from, "an update of the resource", isNotification("notifications/resources/updated"))
		if !strings.Contains(string(e.Params), uri) {
			t.Errorf("the update is of %s", e.Params)
		}
		c.tool("toggle-subscriber-updates", object{})
		c.do("unsubscribeResource", object{"uri": uri})
	})
	run("logging", func(t *testing.T) {
		c.do("setLoggingLevel", object{"level": "debug"})
		from := c.mark()
		c.tool("toggle-simulated-logging", object{})
		c.await(from, "a message of the server's log", isNotification("notifications/message"))
		c.tool("toggle-simulated-logging", object{})
	})
	run("cancellation", func(t *testing.T) {
		_, reply := c.begin("callTool", object{"name": "trigger-long-running-operation", "arguments": object{"duration": 20, "steps": 2}}, object{"abortAfter": 200})
		if r := c.wait("a cancelled call", reply); r.Error == nil {
			t.Errorf("a cancelled call has a result: %s", r.Result)
		}
		c.do("ping", nil)
	})
	run("a task", func(t *testing.T) {
		_, reply := c.begin("callToolStream", object{"name": "simulate-research-query", "arguments": object{"topic": "python"}}, object{})
		r := c.wait("callToolStream", reply)
		if r.Error != nil || !strings.Contains(string(r.Result), "# Research Report: python") {
			t.Errorf("no report: %+v %.2000s", r.Error, r.Result)
		}
	})
	run("a cut connection", func(t *testing.T) {
		cuts := 0
		from := c.mark()
		c.longRunning(t, 1500*time.Millisecond, 10, func(step float64) {
			if step == 3 || step == 6 {
				if cutter.cut() == 0 {
					t.Error("no connection was open")
				}
				cuts++
			}
		})
		if cuts != 2 {
			t.Errorf("the connection was cut %d times, want twice", cuts)
		}
		resumed := c.saw(func(e tsEvent) bool { return e.Event == "http" && e.Resume != "" && e.Status == 200 })
		if len(resumed) < 2 {
			t.Errorf("the client has resumed %d streams: %v", len(resumed), resumed)
		}
		c.listening(from)
		c.do("ping", nil)
	})
	c.t = t
	c.unshaken(s.Session)
}

// longRunning calls the server's long operation and checks that each of its steps
// is reported once, in order, and that the result comes. stepped, if not nil, is
// told of each step as it arrives.
func (c *tsClient) longRunning(t *testing.T, total time.Duration, steps int, stepped func(step float64)) {
	t.Helper()
	from := c.mark()
	n, reply := c.begin("callTool",
		object{"name": "trigger-long-running-operation", "arguments": object{"duration": total.Seconds(), "steps": steps}},
		object{"progress": true})
	reported := func(e tsEvent) bool { return e.Event == "progress" && e.N == n }
	for want := 1; want <= steps; want++ {
		e := c.awaitAll(from, want, "progress", reported)[want-1]
		if e.Current != float64(want) || e.Total != float64(steps) {
			t.Errorf("report %d says %v of %v", want, e.Current, e.Total)
		}
		if stepped != nil {
			stepped(e.Current)
		}
	}
	r := c.wait("trigger-long-running-operation", reply)
	if r.Error != nil {
		t.Fatalf("error %v: %s", r.Error.Code, r.Error.Message)
	}
	if got := (message{Result: r.Result}).Text(); !strings.Contains(got, "completed") {
		t.Errorf("result: %q", got)
	}
	if got := len(c.saw(reported)); got != steps {
		t.Errorf("%d reports, want %d", got, steps)
	}
}

func toolNames(t testing.TB, result json.RawMessage) (names []string) {
	t.Helper()
	list := decode[struct{ Tools []struct{ Name string } }](t, result)
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}
