package actor_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
)

func TestRequestsOfObjectsAreMeasured(t *testing.T) {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	var seen atomic.Pointer[trace.SpanContext]
	w := newWeb(t, actor.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	}, pages{serve: func(s *actor.State, w http.ResponseWriter, r *http.Request) {
		span := trace.SpanContextFromContext(r.Context())
		seen.Store(&span)
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/abort":
			s.Abort(nil)
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}})
	for path, want := range map[string]struct {
		status int
		cause  string
	}{
		"/fine": {status: 200}, "/teapot": {status: 418}, "/abort": {500, actor.Aborted.String()},
	} {
		before := len(spans.Ended())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.address("a"+path), nil)
		if err != nil {
			t.Fatal(err)
		}
		const parent = "0af7651916cd43dd8448eb211c80319c"
		r.Header.Set("Traceparent", "00-"+parent+"-b7ad6b7169203331-01")
		res, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		for end := time.Now().Add(10 * time.Second); len(spans.Ended()) == before && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // the span ends after the response
		}
		all := spans.Ended()
		if len(all) != before+1 {
			t.Fatalf("%s: %d spans more", path, len(all)-before)
		}
		span := all[before]
		about := map[string]string{}
		for _, a := range span.Attributes() {
			about[string(a.Key)] = a.Value.String()
		}
		if span.Name() != "object.request" || span.SpanKind() != trace.SpanKindServer || span.Parent().TraceID().String() != parent {
			t.Errorf("%s: %s of kind %v, with parent %v", path, span.Name(), span.SpanKind(), span.Parent())
		}
		if about["kalpa.class"] != "page" || about["kalpa.object"] != "a" || about["http.request.method"] != "GET" || about["kalpa.cause"] != want.cause {
			t.Errorf("%s: %v", path, about)
		}
		if seen.Load().SpanID() != span.SpanContext().SpanID() {
			t.Errorf("%s: the handler's span is %v, and not %v", path, seen.Load().SpanID(), span.SpanContext().SpanID())
		}
		if res.StatusCode != want.status {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
	got := figures(t, reader)
	for _, status := range []string{"200", "418", "500"} {
		if n := got["kalpa.object.request.duration{class=page,http.response.status_code="+status+"}"]; n != 1 {
			t.Errorf("%d requests with status %s: %v", n, status, got)
		}
	}
}
