package session

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/mcp/wire"
)

const scope = "github.com/kalpahost/kalpa/mcp/session"

// Keys of attributes. Those of spans that no convention names begin with kalpa;
// those of metrics are short, since they are Prometheus labels. Session ids are
// for spans alone.
const (
	keyServer     = attribute.Key("kalpa.server")
	keySession    = attribute.Key("mcp.session.id")
	keyEpoch      = attribute.Key("kalpa.epoch")
	keyGeneration = attribute.Key("kalpa.generation")
	keyIsolate    = attribute.Key("kalpa.isolate")
	keyResidents  = attribute.Key("kalpa.residents")
	keyRebuilt    = attribute.Key("kalpa.rebuilt")
	keyReason     = attribute.Key("kalpa.reason")
	keyIdle       = attribute.Key("kalpa.idle_ms")
	keyCause      = attribute.Key("kalpa.cause")

	labelServer  = attribute.Key("server")
	labelIsolate = attribute.Key("isolate")
	labelReason  = attribute.Key("reason")
	labelOutcome = attribute.Key("outcome")
	labelMethod  = attribute.Key("method")
	labelLimit   = attribute.Key("limit")
	// By the conventions for MCP, on the metric that they name.
	keyMethod  = attribute.Key("mcp.method.name")
	labelError = attribute.Key("error.type")
)

// place is where a runtime is resident.
type place struct {
	isolate int
	server  string
}

func (p place) labels(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more, labelIsolate.String(strconv.Itoa(p.isolate)), labelServer.String(p.server))...))
}

// residency is a place in metrics that say more of it: the outcome of a build, or nothing.
type residency struct {
	place
	outcome string
}

// labelsOf are the labels of a place, which are made once: there are few of them.
func (t *telemetry) labelsOf(r residency) []metric.AddOption {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, known := t.places[r]
	if !known {
		var more []attribute.KeyValue
		if r.outcome != "" {
			more = append(more, labelOutcome.String(r.outcome))
		}
		all = []metric.AddOption{r.labels(more...)}
		t.places[r] = all
	}
	return all
}

// telemetry is the instruments of a service. Steps know nothing of them: the
// driver uses them, on what a step has yielded.
type telemetry struct {
	clock  clock.Clock
	tracer trace.Tracer // nil: nobody takes spans

	gauge            metric.Int64UpDownCounter
	builds, disposed metric.Int64Counter
	requests, again  metric.Int64Counter
	refusals         metric.Int64Counter
	duration         metric.Float64Histogram

	mu        sync.Mutex
	residents map[int]int64 // by isolate
	labels    map[series]seriesLabels
	places    map[residency][]metric.AddOption
}

// buckets of request durations, in seconds: the convention's.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

func newTelemetry(c clock.Clock, tp trace.TracerProvider, mp metric.MeterProvider, underWay func(func(server string, n int))) (_ *telemetry, err error) {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	t := &telemetry{clock: c, residents: map[int]int64{}, labels: map[series]seriesLabels{}, places: map[residency][]metric.AddOption{}}
	if _, none := tp.(noop.TracerProvider); !none {
		t.tracer = tp.Tracer(scope)
	}
	m := mp.Meter(scope)
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	t.gauge, err = m.Int64UpDownCounter("kalpa.mcp.resident_runtimes", metric.WithUnit("{runtime}"),
		metric.WithDescription("Runtimes that are built and not yet reaped."))
	var e error
	t.builds, e = m.Int64Counter("kalpa.mcp.runtime.builds", metric.WithUnit("{runtime}"),
		metric.WithDescription("Runtimes that were asked for, by outcome: ready or failed."))
	note(e)
	t.disposed, e = m.Int64Counter("kalpa.mcp.runtime.disposals", metric.WithUnit("{runtime}"),
		metric.WithDescription("Runtimes that were resident and have been reaped, by reason."))
	note(e)
	t.requests, e = m.Int64Counter("kalpa.mcp.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that sessions have accepted and settled, by outcome; lost ones by reason."))
	note(e)
	t.again, e = m.Int64Counter("kalpa.mcp.reexecutions", metric.WithUnit("{request}"),
		metric.WithDescription("Lost calls that were run again instead of being answered as lost."))
	note(e)
	t.refusals, e = m.Int64Counter("kalpa.mcp.refusals", metric.WithUnit("{request}"),
		metric.WithDescription("POSTs that sessions have refused for a limit, by the limit."))
	note(e)
	waiting, e := m.Int64ObservableUpDownCounter("kalpa.mcp.requests.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait for an answer, of all sessions."))
	note(e)
	if e == nil {
		_, e = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
			underWay(func(server string, n int) {
				to.ObserveInt64(waiting, int64(n), metric.WithAttributeSet(attribute.NewSet(labelServer.String(server))))
			})
			return nil
		}, waiting)
		note(e)
	}
	t.duration, e = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(buckets...),
		metric.WithDescription("From a request's admission to its answer."))
	note(e)
	return t, err
}

// begin makes the series of a place known, so that a gauge that has never moved
// says 0.
func (t *telemetry) begin(p place) { t.gauge.Add(context.Background(), 0, p.labels()) }

