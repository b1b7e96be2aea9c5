package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Span is one line of a trace file. Fields may be added to it.
type Span struct {
	Name    string `json:"name"`
	TraceID string `json:"trace_id"` // 32 hexadecimal digits
	SpanID  string `json:"span_id"`  // 16
	// ParentID is empty for the first span of a trace; it may be another program's.
	ParentID string    `json:"parent_span_id,omitempty"`
	Kind     string    `json:"kind"` // internal, server, client, producer, consumer
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	// Status is unset, error or ok; Message says more about an error.
	Status  string `json:"status"`
	Message string `json:"status_message,omitempty"`
	// Attributes are strings, numbers, booleans, and lists of them.
	Attributes map[string]any `json:"attributes"`
	Links      []SpanLink     `json:"links,omitempty"`
	Events     []SpanEvent    `json:"events,omitempty"`
}

// SpanLink names a span of perhaps another trace that has to do with this one.
type SpanLink struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
}

// SpanEvent is something that happened during a span.
type SpanEvent struct {
	Name       string         `json:"name"`
	Time       time.Time      `json:"time"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

func lineOf(s sdktrace.ReadOnlySpan) Span {
	line := Span{
		Name: s.Name(), TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(),
		Kind: s.SpanKind().String(), Start: s.StartTime().UTC(), End: s.EndTime().UTC(),
		Status: map[string]string{"Unset": "unset", "Error": "error", "Ok": "ok"}[s.Status().Code.String()], Message: s.Status().Description,
		Attributes: values(s.Attributes()),
	}
	if s.Parent().HasSpanID() {
		line.ParentID = s.Parent().SpanID().String()
	}
	for _, l := range s.Links() {
		line.Links = append(line.Links, SpanLink{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
	}
	for _, e := range s.Events() {
		line.Events = append(line.Events, SpanEvent{e.Name, e.Time.UTC(), values(e.Attributes)})
	}
	return line
}

func values(as []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(as))
	for _, a := range as {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// file writes each span when it ends, in one write, so that a reader finds it at
// once and whole. It has no queue: what a queue drops when ten thousand runtimes
// are disposed of at once is what somebody wanted to see.
type file struct {
	log *slog.Logger

	mu     sync.Mutex
	f      *os.File // nil: closed
	failed bool
}

// openFile opens a trace file for appending. Spans hold session ids, which are
// keys: nobody else may read them.
func openFile(path string, log *slog.Logger) (*file, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("can't write the trace file %s: it is a pipe, and whoever does not read it would stop the host", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("can't write the trace file: %w", err)
	}
	return &file{log: log, f: f}, nil
}

func (*file) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (w *file) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	line, err := json.Marshal(lineOf(s))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return
	}
	if err == nil {
		_, err = w.f.Write(append(line, '\n'))
	}
	if err != nil && !w.failed {
		w.log.Warn("a span can't be written to the trace file; this is not said again", "file", w.f.Name(), "error", err)
	}
	w.failed = w.failed || err != nil
}

func (*file) ForceFlush(context.Context) error { return nil }

func (w *file) Shutdown(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

var _ sdktrace.SpanProcessor = (*file)(nil)
