package cmd

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/kalpahost/kalpa/internal/telemetry"
)

// observe sets up where spans and metrics go. What is set up here is the whole
// program's: a plugin that uses OpenTelemetry's globals adds to it.
func (h *host) observe() (err error) {
	v, revision := built()
	h.telemetry, err = telemetry.Start(telemetry.Options{
		Version: v, Revision: revision, TraceFile: h.c.TraceFile, Prometheus: h.admin != nil, Logger: h.log,
	})
	if wrong, ok := errors.AsType[*telemetry.EnvError](err); ok {
		return &usageError{err: wrong, hint: "docs/telemetry.md says what the variables mean"}
	}
	if err != nil {
		return err
	}
	if p := h.telemetry.TracerProvider(); p != otel.GetTracerProvider() {
		otel.SetTracerProvider(p)
		otel.SetTextMapPropagator(propagation.TraceContext{})
	}
	if p := h.telemetry.MeterProvider(); p != otel.GetMeterProvider() {
		otel.SetMeterProvider(p)
	}
	return nil
}
