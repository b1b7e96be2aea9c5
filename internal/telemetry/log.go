package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds trace_id and span_id to the lines that are logged with a
// context in which a span is recorded.
func LogHandler(h slog.Handler) slog.Handler { return traced{h} }

type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		r.AddAttrs(slog.String("trace_id", s.SpanContext().TraceID().String()), slog.String("span_id", s.SpanContext().SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(as []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(as)} }
func (h traced) WithGroup(name string) slog.Handler    { return traced{h.Handler.WithGroup(name)} }
