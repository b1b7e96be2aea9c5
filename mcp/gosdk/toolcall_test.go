package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// echoServer has a tool that says everything a handler can see of its request.
func echoServer(seen func(method string)) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("%s %s %v %T %q %v", req.Params.Name, req.Params.Arguments, req.Params.Meta, req.Params.GetProgressToken(), req.Params.RequestState, req.Session.ID()), nil
	})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			_, isCall := req.(*sdk.CallToolRequest)
			seen(fmt.Sprint(method, " ", isCall))
			return next(ctx, method, req)
		}
	})
	return server
}

// A tool call that takes the short way is answered as if it had gone through the SDK,
// whatever it looks like.
func TestTheShortWayOfToolCallsMakesNoDifference(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	plugin := func(server *sdk.Server) mcp.Plugin {
		return gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil })
	}
	short := echoServer(func(s string) {
		mu.Lock()
		defer mu.Unlock()
		seen[s]++
	})
	long := echoServer(func(string) {})
	// A server that has a session already takes the SDK's way.
	_, transport := sdk.NewInMemoryTransports()
	other, err := long.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	a, b := gosdktest.Start(t, plugin(short), gosdktest.Options{}), gosdktest.Start(t, plugin(long), gosdktest.Options{})
	for i, params := range []string{
		`{"name":"echo","arguments":{"a":[1,"x",{"b":null}]},"_meta":{"progressToken":7,"more":{"x":[]}}}`,
		`{"name":"echo","arguments":{"a":"ü\u0041\\"},"_meta":{"progressToken":"seven"}}`,
		`{"_meta":{},"arguments":{},"name":"ec\u0068o"}`,
		`{"name":"echo"}`,
		`{"name":"echo","arguments":null}`,
		`{"name":"echo","arguments":[1]}`,
		`{"name":"echo","arguments":"x"}`,
		`{"name":"echo","_meta":null}`,
		`{"name":"echo","_meta":7}`,
		`{"name":"echo","Name":"other"}`,
		`{"name":"echo","requestState":"s"}`,
		`{"name":"echo","requestState":7}`,
		`{"name":"echo","unknown":7}`,
		`{"name":"none"}`,
		`{"name":"none","name":"echo"}`,
		`{"name":"echo","name":7}`,
		`{"name":"echo","_meta":{"a":1},"_meta":{"b":2}}`,
		`{"name":"echo","arguments":{"a":1},"arguments":{"b":2}}`,
		`{"name":""}`,
		`{"name":7}`,
		`{"name":null}`,
		`{}`,
		`{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`,
		`{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}`,
	} {
		ma := a.Do("tools/call", json.RawMessage(params))
		mb := b.Do("tools/call", json.RawMessage(params))
		if ma.String() != mb.String() {
			t.Errorf("%s: %s, through the SDK %s", params, ma, mb)
		}
		if i == 0 && !strings.Contains(ma.String(), "map[more:map[x:[]] progressToken:7] float64") {
			t.Errorf("%s: %s", params, ma)
		}
	}
	a.Close()
	if len(seen) != 3 || seen["initialize false"] != 1 || seen["notifications/initialized false"] != 1 || seen["tools/call true"] < 10 {
		t.Errorf("a middleware sees %v", seen)
	}
}

// The SDK reads a server's methods without a lock, so they can't be added to under the
// eyes of a session that somebody else has with it.
func TestAServerInUseElsewhereIsNotDisturbed(t *testing.T) {
	server := newServer(map[string]handler{"hello": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("hello"), nil }})
	there, here := sdk.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop := make(chan bool)
	var elsewhere sync.WaitGroup
	elsewhere.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "hello"})
				if err != nil || len(r.Content) != 1 {
					t.Errorf("elsewhere: %v, %v", r, err)
					return
				}
			}
		}
	})
	h := gosdktest.Start(t, gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil }), gosdktest.Options{})
	for range 20 {
		if got := h.Call("hello", none{}).Text(); got != "hello" {
			t.Errorf("here: %s", got)
		}
	}
	close(stop)
	elsewhere.Wait()
}

func TestTheShortWayIsClosedToClients(t *testing.T) {
	h := gosdktest.Start(t, shared(nil), gosdktest.Options{})
	for _, params := range []any{nil, map[string]any{"name": "echo"}} {
		m := h.Do("kalpa/tools/call", params)
		want := h.Do("no/such/method", params)
		if m.Kind() != wire.Response || !m.IsError() || !strings.Contains(m.String(), "-32601") {
			t.Errorf("%s, want %s", m, want)
		}
	}
}

// The SDK adds to the results of the revision without sessions, if it is let to.
func TestResultsOfTheNewestRevisionAreTheSDKs(t *testing.T) {
	h := gosdktest.Start(t, shared(map[string]handler{
		"hello": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("hello"), nil },
	}), gosdktest.Options{})
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, c := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"hello",` + meta + `}`, `"io.modelcontextprotocol/serverInfo"`},
		{"tools/call", `{"name":"hello",` + meta + `}`, `"text":"hello"`},
		{"tools/list", `{` + meta + `}`, `"io.modelcontextprotocol/serverInfo"`},
		{"tools/list", `{` + meta + `}`, `"resultType":"complete"`},
	} {
		if m := h.Do(c.method, json.RawMessage(c.params)); !strings.Contains(m.String(), c.want) {
			t.Errorf("%s is not in %s", c.want, m)
		}
	}
}
