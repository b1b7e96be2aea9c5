package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// link watches whether a collector can be reached: the log says so once, when it
// changes, and Shutdown does not wait for one that is away.
type link struct {
	log    *slog.Logger
	ending atomic.Bool // the host is ending

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

// watchedSpans exports over a link. Its second exporter is for the end, when there
// is no time to try again.
type watchedSpans struct {
	sdktrace.SpanExporter
	last sdktrace.SpanExporter
	link *link
}

func (t *Telemetry) watchSpans(s signal) (sdktrace.SpanExporter, error) {
	e, err := spanExporter(s.protocol, true)
	if err != nil {
		return nil, err
	}
	last, err := spanExporter(s.protocol, false)
	return watchedSpans{e, last, t.link("traces", s)}, err
}

func (w watchedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return w.link.attempt(func() error {
		if w.link.ending.Load() {
			return w.last.ExportSpans(ctx, spans)
		}
		return w.SpanExporter.ExportSpans(ctx, spans)
	})
}

func (w watchedSpans) Shutdown(ctx context.Context) error {
	return errors.Join(w.SpanExporter.Shutdown(ctx), w.last.Shutdown(ctx))
}

type watchedMetrics struct {
	sdkmetric.Exporter
	last sdkmetric.Exporter
	link *link
}

func (t *Telemetry) watchMetrics(s signal) (sdkmetric.Exporter, error) {
	e, err := metricExporter(s.protocol, true)
	if err != nil {
		return nil, err
	}
	last, err := metricExporter(s.protocol, false)
	return watchedMetrics{e, last, t.link("metrics", s)}, err
}

func (w watchedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return w.link.attempt(func() error {
		if w.link.ending.Load() {
			return w.last.Export(ctx, m)
		}
		return w.Exporter.Export(ctx, m)
	})
}

func (w watchedMetrics) Shutdown(ctx context.Context) error {
	return errors.Join(w.Exporter.Shutdown(ctx), w.last.Shutdown(ctx))
}
