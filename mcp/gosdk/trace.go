package gosdk

import (
	"context"
	"reflect"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"
)

// withTrace gives a handler's context the trace that the request's _meta names, so
// that the spans a handler makes belong to it.
func withTrace(ctx context.Context, p sdk.Params) context.Context {
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ctx // a request without params
	}
	meta := metaCarrier(p.GetMeta())
	if meta.Get("traceparent") == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, meta)
}

type metaCarrier map[string]any

func (m metaCarrier) Get(key string) string {
	s, _ := m[key].(string)
	return s
}
func (m metaCarrier) Set(key, value string) { m[key] = value }
func (m metaCarrier) Keys() []string        { return propagation.TraceContext{}.Fields() }
