package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// tsClient is the official TypeScript client in a process of its own
// (js/client.mjs): one Client object, whatever happens to the host.
type tsClient struct {
	t     testing.TB
	stdin io.WriteCloser

	mu      sync.Mutex
	n       int
	replies map[int]chan tsReply
	events  []tsEvent
	more    chan struct{} // closed and replaced when events grow
	ended   bool
}

// tsReply is what a command has brought.
type tsReply struct {
	N      int             `json:"n"`
	Result json.RawMessage `json:"result"`
	Error  *tsError        `json:"error"`
}

type tsError struct {
	Message string          `json:"message"`
	Code    any             `json:"code"`
	Data    json.RawMessage `json:"data"`
}

// tsEvent is something that the client saw.
type tsEvent struct {
	Event   string          `json:"event"`  // http, resumable, progress, notification, request, error
	Method  string          `json:"method"` // of HTTP, or of the message
	Params  json.RawMessage `json:"params"`
	RPC     string          `json:"rpc"`     // http: the JSON-RPC method that was posted
	Status  int             `json:"status"`  // http: 0 when there was no answer
	Session string          `json:"session"` // http: the session id that was sent
	Resume  string          `json:"resume"`  // http: the Last-Event-ID that was sent
	Message string          `json:"message"` // http without an answer, error; of a progress report
	N       int             `json:"n"`       // progress, resumable: of which command
	Current float64         `json:"progress"`
	Total   float64         `json:"total"`
}

func (e tsEvent) String() string {
	b, _ := json.Marshal(e)
	return string(b)
}

// object is a JSON object.
type object = map[string]any

// newTSClient starts a client process. It is not connected.
func newTSClient(t testing.TB) *tsClient {
	t.Helper()
	needNode(t)
	c := &tsClient{t: t, replies: map[int]chan tsReply{}, more: make(chan struct{})}
	cmd := exec.Command("node", "js/client.mjs")
	stderr := newTail()
	cmd.Stderr = stderr
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { c.read(stdout) })
	t.Cleanup(func() {
		c.stdin.Close() // the process ends
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		reader.Wait()
		kill.Stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("what the client saw:\n%s\nits stderr:\n%s", c.seen(), stderr)
		}
	})
	return c
}

func (c *tsClient) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		c.mu.Lock()
		if err != nil {
			c.ended = true
			for n, reply := range c.replies {
				delete(c.replies, n)
				close(reply)
			}
		} else {
			var reply tsReply
			var event tsEvent
			if json.Unmarshal(line, &event) == nil && event.Event != "" {
				c.events = append(c.events, event)
			} else if json.Unmarshal(line, &reply) == nil && c.replies[reply.N] != nil {
				c.replies[reply.N] <- reply
				delete(c.replies, reply.N)
			}
		}
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// seen is a transcript of the last events.
func (c *tsClient) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, e := range c.events[max(0, len(c.events)-60):] {
		fmt.Fprintf(&b, "%.300s\n", e)
	}
	return b.String()
}

// begin sends a command and does not wait for its reply.
func (c *tsClient) begin(do string, params, options any) (n int, reply <-chan tsReply) {
	c.t.Helper()
	ch := make(chan tsReply, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.ended {
		close(ch)
		return c.n, ch
	}
	c.replies[c.n] = ch
	line, err := json.Marshal(object{"n": c.n, "do": do, "params": params, "options": options})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		c.t.Errorf("the client process has ended: %v", err)
	}
	return c.n, ch
}

func (c *tsClient) wait(do string, reply <-chan tsReply) tsReply {
	c.t.Helper()
	select {
	case r, ok := <-reply:
		if !ok {
			c.t.Fatalf("%s: the client process has ended", do)
		}
		return r
	case <-time.After(30 * time.Second):
		c.t.Fatalf("%s: no answer after 30 s", do)
		return tsReply{}
	}
}

// do runs a command and returns its result; an error fails the test.
func (c *tsClient) do(name string, params any) json.RawMessage {
	c.t.Helper()
	return c.doWith(name, params, object{})
}

func (c *tsClient) doWith(name string, params, options any) json.RawMessage {
	c.t.Helper()
	_, reply := c.begin(name, params, options)
	r := c.wait(name, reply)
	if r.Error != nil {
		c.t.Fatalf("%s: error %v: %s", name, r.Error.Code, r.Error.Message)
	}
	return r.Result
}

