package telemetry_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/kalpahost/kalpa/internal/telemetry"
)

// clean takes away what the machine that runs the tests may have set.
func clean(t *testing.T) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, o telemetry.Options) (*telemetry.Telemetry, *logged) {
	t.Helper()
	var log logged
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	begun := time.Now()
	tel, err := telemetry.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("starting took %v", took)
	}
	t.Cleanup(func() { tel.Shutdown(context.Background()) })
	return tel, &log
}

func span(tel *telemetry.Telemetry, name string, as ...attribute.KeyValue) {
	_, s := tel.TracerProvider().Tracer("test").Start(context.Background(), name)
	s.SetAttributes(as...)
	s.End()
}

func TestNothingIsMadeWhenNothingIsAskedFor(t *testing.T) {
	clean(t)
	tel, _ := start(t, telemetry.Options{})
	_, s := tel.TracerProvider().Tracer("test").Start(t.Context(), "x")
	if s.IsRecording() {
		t.Error("a span is recorded, and for nobody")
	}
	if tel.Handler() != nil {
		t.Error("there is a page of metrics that nobody asked for")
	}
}

func TestSpansAreInTheFileWhenTheyEnd(t *testing.T) {
	clean(t)
	path := filepath.Join(t.TempDir(), "spans")
	tel, _ := start(t, telemetry.Options{TraceFile: path})
	ctx, outer := tel.TracerProvider().Tracer("test").Start(t.Context(), "outer")
	_, inner := tel.TracerProvider().Tracer("test").Start(ctx, "inner")
	inner.SetAttributes(attribute.String("s", "a\nb"), attribute.Int("n", 7), attribute.Bool("b", true), attribute.Float64("f", 1.5))
	inner.SetStatus(codes.Error, "because")
	inner.End()
	read := func() (lines []telemetry.Span) {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			var line telemetry.Span
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, s.Text())
			}
			lines = append(lines, line)
		}
		return lines
	}
	lines := read()
	if len(lines) != 1 {
		t.Fatalf("%d lines, want the one span that has ended", len(lines))
	}
	got := lines[0]
	if got.Name != "inner" || got.Kind != "internal" || got.Status != "error" || got.Message != "because" ||
		got.ParentID != outer.SpanContext().SpanID().String() || got.TraceID != outer.SpanContext().TraceID().String() {
		t.Errorf("got %+v", got)
	}
	if fmt.Sprint(got.Attributes) != "map[b:true f:1.5 n:7 s:a\nb]" {
		t.Errorf("attributes %v", got.Attributes)
	}
	if got.End.Before(got.Start) || time.Since(got.Start) > time.Minute {
		t.Errorf("from %v to %v", got.Start, got.End)
	}
	outer.End()
	if lines = read(); len(lines) != 2 || lines[1].ParentID != "" || lines[1].Status != "unset" {
		t.Errorf("then %+v", lines)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v: others can read the session ids in it", info.Mode(), err)
	}

	// A second host goes on in the same file; many spans at once are whole lines.
	tel.Shutdown(t.Context())
	tel, _ = start(t, telemetry.Options{TraceFile: path})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				span(tel, "many", attribute.String("long", strings.Repeat("x", 500)))
			}
		})
	}
	all.Wait()
	if lines = read(); len(lines) != 2+4000 {
		t.Errorf("%d lines, want %d", len(lines), 2+4000)
	}
}

func TestTraceFileThatCannotBeWritten(t *testing.T) {
	clean(t)
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "not", "there")} {
		if _, err := telemetry.Start(telemetry.Options{TraceFile: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// collector takes OTLP by both protocols.
type collector struct {
	tracespb.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []string
	metrics []string
	service string
}

func (c *collector) traces(r *tracespb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" || a.Key == "service.version" {
				c.service += a.Value.GetStringValue() + " "
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, s.Name)
			}
		}
	}
}

func (c *collector) measures(r *metricspb.ExportMetricsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rm := range r.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics = append(c.metrics, m.Name)
			}
		}
	}
}

func (c *collector) Export(_ context.Context, r *tracespb.ExportTraceServiceRequest) (*tracespb.ExportTraceServiceResponse, error) {
	c.traces(r)
	return &tracespb.ExportTraceServiceResponse{}, nil
}

type metricsCollector struct {
	metricspb.UnimplementedMetricsServiceServer
	*collector
}

func (c metricsCollector) Export(_ context.Context, r *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	c.measures(r)
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/v1/traces":
		var m tracespb.ExportTraceServiceRequest
		if proto.Unmarshal(body, &m) == nil {
			c.traces(&m)
		}
	case "/v1/metrics":
		var m metricspb.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &m) == nil {
			c.measures(&m)
		}
	default:
		http.NotFound(w, r)
	}
}

