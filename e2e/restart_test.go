package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every kind of request is once the first that a session gets after kill -9. The
// client is one object and has one session; it never initializes again.
func TestOfficialClientGoesOnAfterKillNine(t *testing.T) {
	t.Parallel()
	needNode(t)
	h := serve(t, hosting{command: []string{"node", "node_modules/@modelcontextprotocol/server-everything/dist/index.js"}, dir: "."})
	c := newTSClient(t)
	s := c.connect(h.url, clientAnswers)
	c.listening(0)
	const uri = "demo://resource/dynamic/text/1"

	for _, kind := range []struct {
		do     string
		params object
		want   string // in the result
	}{
		{"callTool", object{"name": "echo", "arguments": object{"message": "still here"}}, "Echo: still here"},
		{"listTools", object{}, `"get-sum"`},
		{"listResources", object{}, "architecture.md"},
		{"listResourceTemplates", object{}, "{resourceId}"},
		{"readResource", object{"uri": uri}, "Resource 1"},
		{"listPrompts", object{}, "args-prompt"},
		{"getPrompt", object{"name": "simple-prompt"}, "simple prompt"},
		{"complete", object{"ref": object{"type": "ref/prompt", "name": "completable-prompt"}, "argument": object{"name": "department", "value": "S"}}, "Sales"},
		{"ping", nil, "{}"},
		{"setLoggingLevel", object{"level": "debug"}, "{}"},
		{"subscribeResource", object{"uri": uri}, "{}"},
		{"sendRootsListChanged", nil, ""}, // a notification
	} {
		h.crash()
		if got := string(c.do(kind.do, kind.params)); !strings.Contains(got, kind.want) {
			t.Errorf("%s after a restart: %.300s", kind.do, got)
		}
		if got := c.state().Session; got != s.Session {
			t.Fatalf("%s after a restart: the session is %q now", kind.do, got)
		}
	}

	// What the client had told the server before is told again.
	h.crash()
	from := c.mark()
	c.tool("toggle-subscriber-updates", object{})
	c.await(from, "an update of the resource that was subscribed to before the restart", isNotification("notifications/resources/updated"))
	c.tool("toggle-simulated-logging", object{})
	c.await(from, "a message of the log, whose level was set before the restart", isNotification("notifications/message"))
	c.unshaken(s.Session)
}

// The demo's counter is the session's, and durable: each number is given once.
func TestOfficialClientCountsOnAfterKillNine(t *testing.T) {
	t.Parallel()
	needNode(t)
	h := serve(t, hosting{})
	c := newTSClient(t)
	s := c.connect(h.url, clientAnswers)
	for n := 1; n <= 6; n++ {
		if got := c.tool("incr", object{}); got != fmt.Sprint(n) {
			t.Fatalf("incr answers %q, want %d", got, n)
		}
		if n%2 == 0 {
			h.crash()
		}
	}
	c.unshaken(s.Session)
}

