package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// EnvError is a variable of the environment that can't be followed.
type EnvError struct {
	Name string
	Err  error
}

func (e *EnvError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *EnvError) Unwrap() error { return e.Err }

// The protocols of OTLP. The third, http/json, is not in use: what takes it takes
// http/protobuf.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// signal is how one kind of telemetry is exported.
type signal struct {
	protocol string // empty: it is not
	endpoint string
}

// environment is what the OTEL_* variables ask for. The rest of them (headers,
// time-outs, certificates, sampler, batches) the SDK reads itself.
type environment struct{ traces, metrics signal }

func (e environment) any() bool { return e.traces.protocol != "" || e.metrics.protocol != "" }

// readEnv reads which signals go where. A value that is not known is ignored with
// a warning, as the specification wants it; an endpoint that can't be one is an
// error, since nothing would ever arrive.
func readEnv(log *slog.Logger) (environment, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return environment{}, nil
	}
	traces, err := readSignal("TRACES", log)
	metrics, err2 := readSignal("METRICS", log)
	return environment{traces, metrics}, errors.Join(err, err2)
}

func readSignal(name string, log *slog.Logger) (s signal, err error) {
	switch exporter := os.Getenv("OTEL_" + name + "_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return s, nil
	default:
		log.Warn("exporter not known here, and left out: otlp and none are", "variable", "OTEL_"+name+"_EXPORTER", "value", exporter)
		return s, nil
	}
	key, endpoint := first("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" {
		return s, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return s, &EnvError{Name: key, Err: fmt.Errorf("%q is not an address such as http://127.0.0.1:4318", endpoint)}
	}
	s.endpoint, s.protocol = endpoint, protocolHTTP
	if key, protocol := first("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" {
		if !slices.Contains([]string{protocolHTTP, protocolGRPC}, protocol) {
			log.Warn("protocol not known here: http/protobuf is used", "variable", key, "value", protocol)
			protocol = protocolHTTP
		}
		s.protocol = protocol
	}
	return s, nil
}

// first is the first variable that is set, and its value.
func first(names ...string) (name, value string) {
	for _, name := range names {
		if v := strings.TrimSpace(os.Getenv(name)); v != "" {
			return name, v
		}
	}
	return "", ""
}

// A batch is sent again for so long. A collector that restarts is back by then;
// one that is away must not hold up what comes after.
const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 2 * time.Second
	retryLimit = 5 * time.Second
)

// spanExporter makes an exporter. One that does not persist says at once that its
// collector is away.
func spanExporter(protocol string, persist bool) (sdktrace.SpanExporter, error) {
	ctx := context.Background()
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: persist, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryLimit}))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: persist, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryLimit}))
}

func metricExporter(protocol string, persist bool) (sdkmetric.Exporter, error) {
	ctx := context.Background()
	if protocol == protocolGRPC {
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{
			Enabled: persist, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryLimit}))
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{
		Enabled: persist, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: retryLimit}))
}
