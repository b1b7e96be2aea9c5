package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is a tool's result.
func text(format string, a ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, a...)}}}
}

type none struct{}

// handler is a tool without arguments.
type handler func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func newServer(tools map[string]handler) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for name, h := range tools {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
			r, err := h(ctx, req)
			return r, nil, err
		})
	}
	return server
}

// shared is a plugin with one server for all sessions.
func shared(tools map[string]handler) mcp.Plugin {
	server := newServer(tools)
	return gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil })
}

func TestToolsAreListedAndCalled(t *testing.T) {
	h := gosdktest.Start(t, shared(map[string]handler{
		"hello": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("<hello> & \u2028"), nil
		},
	}), gosdktest.Options{})
	if m := h.Do("tools/list", nil); !strings.Contains(m.String(), `"name":"hello"`) {
		t.Errorf("tools/list: %s", m)
	}
	if got := h.Call("hello", none{}); got.Text() != "<hello> & \u2028" {
		t.Errorf("hello: %q", got)
	}
	if m := h.Do("no/such/method", nil); !strings.Contains(string(m.Error()), "-32601") {
		t.Errorf("an unknown method: %s", m)
	}
	for _, s := range h.Sent() {
		if s.Kind() == wire.Response && s.About != "" {
			t.Errorf("a response is about %s: %s", s.About, s)
		}
	}
}

// Two calls are in the middle of their work; each reports progress and a log message
// when it is told to, in turn.
func TestWhatAHandlerSendsBelongsToItsRequest(t *testing.T) {
	step := map[string]chan bool{"p2": make(chan bool), "p3": make(chan bool)}
	h := gosdktest.Start(t, shared(map[string]handler{
		"work": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			token := req.Params.GetProgressToken()
			for range step[token.(string)] {
				if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
					return nil, err
				}
			}
			// Not a handler's context: nobody's.
			return text("done"), req.Session.NotifyProgress(context.Background(), &sdk.ProgressNotificationParams{ProgressToken: "none"})
		},
	}), gosdktest.Options{})
	a, b := h.GoCall("work", none{}), h.GoCall("work", none{})
	if a != "2" || b != "3" {
		t.Fatalf("ids are %s and %s", a, b)
	}
	for range 3 {
		step["p3"] <- true
		step["p2"] <- true
	}
	close(step["p2"])
	close(step["p3"])
	h.Result(a)
	h.Result(b)
	seen := 0
	for _, s := range h.Sent() {
		if !s.Is("notifications/progress") {
			continue
		}
		seen++
		want := wire.ID(strings.TrimPrefix(s.ParamString(wire.TokenOfProgress), "p"))
		if want == "none" {
			want = ""
		}
		if s.About != want {
			t.Errorf("%s is about %q, want %q", s, s.About, want)
		}
	}
	if seen != 8 {
		t.Errorf("%d notifications, want 8", seen)
	}
}

func TestTheClientsAnswerReachesTheHandlerThatAsked(t *testing.T) {
	asked := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: req.Params.GetProgressToken().(string), RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
		}})
		if err != nil {
			return nil, err
		}
		return text("%s %v", r.Action, r.Content["name"]), nil
	}
	h := gosdktest.Start(t, shared(map[string]handler{"ask": asked}), gosdktest.Options{
		Capabilities: map[string]any{"elicitation": map[string]any{}},
		Answer:       nil,
	})
	a, b := h.GoCall("ask", none{}), h.GoCall("ask", none{})
	question := func(id wire.ID) wire.Message {
		s := h.Wait("question", func(s gosdktest.Sent) bool {
			return s.Is("elicitation/create") && s.ParamString("message") == "p"+string(id)
		})
		if s.About != id {
			t.Errorf("%s is about %q, want %s", s, s.About, id)
		}
		return s.Message
	}
	qa, qb := question(a), question(b)
	// Answered in the other order.
	h.Deliver(wire.NewResult(qb.ID(), []byte(`{"action":"accept","content":{"name":"Bo"}}`)))
	h.Deliver(wire.NewError(qa.ID(), wire.InvalidParams, "no such form", nil))
	if got := h.Result(b).String(); got != "accept Bo" {
		t.Errorf("b: %q", got)
	}
	if got := h.Result(a).String(); !strings.Contains(got, "no such form") {
		t.Errorf("a: %q", got)
	}
}

func TestACancelledCallSeesItsContextEnd(t *testing.T) {
	running := make(chan bool, 2)
	h := gosdktest.Start(t, shared(map[string]handler{
		"wait": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			running <- true
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"ping": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("pong"), nil },
	}), gosdktest.Options{})
	a, b := h.GoCall("wait", none{}), h.GoCall("wait", none{})
	<-running
	<-running
	h.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(a)})
	h.Answer(a) // the SDK sends it; the host drops it
	if got := h.Call("ping", none{}); got.Text() != "pong" {
		t.Errorf("ping: %s", got)
	}
	for _, s := range h.Sent() {
		if s.Kind() == wire.Response && s.ID() == b {
			t.Errorf("the other call ended too: %s", s)
		}
	}
}

// bomb panics when it is encoded.
type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("boom") }

