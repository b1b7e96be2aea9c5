// Package telemetry turns on what the other packages measure. They use the
// OpenTelemetry API alone and take its providers as options; here is where the
// providers come from, and where spans and metrics go:
//
//   - to a collector by OTLP, when an OTEL_EXPORTER_OTLP_*ENDPOINT variable names
//     one. The standard variables say how: see docs/telemetry.md.
//   - to a file, a line of JSON for each span: see [Span].
//   - to Prometheus, which fetches them: see [Telemetry.Handler].
//
// What is not asked for costs nothing: without any of these, the providers are
// OpenTelemetry's global ones, which a program may have set itself.
//
// # When the collector is away
//
// Nothing waits for it. Starting does not connect. Spans are queued up to a bound
// and then dropped. Shutdown sends what is left within flushLimit, and does not
// even try where the last attempt has failed.
package telemetry
