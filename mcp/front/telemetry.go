package front

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kalpahost/kalpa/mcp/wire"
)

const scope = "github.com/kalpahost/kalpa/mcp/front"

// Keys of attributes: those of the semantic conventions for MCP, and our own
// where they name nothing.
const (
	keyMethod     = attribute.Key("mcp.method.name")
	keySession    = attribute.Key("mcp.session.id")
	keyProtocol   = attribute.Key("mcp.protocol.version")
	keyResource   = attribute.Key("mcp.resource.uri")
	keyRequest    = attribute.Key("jsonrpc.request.id")
	keyTool       = attribute.Key("gen_ai.tool.name")
	keyPrompt     = attribute.Key("gen_ai.prompt.name")
	keyOperation  = attribute.Key("gen_ai.operation.name")
	keyTransport  = attribute.Key("network.transport")
	keyNetwork    = attribute.Key("network.protocol.name")
	keyNetVersion = attribute.Key("network.protocol.version")
	keyError      = attribute.Key("error.type")
	keyCode       = attribute.Key("rpc.response.status_code")
	keyStatus     = attribute.Key("http.response.status_code")
	keyServer     = attribute.Key("kalpa.server")
	keyBatch      = attribute.Key("kalpa.batch.size")
	keyOutcome    = attribute.Key("kalpa.outcome")
	keyReason     = attribute.Key("kalpa.reason")
)

// How an exchange ended, as its span says.
const (
	answered = "answered" // with a result, or an error of the server's
	accepted = "accepted" // there was nothing to answer
	refused  = "refused"  // by the front or the session
	lost     = "lost"     // with a lost-execution error
	parked   = "parked"   // the client is to come back for the answer
	left     = "gone"     // the client went away, or did not read
)

// begin starts the span of a POST. Its parent is the one that the message names,
// else the one that the HTTP request does.
func (x *exchange) begin(ms []wire.Message) {
	ctx := x.ctx
	if !trace.SpanContextFromContext(ctx).IsValid() { // unless a handler around this one has seen to it
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(x.r.Header))
	}
	if x.f.tracer == nil {
		x.ctx = ctx
		return
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(x.now())}
	if !x.batch && bytes.Contains(ms[0].Params(), []byte("traceparent")) { // quick to say no to a large body
		if named := (propagation.TraceContext{}).Extract(x.ctx, metaOf(ms[0])); trace.SpanContextFromContext(named).IsRemote() {
			if around := trace.SpanContextFromContext(ctx); around.IsValid() {
				options = append(options, trace.WithLinks(trace.Link{SpanContext: around}))
			}
			ctx = named
		}
	}
	x.ctx, x.span = x.f.tracer.Start(ctx, "mcp.request", options...)
	if x.recording() {
		x.describe(ms)
	}
}

func (x *exchange) recording() bool { return x.span != nil && x.span.IsRecording() }

// metaOf reads the trace that a message names in its _meta.
type metaOf wire.Message

func (m metaOf) Get(key string) string { return wire.Message(m).ParamString("_meta." + key) }
func (m metaOf) Set(string, string)    {}
func (m metaOf) Keys() []string        { return []string{"traceparent", "tracestate"} }

// trace is what the session is told of the span: nothing unless it is recorded.
func (x *exchange) trace() trace.SpanContext {
	if !x.recording() {
		return trace.SpanContext{}
	}
	return x.span.SpanContext()
}

func (x *exchange) describe(ms []wire.Message) {
	x.span.SetAttributes(keyServer.String(x.f.o.Server), keySession.String(x.id),
		keyTransport.String("tcp"), keyNetwork.String("http"), keyNetVersion.String(strings.TrimSuffix(strings.TrimPrefix(x.r.Proto, "HTTP/"), ".0")))
	if x.caller.Version != "" {
		x.span.SetAttributes(keyProtocol.String(x.caller.Version))
	}
	if x.batch {
		x.span.SetAttributes(keyBatch.Int(len(ms)))
		return
	}
	m := ms[0]
	if m.Method() != "" {
		x.span.SetAttributes(keyMethod.String(m.Method()))
	}
	if m.Kind() != wire.Notification {
		x.span.SetAttributes(keyRequest.String(text(m.ID())))
	}
	switch m.Method() {
	case "initialize":
		x.span.SetAttributes(keyProtocol.String(m.ParamString("protocolVersion")))
	case "tools/call":
		x.span.SetAttributes(keyOperation.String("execute_tool"), keyTool.String(m.ParamString("name")))
	case "prompts/get":
		x.span.SetAttributes(keyPrompt.String(m.ParamString("name")))
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		x.span.SetAttributes(keyResource.String(m.ParamString("uri")))
	}
}

