package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/gosdk"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// greeter says what it sees of an initialize, and refuses some.
func greeter(seen func(string)) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "test <&>", Version: "1"}, &sdk.ServerOptions{Instructions: "be nice"})
	server.AddTool(&sdk.Tool{Name: "who", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p := req.Session.InitializeParams()
		all, err := json.Marshal(p)
		roots := "no capabilities"
		if p.Capabilities != nil {
			roots = fmt.Sprintf("%+v", p.Capabilities.RootsV2)
		}
		return text("%s %s", all, roots), err
	})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "initialize" {
				p := req.(*sdk.ServerRequest[*sdk.InitializeParams])
				seen(fmt.Sprintf("%s %v %v %s", method, len(p.Extra.Header), p.Extra.CloseSSEStream != nil, gosdk.SessionFrom(ctx).ID()))
				switch p.Params.ProtocolVersion {
				case "refuse":
					return nil, errors.New("not you")
				case "panic":
					panic("boom")
				case "exit":
					runtime.Goexit()
				}
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// An initialize that takes the short way is answered as if it had gone through the SDK,
// and leaves the server with the same.
func TestTheShortWayOfInitializeMakesNoDifference(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	long := greeter(func(string) {})
	_, transport := sdk.NewInMemoryTransports()
	other, err := long.Connect(t.Context(), transport, nil) // so that it takes the SDK's way
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	short := greeter(func(s string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, s)
	})
	for i, params := range []string{
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`,
		`{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{}},"experimental":{"x":{"y":[1,"<"]}}},"clientInfo":{"name":"c","title":"\u0041","version":"1","icons":[{"src":"https://c"}]}}`,
		`{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"},"_meta":{"progressToken":7,"a":{"b":null}}}`,
		`{"protocolVersion":"2025-06-18","capabilities":{"roots":null,"extensions":{"v/x":{}}},"unknown":[]}`,
		`{"protocolVersion":"2026-07-28","capabilities":{}}`,
		`{"protocolVersion":"none of ours"}`,
		`{"ProtocolVersion":"2025-06-18","Capabilities":{"roots":{}},"clientinfo":{"name":"c"}}`,
		`{"protocolVersion":"2025-06-18","protocolVersion":"2025-03-26"}`,
		`{"protocolVersion":7}`,
		`{"capabilities":[]}`,
		`{"capabilities":null,"clientInfo":null}`,
		`{"_meta":7}`,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`,
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"},"protocolVersion":"2025-06-18"}`,
		`{"protocolVersion":"2025-06-18","capabilities":{"experimental":` + strings.Repeat(`{"a":`, 1001) + `1` + strings.Repeat(`}`, 1001) + `}}`,
		`{}`, ``,
		`{"protocolVersion":"refuse"}`, `{"protocolVersion":"panic"}`,
	} {
		var said [2]string
		for n, server := range []*sdk.Server{short, long} {
			h, err := gosdktest.Build(t, gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil }), gosdktest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var raw any
			if params != "" {
				raw = json.RawMessage(params)
			}
			m := h.Do("initialize", raw)
			said[n] = m.String()
			if !m.IsError() {
				h.Notify("notifications/initialized", nil)
				said[n] += h.Answer(h.GoCall("who", none{})).String()
			}
			said[n] += h.Do("initialize", raw).String() // once more is an error, or the first that is right
			for _, s := range h.Sent() {
				if s.Kind() == wire.Response && s.About != "" {
					t.Errorf("%s: a response is about %s: %s", params, s.About, s)
				}
			}
			h.Close()
		}
		if said[0] != said[1] {
			t.Errorf("%.200s: %.2000s\nthrough the SDK %.2000s", params, said[0], said[1])
		}
		if i == 1 && !strings.Contains(said[0], "{ListChanged:true}") {
			t.Errorf("%s: %s", params, said[0])
		}
	}
	if len(seen) < 20 || seen[0] != "initialize 0 false test" {
		t.Errorf("a middleware sees %q", seen)
	}
}

// A server that ends its goroutine in initialize leaves nobody without an answer.
func TestInitializeIsAnsweredWhoeverGivesUp(t *testing.T) {
	server := greeter(func(string) {})
	h, err := gosdktest.Build(t, gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) { return server, nil }), gosdktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m := h.Do("initialize", json.RawMessage(`{"protocolVersion":"exit"}`)); !strings.Contains(string(m.Error()), "gave up") {
		t.Errorf("%s", m)
	}
	// The SDK waits for it for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.Runtime.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}