// tool calls a tool and returns the text of its first content.
func (c *tsClient) tool(name string, arguments any) string {
	c.t.Helper()
	return message{Result: c.do("callTool", object{"name": name, "arguments": arguments})}.Text()
}

// tsState is what the client knows about its session.
type tsState struct {
	Session  string
	Protocol string
	Server   struct{ Name, Version string }
}

// connect initializes a session at url. What the server asks is answered with
// answers, by method.
func (c *tsClient) connect(url string, answers object) tsState {
	c.t.Helper()
	if answers == nil {
		answers = object{}
	}
	capabilities := object{}
	for method := range answers {
		switch method {
		case "roots/list":
			capabilities["roots"] = object{"listChanged": true}
		case "sampling/createMessage":
			capabilities["sampling"] = object{}
		case "elicitation/create":
			capabilities["elicitation"] = object{"form": object{}}
		}
	}
	return decode[tsState](c.t, c.do("connect", object{"url": url, "capabilities": capabilities, "answers": answers}))
}

func (c *tsClient) state() tsState { c.t.Helper(); return decode[tsState](c.t, c.do("state", nil)) }

func decode[T any](t testing.TB, data json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// saw returns the events so far that match.
func (c *tsClient) saw(match func(tsEvent) bool) []tsEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []tsEvent
	for _, e := range c.events {
		if match(e) {
			all = append(all, e)
		}
	}
	return all
}

// await waits for the first event that matches, from the mark on.
func (c *tsClient) await(from int, what string, match func(tsEvent) bool) tsEvent {
	c.t.Helper()
	return c.awaitAll(from, 1, what, match)[0]
}

// awaitAll waits for the first n events that match, from the mark on.
func (c *tsClient) awaitAll(from, n int, what string, match func(tsEvent) bool) []tsEvent {
	c.t.Helper()
	deadline := time.After(patience)
	var found []tsEvent
	for {
		c.mu.Lock()
		for ; from < len(c.events) && len(found) < n; from++ {
			if match(c.events[from]) {
				found = append(found, c.events[from])
			}
		}
		more, ended := c.more, c.ended
		c.mu.Unlock()
		if len(found) == n {
			return found
		}
		if ended {
			c.t.Fatalf("%s: the client process has ended", what)
		}
		select {
		case <-more:
		case <-deadline:
			c.t.Fatalf("the client has not seen %s: %d of %d", what, len(found), n)
		}
	}
}

// mark is the number of events so far.
func (c *tsClient) mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events)
}

// forget drops the events from a mark on that are errors: they have been looked at.
func (c *tsClient) forget(from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := from; i < len(c.events); i++ {
		if c.events[i].Event == "error" {
			c.events[i].Event = "error seen"
		}
	}
}

// listening waits until the client's GET stream is open.
func (c *tsClient) listening(from int) {
	c.t.Helper()
	c.await(from, "an open GET stream", func(e tsEvent) bool {
		return e.Event == "http" && e.Method == http.MethodGet && e.Status == 200
	})
}

// unshaken checks that the client went on with one session: one initialize, no
// refusal, and no answer that it did not wait for.
func (c *tsClient) unshaken(session string) {
	c.t.Helper()
	initialized := 0
	for _, e := range c.saw(func(e tsEvent) bool { return e.Event == "http" }) {
		if e.RPC == "initialize" {
			initialized++
			continue
		}
		if e.Session != session {
			c.t.Errorf("a request went to session %q, want %q: %s", e.Session, session, e)
		}
		if e.Status >= 400 {
			c.t.Errorf("the host has answered %d: %s", e.Status, e)
		}
	}
	for _, e := range c.saw(func(e tsEvent) bool { return e.Event == "error" && strings.Contains(e.Message, "unknown message ID") }) {
		c.t.Errorf("an answer has come that the client did not wait for: %.300s", e.Message)
	}
	if initialized != 1 {
		c.t.Errorf("the client initialized %d times, want once", initialized)
	}
}

func isNotification(method string) func(tsEvent) bool {
	return func(e tsEvent) bool { return e.Event == "notification" && e.Method == method }
}
