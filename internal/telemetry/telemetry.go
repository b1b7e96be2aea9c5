package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options say where telemetry goes. Besides them, the environment's OTEL_*
// variables do.
type Options struct {
	// Version is the program's, as `kalpa version` prints it, and Revision what it
	// was built from; empty where that is not known.
	Version, Revision string
	// TraceFile is the file that spans are appended to; empty: none.
	TraceFile string
	// Prometheus: metrics are kept for [Telemetry.Handler].
	Prometheus bool
	// Logger takes what operators should know. Nil: slog.Default.
	Logger *slog.Logger
}

// flushLimit is how long Shutdown waits for the collector: enough for one on this
// network, and a part of the time that a host has to end.
const flushLimit = time.Second

// Telemetry is what Start has set up.
type Telemetry struct {
	spans   *sdktrace.TracerProvider // nil: not asked for
	metrics *sdkmetric.MeterProvider // nil: not asked for
	page    http.Handler             // nil: not asked for
	links   []*link
	log     *slog.Logger
}

// Start sets up what the options and the environment ask for. It connects to
// nothing. An error means that they can't be followed; an [*EnvError] that a
// variable is to blame.
func Start(o Options) (_ *Telemetry, err error) {
	t := &Telemetry{log: o.Logger}
	if t.log == nil {
		t.log = slog.Default()
	}
	env, err := readEnv(t.log)
	if err != nil {
		return nil, err
	}
	about, err := describe(o.Version)
	if err != nil {
		return nil, err
	}
	if env.any() {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.log.Debug("telemetry", "error", err) }))
	}

	tracing := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if env.traces.protocol != "" {
		exporter, err := t.watchSpans(env.traces)
		if err != nil {
			return nil, err
		}
		tracing = append(tracing, sdktrace.WithBatcher(exporter))
	}
	if o.TraceFile != "" {
		f, err := openFile(o.TraceFile, t.log)
		if err != nil {
			return nil, err
		}
		tracing = append(tracing, sdktrace.WithSpanProcessor(f))
	}
	if len(tracing) > 1 {
		t.spans = sdktrace.NewTracerProvider(tracing...)
	}

	metering := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if env.metrics.protocol != "" {
		exporter, err := t.watchMetrics(env.metrics)
		if err != nil {
			return nil, err
		}
		metering = append(metering, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	if o.Prometheus {
		reader, err := t.prometheus()
		if err != nil {
			return nil, err
		}
		metering = append(metering, sdkmetric.WithReader(reader))
	}
	if len(metering) > 1 {
		t.metrics = sdkmetric.NewMeterProvider(metering...)
		if err := buildInfo(t.metrics, o); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// describe is the resource: what all spans and metrics are about. The environment
// has the last word.
func describe(version string) (*resource.Resource, error) {
	about, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("kalpa"), semconv.ServiceVersion(version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, &EnvError{Name: "OTEL_RESOURCE_ATTRIBUTES", Err: err}
	}
	return about, nil
}

// prometheus makes the page and the reader that fills it.
func (t *Telemetry) prometheus() (sdkmetric.Reader, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.page = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn)})
	return promexporter.New(
		promexporter.WithRegisterer(registry),
		promexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		promexporter.WithoutScopeInfo(),  // the names say whose they are
		promexporter.WithoutTargetInfo(), // kalpa_build_info says it
	)
}

func buildInfo(p metric.MeterProvider, o Options) error {
	m := p.Meter("github.com/kalpahost/kalpa/internal/telemetry")
	set := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("version", o.Version), attribute.String("revision", o.Revision), attribute.String("go_version", runtime.Version())))
	_, err := m.Int64ObservableGauge("kalpa.build_info", metric.WithDescription("Which program this is; always 1."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, set)
			return nil
		}))
	return err
}

// TracerProvider is where spans are made: OpenTelemetry's global one when nobody
// has asked for any here.
func (t *Telemetry) TracerProvider() trace.TracerProvider {
	if t.spans == nil {
		return otel.GetTracerProvider()
	}
	return t.spans
}

// nobody is the global provider that nobody has set.
var nobody = otel.GetTracerProvider()

// Traced is TracerProvider for what is too hot to make spans that nobody takes: the noop
// package's when nobody has asked for any, here or by setting the global one.
func (t *Telemetry) Traced() trace.TracerProvider {
	if p := t.TracerProvider(); p != nobody {
		return p
	}
	return noop.NewTracerProvider()
}

// MeterProvider is where metrics are made; see [Telemetry.TracerProvider].
func (t *Telemetry) MeterProvider() metric.MeterProvider {
	if t.metrics == nil {
		return otel.GetMeterProvider()
	}
	return t.metrics
}

// Handler serves the metrics to Prometheus; nil unless they were asked for.
func (t *Telemetry) Handler() http.Handler { return t.page }

// Shutdown sends what has not been sent, as long as ctx allows and flushLimit.
// What has not arrived by then is lost, and said so in the log.
func (t *Telemetry) Shutdown(ctx context.Context) {
	limit := flushLimit
	for _, l := range t.links {
		l.ending.Store(true)
		if l.away() {
			limit = 50 * time.Millisecond
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var all sync.WaitGroup
	var failed [2]error
	if t.spans != nil {
		all.Go(func() { failed[0] = t.spans.Shutdown(ctx) })
	}
	if t.metrics != nil {
		all.Go(func() { failed[1] = t.metrics.Shutdown(ctx) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }() // ends with the exporters, which ctx bounds
	select {
	case <-done:
		if err := errors.Join(failed[:]...); err != nil {
			t.log.Warn("the last spans and metrics were not sent", "error", err)
		}
	case <-ctx.Done():
		t.log.Warn("the last spans and metrics were not sent in time", "limit", limit)
	}
}