func TestEveryFailureOfAHandlerIsAnswered(t *testing.T) {
	server := newServer(map[string]handler{
		"panics": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { panic("boom") },
		"nil map": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var m map[string]int
			m["a"]++
			return nil, nil
		},
		"panics on nil": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { panic(nil) },
	})
	raw := func(name string, h sdk.ToolHandler) {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	raw("returns nothing", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	raw("not a number", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: math.NaN()}, nil
	})
	raw("bomb", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: bomb{}}, nil
	})
	raw("plain error", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("plain")
	})
	raw("no code", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, fmt.Errorf("wrapped: %w", &jsonrpc.Error{Message: "no code"})
	})
	server.AddPrompt(&sdk.Prompt{Name: "prompt"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) { panic("boom") })
	var log strings.Builder
	h := gosdktest.Start(t, gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil }), gosdktest.Options{Logger: logTo(&log)})
	for _, name := range []string{"panics", "nil map", "panics on nil", "returns nothing", "not a number", "bomb", "plain error", "no code"} {
		if m := h.Answer(h.GoCall(name, none{})); !strings.Contains(string(m.Error()), `"code":-32603`) {
			t.Errorf("%s: %s, want an internal error", name, m)
		} else if strings.Contains(m.String(), "boom") {
			t.Errorf("%s: the client sees the panic's value: %s", name, m)
		}
	}
	if m := h.Do("prompts/get", map[string]any{"name": "prompt"}); !strings.Contains(string(m.Error()), `the prompt \"prompt\" panicked`) {
		t.Errorf("prompt: %s", m)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "gosdk_test.go") {
		t.Errorf("the panic and where it was are not in the log: %s", &log)
	}
	if m := h.Do("ping", nil); m.IsError() {
		t.Errorf("ping afterwards: %s", m)
	}
}

func TestAHandlerThatEndsItsGoroutineIsAnswered(t *testing.T) {
	h, err := gosdktest.Build(t, shared(map[string]handler{
		"exits": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			runtime.Goexit()
			return nil, nil
		},
	}), gosdktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.Do("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": none{}, "clientInfo": none{}})
	if m := h.Answer(h.GoCall("exits", none{})); !strings.Contains(string(m.Error()), "gave up") {
		t.Errorf("%s, want an error", m)
	}
	// The SDK waits for that handler for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.Runtime.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}

func TestSessionsOnASharedServerAreIsolated(t *testing.T) {
	p := shared(map[string]handler{
		"whoami": func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			s := gosdk.SessionFrom(ctx)
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: s.ID()}); err != nil {
				return nil, err
			}
			return text("%s %s", s.ID(), req.Session.ID()), nil
		},
	})
	var all sync.WaitGroup
	for i := range 40 {
		id := fmt.Sprint("session-", i)
		h := gosdktest.Start(t, p, gosdktest.Options{ID: id})
		all.Go(func() {
			for range 20 {
				if got := h.Call("whoami", none{}).Text(); got != id+" "+id {
					t.Errorf("%s is %s", id, got)
				}
			}
			for _, s := range h.Sent() {
				if s.Is("notifications/progress") && s.ParamString(wire.TokenOfProgress) != id {
					t.Errorf("%s got %s", id, s)
				}
			}
		})
	}
	all.Wait()
}

func TestABackgroundContextHasNoSession(t *testing.T) {
	if s := gosdk.SessionFrom(t.Context()); s != nil {
		t.Errorf("SessionFrom: %v", s)
	}
}

func TestBuildFailsClearly(t *testing.T) {
	for name, c := range map[string]struct {
		f      gosdk.Func
		budget int64
		want   string
	}{
		"an error":  {func(context.Context, mcp.Session) (*sdk.Server, error) { return nil, errors.New("no database") }, 0, "no database"},
		"no server": {func(context.Context, mcp.Session) (*sdk.Server, error) { return nil, nil }, 0, "returned no server"},
		"a panic":   {func(context.Context, mcp.Session) (*sdk.Server, error) { panic("boom") }, 0, "panicked"},
		"no memory": {func(context.Context, mcp.Session) (*sdk.Server, error) { return newServer(nil), nil }, 1000, "do not fit"},
	} {
		h, err := gosdktest.Build(t, gosdk.Plugin(c.f), gosdktest.Options{Budget: c.budget})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if n := h.Charged(); n != 0 {
			t.Errorf("%s: %d bytes stay charged", name, n)
		}
	}
}

// The SDK keeps ids as int64 and takes them as float64. What does not survive that is
// refused; what is accepted comes back as it was.
func TestIDsComeBackAsTheyWere(t *testing.T) {
	h := gosdktest.Start(t, shared(nil), gosdktest.Options{})
	for _, id := range []wire.ID{"0", "-7", "9007199254740992", `"7"`, `"a\"b"`, `""`} {
		h.Deliver(wire.NewRequest(id, "ping", nil))
		h.Answer(id)
	}
	for _, id := range []wire.ID{"1.5", "7.0", "1e3", "9007199254740993", `"\u0061"`} {
		if err := h.Runtime.Deliver(t.Context(), wire.NewRequest(id, "ping", nil)); err == nil {
			t.Errorf("the id %s is accepted", id)
		}
	}
}