// The same without a stream that reconnects first: the very first bytes that reach
// the restarted host are the request, and the server is told the handshake once.
func TestFirstRequestAfterKillNineIsServed(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	c.post(request("1", "logging/setLevel", `{"level":"warning"}`)).result()
	c.post(request("2", "resources/subscribe", `{"uri":"fake://a"}`)).result()
	c.post(request("3", "resources/subscribe", `{"uri":"fake://b"}`)).result()
	c.post(request("4", "resources/unsubscribe", `{"uri":"fake://b"}`)).result()

	handshake := []string{"start", "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"}
	for _, kind := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"echo","arguments":{"text":"hi"}}`, `"text":"hi"`},
		{"tools/list", `{}`, `"echo"`},
		{"resources/list", `{}`, `fake://a`},
		{"resources/templates/list", `{}`, `uriTemplate`},
		{"resources/read", `{"uri":"fake://a"}`, `the letter a`},
		{"prompts/list", `{}`, `"p"`},
		{"prompts/get", `{"name":"p"}`, `please`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`, `two`},
		{"ping", `{}`, `{}`},
		{"logging/setLevel", `{"level":"warning"}`, `{}`},
		{"resources/subscribe", `{"uri":"fake://a"}`, `{}`},
		{"resources/unsubscribe", `{"uri":"fake://c"}`, `{}`},
	} {
		h.crash()
		before := len(log.entries(""))
		m := c.post(request(`"first"`, kind.method, kind.params)).result()
		if string(m.ID) != `"first"` || !strings.Contains(string(m.Result), kind.want) {
			t.Errorf("%s after a restart: id %s, result %s", kind.method, m.ID, m.Result)
		}
		if kind.method == "ping" {
			continue // the session answers it, and needs no server for it
		}
		var told []string
		for _, e := range log.entries("")[before:] {
			told = append(told, e.Method)
		}
		if want := append(slices.Clone(handshake), kind.method); !slices.Equal(told, want) {
			t.Errorf("%s after a restart: the server was told %v, want %v", kind.method, told, want)
		}
	}

	// What has no answer is accepted, too.
	h.crash()
	c.tell(notification("notifications/roots/list_changed"))
	h.crash()
	c.tell(`{"jsonrpc":"2.0","id":"kalpa-of-another-life","result":{}}`)
	h.crash()
	if x := c.do(http.MethodDelete, "", nil); x.status/100 != 2 {
		t.Errorf("DELETE after a restart: status %d: %s", x.status, x.body())
	}
	if x := c.post(call("1", "echo", `{}`)); x.status != http.StatusNotFound {
		t.Errorf("a call in an ended session: status %d: %s", x.status, x.body())
	}
	h.crash()
	if x := c.post(call("1", "echo", `{}`)); x.status != http.StatusNotFound {
		t.Errorf("a call in an ended session, after a restart: status %d: %s", x.status, x.body())
	}
}

// What comes together at a session without a runtime builds one runtime (I5).
func TestRequestsTogetherBuildOneRuntime(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path, "-slow", "200ms"), flags: []string{"--idle-timeout", "2s"}})
	c := h.session()
	together := func() {
		t.Helper()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				text := fmt.Sprintf("call %d", i)
				x, err := c.try(http.MethodPost, call("1", "echo", fmt.Sprintf(`{"text":%q}`, text)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				var frames []frame
				for f := range x.frames {
					frames = append(frames, f)
				}
				if got := answers(t, frames); len(got) != 1 || got[0].Text() != text {
					t.Errorf("status %d, answers %+v, want one with %q", x.status, got, text)
				}
			})
		}
		all.Wait()
	}
	together()
	if n := log.starts(); n != 1 {
		t.Errorf("%d servers were started, want 1", n)
	}
	h.crash()
	together()
	if n := log.starts(); n != 2 {
		t.Errorf("%d servers were started, want 2: one before the restart, one after", n)
	}
	// The runtime is reclaimed when it is idle, and built again beneath the client.
	last := log.entries("start")[1].PID
	eventually(t, patience, "the idle server has ended", func() bool { return !alive(last) })
	together()
	if n := log.starts(); n != 3 {
		t.Errorf("%d servers were started, want 3", n)
	}
}

// A call that kill -9 has ended is answered when its client comes back, whichever
// way it does: on the stream of the call, or on a new one.
func TestCallThatKillNineEndedIsAnsweredAsLost(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	for _, version := range []string{vNov, vMar} {
		for _, resumes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, resumed %v", version, resumes), func(t *testing.T) {
				c := newClient(t, h.url)
				c.connect(version)
				x := c.post(callWithToken(`"lost"`, "steps", `{"count":1000,"ms":20}`, `"t"`))
				last := x.events(3)[2].id
				h.kill()
				for range x.frames { // the connection is gone
				}
				h.restart()
				if !resumes {
					last = ""
				}
				y := c.get(last)
				for {
					f, ok := y.within(time.Second)
					if !ok {
						t.Fatal("no answer within a second of the client's return")
					}
					m := parse(t, f.data)
					if m.Method != "" {
						continue // progress that was not seen
					}
					if string(m.ID) != `"lost"` || m.Error == nil || m.Error.Code != -32010 {
						t.Errorf("the answer is %s", f.data)
					}
					break
				}
				if got := c.post(call("1", "echo", `{"text":"hi"}`)).result().Text(); got != "hi" {
					t.Errorf("the next call: %q", got)
				}
			})
		}
	}
}

// The official client learns of it by itself, and goes on.
func TestOfficialClientIsToldOfACallThatKillNineEnded(t *testing.T) {
	t.Parallel()
	needNode(t)
	h := serve(t, hosting{})
	c := newTSClient(t)
	s := c.connect(h.url, nil)
	c.listening(0)
	_, reply := c.begin("callTool", object{"name": "sleep", "arguments": object{"ms": 60000, "steps": 600}}, object{"progress": true})
	c.awaitAll(0, 2, "progress", func(e tsEvent) bool { return e.Event == "progress" })
	h.crash()
	r := c.wait("a call that was lost", reply)
	if r.Error == nil || fmt.Sprint(r.Error.Code) != "-32010" {
		t.Errorf("the call brings %+v %s, want an error -32010", r.Error, r.Result)
	}
	// An answer that is an error makes this client ask for more of its stream. It is
	// told once that there is none.
	time.Sleep(time.Second)
	resumed := c.saw(func(e tsEvent) bool {
		return e.Event == "http" && e.Method == http.MethodGet && strings.HasPrefix(e.Resume, "p") && e.Status != 0
	})
	if len(resumed) > 2 {
		t.Errorf("the client has asked %d times for the stream of a call that is over: %v", len(resumed), resumed)
	}
	if got := c.tool("incr", object{}); got != "1" {
		t.Errorf("the next call: %q", got)
	}
	c.unshaken(s.Session)
}