func TestCollectorGetsSpansAndMetricsByTheProtocolThatIsAskedFor(t *testing.T) {
	for _, protocol := range []string{"", "http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			clean(t)
			c := &collector{}
			if protocol == "grpc" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				s := grpc.NewServer()
				tracespb.RegisterTraceServiceServer(s, c)
				metricspb.RegisterMetricsServiceServer(s, metricsCollector{collector: c})
				go func() { _ = s.Serve(l) }()
				t.Cleanup(s.Stop)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
			} else {
				s := httptest.NewServer(c)
				t.Cleanup(s.Close)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			tel, log := start(t, telemetry.Options{Version: "v1.2.3"})
			span(tel, "one")
			tel.Shutdown(t.Context())
			c.mu.Lock()
			defer c.mu.Unlock()
			if fmt.Sprint(c.spans) != "[one]" || fmt.Sprint(c.metrics) != "[kalpa.build_info]" || c.service != "kalpa v1.2.3 " {
				t.Errorf("the collector got spans %v, metrics %v of %q\n%s", c.spans, c.metrics, c.service, log)
			}
		})
	}
}

// A collector that refuses connections, and one that takes them and says nothing.
func TestCollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	for name, address := range map[string]string{"silent": silent.Addr().String(), "refusing": refusing.Addr().String()} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				clean(t)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				tel, _ := start(t, telemetry.Options{})
				begun := time.Now()
				for range 300 { // less than what is sent by itself
					span(tel, "x")
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("making 300 spans took %v", took)
				}
				begun = time.Now()
				tel.Shutdown(t.Context())
				limit := 1300 * time.Millisecond
				if name == "refusing" {
					limit = 600 * time.Millisecond
				}
				if took := time.Since(begun); took > limit {
					t.Errorf("shutdown took %v", took)
				}
			})
		}
	}
	t.Run("known to be away", func(t *testing.T) {
		clean(t)
		var refused atomic.Bool
		ended := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if refused.Swap(true) {
				<-ended // and from then on says nothing
			}
			w.WriteHeader(http.StatusBadRequest)
		}))
		defer s.Close()
		defer close(ended)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
		t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
		tel, log := start(t, telemetry.Options{})
		span(tel, "x")
		for end := time.Now().Add(5 * time.Second); !strings.Contains(log.String(), "does not reach its collector"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the log does not say that the collector is away:\n%s", log)
			}
		}
		span(tel, "y")
		begun := time.Now()
		tel.Shutdown(t.Context())
		if took := time.Since(begun); took > 300*time.Millisecond {
			t.Errorf("shutdown waited %v for a collector that was known to be away", took)
		}
	})
}

func TestVariablesThatCannotBeFollowed(t *testing.T) {
	for _, c := range []struct {
		name, value string
		wrong       string // in the error
		warned      string // in the log
	}{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "OTEL_EXPORTER_OTLP_ENDPOINT: ", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_ENDPOINT: ", ""},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: ", ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "", "protocol not known"},
		{"OTEL_TRACES_EXPORTER", "zipkin", "", "exporter not known"},
		{"OTEL_TRACES_EXPORTER", "none", "", ""},
		{"OTEL_SDK_DISABLED", "true", "", ""},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			clean(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_METRICS_EXPORTER", "none")
			if strings.Contains(c.name, "_METRICS_") {
				t.Setenv("OTEL_METRICS_EXPORTER", "")
			}
			t.Setenv(c.name, c.value)
			var log logged
			tel, err := telemetry.Start(telemetry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if c.wrong != "" {
				if _, ok := errors.AsType[*telemetry.EnvError](err); !ok || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer tel.Shutdown(t.Context())
			if got := log.String(); strings.Contains(got, "known") != (c.warned != "") || !strings.Contains(got, c.warned) {
				t.Errorf("logged %q", got)
			}
			_, s := tel.TracerProvider().Tracer("test").Start(t.Context(), "x")
			if on := c.name == "OTEL_EXPORTER_OTLP_PROTOCOL"; s.IsRecording() != on {
				t.Errorf("recording: %v", s.IsRecording())
			}
		})
	}
}

func TestLogLinesHaveTheSpanOfTheirContext(t *testing.T) {
	clean(t)
	tel, _ := start(t, telemetry.Options{TraceFile: filepath.Join(t.TempDir(), "spans")})
	var out bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(&out, nil))).With("a", 1)
	ctx, s := tel.TracerProvider().Tracer("test").Start(t.Context(), "x")
	log.InfoContext(ctx, "in")
	log.InfoContext(t.Context(), "out")
	log.Info("out")
	if want := "trace_id=" + s.SpanContext().TraceID().String() + " span_id=" + s.SpanContext().SpanID().String(); strings.Count(out.String(), want) != 1 || strings.Count(out.String(), "trace_id") != 1 {
		t.Errorf("logged:\n%swant once %s", out.String(), want)
	}
}

func TestNobodyTakesSpansUntilSomebodyAsks(t *testing.T) {
	var off telemetry.Telemetry
	if off.Traced() != trace.TracerProvider(noop.NewTracerProvider()) {
		t.Error("spans are made for nobody")
	}
	was := otel.GetTracerProvider()
	defer otel.SetTracerProvider(was)
	own := sdktrace.NewTracerProvider()
	otel.SetTracerProvider(own)
	if off.Traced() != trace.TracerProvider(own) {
		t.Error("a program's own provider gets none")
	}
}
