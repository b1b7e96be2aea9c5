package actor

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kalpahost/kalpa/storage"
)

// requestBuckets of a request's duration, in seconds.
var requestBuckets = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30}

// requests measures the requests that objects serve over HTTP.
type requests struct {
	tracer trace.Tracer // nil: nobody wants spans
	took   metric.Float64Histogram
	labels sync.Map // of requestLabels to []metric.RecordOption
}

type requestLabels struct {
	class  string
	status int // 0: nothing was answered
}

func (m *requests) instrument(p trace.TracerProvider, meter metric.Meter) (err error) {
	if _, none := p.(noop.TracerProvider); p != nil && !none {
		m.tracer = p.Tracer(scope)
	}
	m.took, err = meter.Float64Histogram("kalpa.object.request.duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(requestBuckets...),
		metric.WithDescription("Requests that objects have served over HTTP, from the head to the end of the response."))
	return err
}

// observed is the ResponseWriter of a request that is measured.
type observed struct {
	http.ResponseWriter
	h      *Host
	id     storage.ID
	begun  time.Time
	span   trace.Span // nil: there is none
	status int
}

// observe begins to measure a request: what it returns is to be served. over is nil
// when nobody wants to know.
func (h *Host) observe(w http.ResponseWriter, r *http.Request, id storage.ID) (_ http.ResponseWriter, _ *http.Request, over func()) {
	m := &h.meters.requests
	if m.tracer == nil && !m.took.Enabled(r.Context()) {
		return w, r, nil
	}
	o := &observed{ResponseWriter: w, h: h, id: id, begun: h.o.Clock.Now()}
	if m.tracer != nil {
		ctx := r.Context()
		if !trace.SpanContextFromContext(ctx).IsValid() { // unless a handler around this one has seen to it
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		if ctx, o.span = m.tracer.Start(ctx, "object.request", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(o.begun)); o.span.IsRecording() {
			o.span.SetAttributes(attribute.String("kalpa.class", id.Class), attribute.String("kalpa.object", id.Name),
				attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path))
			r = r.WithContext(ctx)
		}
	}
	return o, r, o.over
}

func (o *observed) over() {
	now := o.h.o.Clock.Now()
	m := &o.h.meters.requests
	m.took.Record(context.Background(), now.Sub(o.begun).Seconds(), m.about(requestLabels{o.id.Class, o.status})...)
	if o.span == nil {
		return
	}
	if o.span.IsRecording() {
		if o.status != 0 {
			o.span.SetAttributes(attribute.Int("http.response.status_code", o.status))
		}
		if cause := o.Header().Get(HeaderCause); cause != "" {
			o.span.SetAttributes(attribute.String("kalpa.cause", cause))
		}
		if o.status >= http.StatusInternalServerError {
			o.span.SetStatus(codes.Error, "")
		}
	}
	o.span.End(trace.WithTimestamp(now))
}

// about are a request's labels, made once for each class and status.
func (m *requests) about(l requestLabels) []metric.RecordOption {
	if known, ok := m.labels.Load(l); ok {
		return known.([]metric.RecordOption)
	}
	labels := []attribute.KeyValue{attribute.String("class", l.class)}
	if l.status != 0 {
		labels = append(labels, attribute.Int("http.response.status_code", l.status))
	}
	known, _ := m.labels.LoadOrStore(l, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))})
	return known.([]metric.RecordOption)
}

func (o *observed) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }
