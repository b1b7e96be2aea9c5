package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// A server that answers as it is told to: %s stands for the id of the request.
func answering(t *testing.T, status int, kind, body string) *client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !gjson.ValidBytes(b) {
			t.Errorf("not a message: %s", b)
		}
		id := gjson.GetBytes(b, "id").Raw
		if id == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Mcp-Session-Id", "s1")
		w.WriteHeader(status)
		fmt.Fprint(w, strings.ReplaceAll(body, "%s", id))
	}))
	t.Cleanup(s.Close)
	c, err := newClient(s.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

const three = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"3"}]}}`

func TestAGoodAnswerIsTaken(t *testing.T) {
	for name, c := range map[string]*client{
		"json":   answering(t, 200, "application/json", three),
		"events": answering(t, 200, "text/event-stream", "id: a\ndata: \n\n"+`data: {"jsonrpc":"2.0","method":"note"}`+"\n\nevent: message\ndata: "+three+"\n\n"),
	} {
		for range 2 {
			if err := c.call("add", `{"a":1,"b":2}`, "3"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if c.session != "s1" || c.conn == nil {
			t.Errorf("%s: session %q, connected %v", name, c.session, c.conn != nil)
		}
	}
}

func TestABadAnswerIsSeen(t *testing.T) {
	for name, c := range map[string]*client{
		"status":      answering(t, 503, "application/json", three),
		"value":       answering(t, 200, "application/json", strings.ReplaceAll(three, `"3"`, `"4"`)),
		"tool error":  answering(t, 200, "application/json", strings.ReplaceAll(three, `"content"`, `"isError":true,"content"`)),
		"other id":    answering(t, 200, "application/json", strings.ReplaceAll(three, "%s", "7")),
		"id as text":  answering(t, 200, "application/json", strings.ReplaceAll(three, "%s", `"%s"`)),
		"error":       answering(t, 200, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"no"}}`),
		"none":        answering(t, 200, "text/event-stream", ": nothing\n\n"),
		"two":         answering(t, 200, "text/event-stream", "data: "+three+"\n\ndata: "+three+"\n\n"),
		"not a reply": answering(t, 200, "text/event-stream", "data: {\n\n"),
	} {
		if err := c.call("add", `{"a":1,"b":2}`, "3"); err == nil {
			t.Errorf("%s: taken for good", name)
		}
	}
}

// What a client must not take, a load must not either: it counts it.
func TestLoadCountsWhatIsBad(t *testing.T) {
	c := answering(t, 200, "text/event-stream", "data: "+three+"\n\n")
	s, err := job{tool: "add", sessions: 4, connections: 2, d: 50 * time.Millisecond}.turn(&server{endpoint: "http://" + c.host + c.path}, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Of these calls 1+2 and 2+1 alone make 3.
	if s.bad == 0 || s.first == nil || len(s.took) == 0 {
		t.Errorf("%d answers are good, %d are bad, the first: %v", len(s.took), s.bad, s.first)
	}
}