// add moves the gauge of resident runtimes and returns that of the isolate.
func (t *telemetry) add(p place, n int64) int64 {
	t.gauge.Add(context.Background(), n, t.labelsOf(residency{place: p})...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.residents[p.isolate] += n
	return t.residents[p.isolate]
}

func (t *telemetry) of(isolate int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.residents[isolate]
}

// measure counts what a step has settled, once that is durable.
func (obj *object) measure(t *actor.Turn, all []settlement, again int64) {
	if obj.s.meta == nil {
		return // nothing is left of the session
	}
	server, now := obj.s.meta.Server, t.Now()
	at := obj.place(t)
	t.After(func() {
		obj.svc.telemetry.settled(server, all, now)
		obj.svc.settled(at, all, now)
		if again > 0 {
			obj.svc.telemetry.again.Add(context.Background(), again, metric.WithAttributeSet(attribute.NewSet(labelServer.String(server))))
		}
	})
}

// refused counts a POST that was refused for a limit.
func (t *telemetry) refused(server, limit string) {
	t.refusals.Add(context.Background(), 1, metric.WithAttributeSet(attribute.NewSet(labelServer.String(server), labelLimit.String(limit))))
}

// settlement is the end of a request in the ledger.
type settlement struct {
	method string
	tool   string
	at     time.Time // of its admission
	answer wire.Message
	lost   string // the reason, where its execution was lost
}

// settled counts what a step has settled.
func (t *telemetry) settled(server string, all []settlement, now time.Time) {
	ctx := context.Background()
	if !t.requests.Enabled(ctx) && !t.duration.Enabled(ctx) {
		return
	}
	for _, e := range all {
		outcome, kind := e.outcome()
		k := series{server, bounded(e.method), outcome, e.lost, kind}
		t.mu.Lock()
		labels, known := t.labels[k]
		if !known {
			labels = k.labels()
			t.labels[k] = labels
		}
		t.mu.Unlock()
		t.requests.Add(ctx, 1, labels.count...)
		t.duration.Record(ctx, max(now.Sub(e.at), 0).Seconds(), labels.duration...)
	}
}

// series is all that tells settled requests apart in metrics. There are few: servers
// are configured, and the rest is bounded.
type series struct{ server, method, outcome, lost, kind string }

// seriesLabels are the attributes of a series, which are made once.
type seriesLabels struct {
	count    []metric.AddOption
	duration []metric.RecordOption
}

func (k series) labels() seriesLabels {
	count := []attribute.KeyValue{labelServer.String(k.server), labelMethod.String(k.method), labelOutcome.String(k.outcome)}
	if k.outcome == outcomeLost {
		count = append(count, labelReason.String(k.lost))
	}
	about := []attribute.KeyValue{labelServer.String(k.server), keyMethod.String(k.method)}
	if k.kind != "" {
		about = append(about, labelError.String(k.kind))
	}
	return seriesLabels{
		[]metric.AddOption{metric.WithAttributeSet(attribute.NewSet(count...))},
		[]metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(about...))},
	}
}

// The outcomes of a request.
const (
	outcomeResult    = "result"
	outcomeError     = "error"
	outcomeLost      = "lost"
	outcomeCancelled = "cancelled"
)

// outcome is how a request ended, and the class of the error where it is one.
func (e settlement) outcome() (outcome, kind string) {
	switch {
	case e.lost != "" && e.answer.IsZero():
		return outcomeLost, strconv.Itoa(int(wire.LostExecution))
	case e.lost != "":
		return outcomeLost, knownCode(gjson.GetBytes(e.answer.Error(), "code").Raw)
	case e.answer.IsZero():
		return outcomeCancelled, outcomeCancelled
	case e.answer.IsError():
		return outcomeError, knownCode(gjson.GetBytes(e.answer.Error(), "code").Raw)
	case e.method == "tools/call" && gjson.GetBytes(e.answer.Result(), "isError").Bool():
		return outcomeResult, "tool_error"
	}
	return outcomeResult, ""
}

// knownCode keeps the codes of JSON-RPC and MCP apart, and nothing else: a server
// can make up any number.
func knownCode(code string) string {
	switch code {
	case "-32700", "-32600", "-32601", "-32602", "-32603", "-32010", "-32002", "-32800", "-32801", "-32042":
		return code
	}
	return "_OTHER"
}

// bounded is a method that the protocol has, or "other": a client can make up
// any name.
func bounded(method string) string {
	switch method {
	case "initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"completion/complete", "logging/setLevel",
		"tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result":
		return method
	}
	return "other"
}

// traced gives a request toward a runtime the trace that it belongs to, where the
// client's params allow it. Without a trace the message is as the client wrote it.
func traced(m wire.Message, c trace.SpanContext) wire.Message {
	if !c.IsSampled() {
		return m
	}
	if old := m.Param("_meta"); len(m.Params()) == 0 || len(old) > 0 && old[0] != '{' {
		return m
	}
	fields := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c), fields)
	for _, k := range [...]string{"traceparent", "tracestate"} {
		if v := fields[k]; v != "" {
			m = m.WithParam("_meta."+k, encode(v))
		}
	}
	return m
}
