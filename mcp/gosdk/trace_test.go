package gosdk_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
)

func TestHandlerWorksUnderTheTraceOfItsRequest(t *testing.T) {
	h := gosdktest.Start(t, shared(map[string]handler{
		"trace": func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			s := trace.SpanContextFromContext(ctx)
			if !s.IsValid() {
				return text("none"), nil
			}
			return text("%s %s %t %s", s.TraceID(), s.SpanID(), s.IsRemote(), s.TraceState()), nil
		},
	}), gosdktest.Options{})
	for meta, want := range map[string]string{
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1"}`: `"0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 true a=1"`,
		`{}`:                        `"none"`,
		`{"traceparent":7}`:         `"none"`,
		`{"traceparent":"rubbish"}`: `"none"`,
	} {
		m := h.Do("tools/call", json.RawMessage(`{"name":"trace","arguments":{},"_meta":`+meta+`}`))
		if !strings.Contains(m.String(), want) {
			t.Errorf("%s: got %s, want %s", meta, m, want)
		}
	}
}
