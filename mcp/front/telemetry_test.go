package front

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/telemetry"
	"github.com/kalpahost/kalpa/mcp/session"
)

// traces notes the trace that each POST was sent on with, its attachments too.
type traces struct {
	*fakeSessions
	seen []trace.SpanContext
}

func (s *traces) Send(ctx context.Context, id string, e session.Event) error {
	switch e := e.(type) {
	case *session.Post:
		s.seen = append(s.seen, e.Trace)
	case *session.Attach:
		s.seen = append(s.seen, e.Post.Trace)
	}
	return s.fakeSessions.Send(ctx, id, e)
}

// told plays one POST and returns its spans.
func told(t *testing.T, o Options, header, body, script string) (spans []sdktrace.ReadOnlySpan, sent *traces) {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	sent = &traces{fakeSessions: &fakeSessions{t: t, clock: clk, script: lines(script)}}
	recorder := tracetest.NewSpanRecorder()
	o.Sessions, o.Server, o.Clock = sent, "demo", clk
	if o.TracerProvider == nil {
		o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
	defer cancel()
	sent.front, sent.disconnect = f, cancel
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, line := range lines(header) {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	f.ServeHTTP(httptest.NewRecorder(), r)
	sent.stopTicking()
	return recorder.Ended(), sent
}

func attributes(s sdktrace.ReadOnlySpan) string {
	var all []string
	for _, a := range s.Attributes() {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

const (
	head = "Mcp-Session-Id: s\nMcp-Protocol-Version: 2025-11-25\n"
	ends = "mcp.protocol.version=2025-11-25 mcp.session.id=s network.protocol.name=http network.protocol.version=1.1 network.transport=tcp"
)

func TestRequestsAreTold(t *testing.T) {
	for _, c := range []struct {
		name, body, script string
		want               string // the attributes, sorted
		status             codes.Code
		message            string
	}{
		{"result", `{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"add"}}`,
			"> post\nopen stream\nframe s.1.1 \"a\\\"b\" {\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"result\":{}}\nend final",
			`gen_ai.operation.name=execute_tool gen_ai.tool.name=add jsonrpc.request.id=a"b kalpa.outcome=answered kalpa.server=demo mcp.method.name=tools/call ` + ends, codes.Unset, ""},
		{"tool error", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}`,
			"> post\nopen stream\nframe s.1.1 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"isError\":true}}\nend final",
			`error.type=tool_error gen_ai.operation.name=execute_tool gen_ai.tool.name=add jsonrpc.request.id=1 kalpa.outcome=answered kalpa.server=demo mcp.method.name=tools/call ` + ends, codes.Error, ""},
		{"error", `{"jsonrpc":"2.0","id":1.50,"method":"resources/read","params":{"uri":"file:///x"}}`,
			"> post\nopen stream\nframe s.1.1 1.50 {\"jsonrpc\":\"2.0\",\"id\":1.50,\"error\":{\"code\":-32602,\"message\":\"no such file\"}}\nend final",
			`error.type=-32602 jsonrpc.request.id=1.50 kalpa.outcome=answered kalpa.server=demo mcp.method.name=resources/read mcp.protocol.version=2025-11-25 mcp.resource.uri=file:///x mcp.session.id=s network.protocol.name=http network.protocol.version=1.1 network.transport=tcp rpc.response.status_code=-32602`,
			codes.Error, "no such file"},
		{"lost, says the session", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"> post\nopen stream\nframe s.1.1 1 {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32010,\"message\":\"Execution lost: x\",\"data\":{\"reason\":\"memory_limit\"}}}\nend final",
			`error.type=-32010 jsonrpc.request.id=1 kalpa.outcome=lost kalpa.reason=memory_limit kalpa.server=demo mcp.method.name=ping ` + ends + ` rpc.response.status_code=-32010`,
			codes.Error, "Execution lost: x"},
		{"lost, says the front", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"> post\nadvance 20s\n> expire\nadvance 750ms",
			`error.type=-32010 jsonrpc.request.id=1 kalpa.outcome=lost kalpa.reason=unanswered kalpa.server=demo mcp.method.name=ping ` + ends + ` rpc.response.status_code=-32010`,
			codes.Error, "Execution lost: The session could not be reached."},
		{"parked", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"> post\nopen stream\nframe s.1.1 - {}\nend parked",
			`jsonrpc.request.id=1 kalpa.outcome=parked kalpa.server=demo mcp.method.name=ping ` + ends, codes.Unset, ""},
		{"gone", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"> post\nopen stream\ndisconnect",
			`jsonrpc.request.id=1 kalpa.outcome=gone kalpa.server=demo mcp.method.name=ping ` + ends, codes.Unset, ""},
		{"refused", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"> post\nrefuse 429 -32603 too many",
			`error.type=-32603 http.response.status_code=429 jsonrpc.request.id=1 kalpa.outcome=refused kalpa.server=demo mcp.method.name=ping ` + ends + ` rpc.response.status_code=-32603`,
			codes.Error, "too many"},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			"> post\nopen\nend final",
			`kalpa.outcome=accepted kalpa.server=demo mcp.method.name=notifications/initialized ` + ends, codes.Unset, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans, sent := told(t, Options{}, head, c.body, c.script)
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			s := spans[0]
			if s.Name() != "mcp.request" || s.SpanKind() != trace.SpanKindServer {
				t.Errorf("%s, %v", s.Name(), s.SpanKind())
			}
			if got := attributes(s); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if s.Status().Code != c.status || s.Status().Description != c.message {
				t.Errorf("status %+v", s.Status())
			}
			if len(sent.seen) == 0 || sent.seen[0].SpanID() != s.SpanContext().SpanID() {
				t.Errorf("the session was told %v, the span is %v", sent.seen, s.SpanContext())
			}
		})
	}
}

const (
	one = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	two = "00-11111111111111111111111111111111-2222222222222222-01"
)

func TestTraceComesFromTheMessageElseFromTheRequest(t *testing.T) {
	const script = "> post\nopen stream\nend broken\n> attach\nopen stream\nend final"
	for _, c := range []struct {
		name, header, meta string
		parent, link       string
		state              string
	}{
		{"neither", "", "", "", "", ""},
		{"header", "traceparent: " + one + "\ntracestate: a=1", "", one, "", "a=1"},
		{"message", "", `"traceparent":"` + one + `","tracestate":"b=2"`, one, "", "b=2"},
		{"both", "traceparent: " + two, `"traceparent":"` + one + `"`, one, two, ""},
		{"a message that says nothing", "traceparent: " + two, `"traceparent":"rubbish"`, two, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans, sent := told(t, Options{}, head+c.header, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{`+c.meta+`}}}`, script)
			s := spans[0]
			text := func(sc trace.SpanContext) string {
				if !sc.IsValid() {
					return ""
				}
				return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
			}
			if got := text(s.Parent()); got != c.parent {
				t.Errorf("the parent is %q, want %q", got, c.parent)
			}
			link := ""
			for _, l := range s.Links() {
				link += text(l.SpanContext)
			}
			if link != c.link {
				t.Errorf("linked to %q, want %q", link, c.link)
			}
			if len(sent.seen) != 2 || sent.seen[0].SpanID() != s.SpanContext().SpanID() || !sent.seen[1].Equal(sent.seen[0]) || sent.seen[0].TraceState().String() != c.state {
				t.Errorf("the session was told %v, and the next incarnation; the span is %v", sent.seen, s.SpanContext())
			}
		})
	}
}

// Without telemetry, and for a trace that is not sampled, a session hears nothing
// of what the client's headers say.
func TestNothingIsPassedOnThatNobodyRecords(t *testing.T) {
	const script = "> post\nopen stream\nend final"
	none, sent := told(t, Options{TracerProvider: noProvider(t)}, head+"traceparent: "+one, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, script)
	if len(none) != 0 || sent.seen[0].IsValid() {
		t.Errorf("%d spans, and the session was told %v", len(none), sent.seen)
	}
	_, sent = told(t, Options{}, head+"traceparent: "+strings.TrimSuffix(one, "1")+"0", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, script)
	if sent.seen[0].IsValid() {
		t.Errorf("the session was told %v of a trace that is not sampled", sent.seen)
	}
}

// noProvider is what a host has that nobody asked for telemetry.
func noProvider(t *testing.T) trace.TracerProvider {
	tel, err := telemetry.Start(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tel.TracerProvider()
}

func TestBatchIsOneSpan(t *testing.T) {
	spans, _ := told(t, Options{}, "Mcp-Session-Id: s\nMcp-Protocol-Version: 2025-03-26\n",
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`,
		"> post\nopen stream\nframe s.1.1 1 {\"result\":{}}\nframe s.1.2 2 {\"result\":{}}\nend final")
	if len(spans) != 1 || !strings.Contains(attributes(spans[0]), "kalpa.batch.size=2 kalpa.outcome=answered") {
		t.Errorf("told %v", spans)
	}
}

func TestLogLinesOfARequestNameItsTrace(t *testing.T) {
	var out bytes.Buffer
	spans, _ := told(t, Options{Logger: slog.New(telemetry.LogHandler(slog.NewTextHandler(&out, nil)))}, head,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "> post\nadvance 20s\n> expire\nadvance 750ms")
	if want := "trace_id=" + spans[0].SpanContext().TraceID().String(); !strings.Contains(out.String(), want) {
		t.Errorf("logged %s\nwant %s", out.String(), want)
	}
}

func TestStatsAreMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	told(t, Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}, head,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "> post\nopen stream\nframe s.1.1 - {}\nend broken\n> attach\nopen stream\nend parked")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			got = append(got, fmt.Sprintf("%s{%s}=%d", strings.TrimPrefix(m.Name, "kalpa.mcp.front."), p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value))
		}
	}
	slices.Sort(got)
	want := "attaches{server=demo}=1 bodies{server=demo}=0 last_resorts{server=demo}=0 parked{server=demo}=1 repeated{server=demo}=0 streams{server=demo}=0"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