// text is an id as the conventions write it: a string without its quotes.
func text(id wire.ID) string {
	var s string
	if json.Unmarshal([]byte(id), &s) == nil {
		return s
	}
	return string(id)
}

// answer notes in the span what a request was answered with.
func (x *exchange) answer(message []byte) {
	if !x.recording() {
		return
	}
	found := gjson.GetManyBytes(message, "error.code", "error.message", "error.data.reason", "result.isError")
	switch code := found[0].Raw; {
	case code != "":
		x.span.SetStatus(codes.Error, found[1].Str)
		x.span.SetAttributes(keyError.String(code), keyCode.String(code))
		if reason := found[2].Str; reason != "" && found[0].Int() == int64(wire.LostExecution) {
			x.outcome, x.reason = lost, reason
		}
	case found[3].Bool():
		x.span.SetAttributes(keyError.String("tool_error"))
		x.span.SetStatus(codes.Error, "")
	}
}

// tell ends the span.
func (x *exchange) tell(no *Refusal) {
	if !x.recording() {
		return
	}
	outcome := x.outcome
	switch {
	case no != nil:
		outcome = refused
		x.answer(no.Body.Bytes())
		x.span.SetAttributes(keyStatus.Int(no.Status))
	case outcome == "" && x.status != 0:
		outcome = accepted
	case outcome == "":
		outcome = answered
	}
	x.span.SetAttributes(keyOutcome.String(outcome))
	if x.reason != "" {
		x.span.SetAttributes(keyReason.String(x.reason))
	}
	x.span.End(trace.WithTimestamp(x.now()))
}

// tracer is nil when nobody takes spans.
func (o Options) tracer() trace.Tracer {
	switch p := o.TracerProvider.(type) {
	case nil:
		return otel.GetTracerProvider().Tracer(scope)
	case noop.TracerProvider:
		return nil
	default:
		return p.Tracer(scope)
	}
}

// instrument registers the figures of Stats.
func (f *Front) instrument(p metric.MeterProvider) error {
	m := p.Meter(scope)
	server := metric.WithAttributeSet(attribute.NewSet(attribute.String("server", f.o.Server)))
	type figure struct {
		name, unit, about string
		gauge             bool
		value             func(Stats) int64
	}
	for _, g := range []figure{
		{"kalpa.mcp.front.streams", "{stream}", "Exchanges that are open.", true, func(s Stats) int64 { return s.Streams }},
		{"kalpa.mcp.front.bodies", "By", "Bodies that are held.", true, func(s Stats) int64 { return s.Bodies }},
		{"kalpa.mcp.front.attaches", "{attempt}", "Attempts to pass an exchange on to a next incarnation.", false, func(s Stats) int64 { return s.Attaches }},
		{"kalpa.mcp.front.last_resorts", "{request}", "Requests that the front answered as lost, since their session could not be reached.", false, func(s Stats) int64 { return s.LastResorts }},
		{"kalpa.mcp.front.parked", "{stream}", "Streams ended for the client to resume.", false, func(s Stats) int64 { return s.Parked }},
		{"kalpa.mcp.front.repeated", "{answer}", "Second answers to one request, withheld: a defect.", false, func(s Stats) int64 { return s.Repeated }},
	} {
		var o metric.Int64Observable
		var err error
		if g.gauge {
			o, err = m.Int64ObservableUpDownCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.about))
		} else {
			o, err = m.Int64ObservableCounter(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.about))
		}
		if err != nil {
			return err
		}
		// Fronts share the instruments: a callback that came along with one would be
		// that of the first front alone.
		_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
			to.ObserveInt64(o, g.value(f.Stats()), server)
			return nil
		}, o)
		if err != nil {
			return err
		}
	}
	return nil
}
