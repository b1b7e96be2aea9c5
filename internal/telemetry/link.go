package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// link watches whether a collector can be reached: the log says so once, when it
// changes, and Shutdown does not wait for one that is away.
type link struct {
	log *slog.Logger

	mu      sync.Mutex
	failing bool
	since   time.Time // of the attempt under way; zero when there is none
}

// patience is how long an attempt may take before its collector counts as away.
const patience = time.Second

func (t *Telemetry) link(what string, s signal) *link {
	l := &link{log: t.log.With("signal", what, "endpoint", s.endpoint, "protocol", s.protocol)}
	t.links = append(t.links, l)
	return l
}

func (l *link) away() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failing || !l.since.IsZero() && time.Since(l.since) > patience
}

// attempt runs one export.
func (l *link) attempt(export func() error) error {
	l.mu.Lock()
	l.since = time.Now()
	l.mu.Unlock()
	err := export()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
	switch failing := err != nil; {
	case failing && !l.failing:
		l.log.Warn("telemetry does not reach its collector, and is dropped until it does", "error", err)
	case !failing && l.failing:
		l.log.Info("telemetry reaches its collector again")
	}
	l.failing = err != nil
	return err
}

type watchedSpans struct {
	sdktrace.SpanExporter
	link *link
}

func (w watchedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return w.link.attempt(func() error { return w.SpanExporter.ExportSpans(ctx, spans) })
}

type watchedMetrics struct {
	sdkmetric.Exporter
	link *link
}

func (w watchedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return w.link.attempt(func() error { return w.Exporter.Export(ctx, m) })
}
