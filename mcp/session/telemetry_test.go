package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// observed is a world whose spans and figures can be read.
type observed struct {
	*world
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
}

func newObserved(t *testing.T, tune func(*session.Server)) *observed {
	return newObservedOn(t, nil, tune)
}

// newObservedOn is newObserved on a host of its own.
func newObservedOn(t *testing.T, host func(*actor.Options), tune func(*session.Server)) *observed {
	o := &observed{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	o.world = (&world{
		serverTuned: tune, hostTuned: host,
		tracing:  sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans)),
		metering: sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader)),
	}).begin(t)
	return o
}

// told waits for n spans of a name.
func (o *observed) told(name string, n int) []sdktrace.ReadOnlySpan {
	o.t.Helper()
	var found []sdktrace.ReadOnlySpan
	o.within(5*time.Second, fmt.Sprintf("%d spans %s", n, name), func() bool {
		found = nil
		for _, s := range o.spans.Ended() {
			if s.Name() == name {
				found = append(found, s)
			}
		}
		return len(found) >= n
	})
	if len(found) != n {
		o.t.Fatalf("%d spans %s, want %d", len(found), name, n)
	}
	return found
}

func attr(s sdktrace.ReadOnlySpan, key string) attribute.Value {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// figures are the points of an instrument by their labels, as "server=model".
func (o *observed) figures(name string) map[string]int64 {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &all); err != nil {
		o.t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					found[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					found[p.Attributes.Encoded(attribute.DefaultEncoder())] = int64(p.Count)
				}
			}
		}
	}
	return found
}

// hang sends a request that the runtime gets and does not answer.
func (o *observed) hang(c *client, id int) *link {
	o.t.Helper()
	before := o.saw("hang")
	l := c.post(call(fmt.Sprint(id), "hang"))
	o.within(2*time.Second, "it has reached the runtime", func() bool { return o.saw("hang") == before+1 })
	return l
}

// residents is the gauge, over all isolates.
func (o *observed) residents() (n int64) {
	for labels, v := range o.figures("kalpa.mcp.resident_runtimes") {
		if v < 0 {
			o.t.Errorf("the gauge is %d at %s", v, labels)
		}
		n += v
	}
	return n
}

func TestBuildAndDisposalAreToldI9(t *testing.T) {
	const idle = time.Second
	o := newObserved(t, func(s *session.Server) { s.IdleTimeout = idle })
	if got := o.figures("kalpa.mcp.resident_runtimes"); len(got) != 4 || got["isolate=0,server=model"] != 0 {
		t.Errorf("before anything has happened the gauge says %v, want 0 of each isolate", got)
	}
	overslept := sleeper()
	c := o.open1()
	build := o.told("mcp.session.build", 1)[0]
	isolate := o.host.IsolateOf(storage.ID{Class: session.Class, Name: c.id})
	about := func(s sdktrace.ReadOnlySpan, generation, residents int64) {
		t.Helper()
		for key, want := range map[string]any{
			"kalpa.server": "model", "mcp.session.id": c.id, "kalpa.isolate": int64(isolate), "kalpa.generation": generation, "kalpa.residents": residents,
		} {
			if got := attr(s, key).AsInterface(); got != want {
				t.Errorf("%s: %s is %v, want %v", s.Name(), key, got, want)
			}
		}
		if attr(s, "kalpa.epoch").AsInt64() == 0 {
			t.Errorf("%s has no epoch", s.Name())
		}
	}
	about(build, 1, 1)
	if attr(build, "kalpa.rebuilt").AsBool() || build.Status().Code == codes.Error {
		t.Errorf("the first build says it was another, or failed: %v %v", build.Attributes(), build.Status())
	}
	if n := o.residents(); n != 1 {
		t.Errorf("the gauge is %d with one resident", n)
	}

	gone := o.told("mcp.session.dispose", 1)[0]
	about(gone, 1, 0)
	if got := attr(gone, "kalpa.reason").AsString(); got != "idle" {
		t.Errorf("disposed of because of %q", got)
	}
	stalled := 10 * overslept() // what a machine that is busy with something else may have added
	if ms := attr(gone, "kalpa.idle_ms").AsFloat64(); ms < 1000 || ms > 1100+stalled.Seconds()*1000 {
		t.Errorf("disposed of after %v ms, want %v and at most 10 %% more, and %v for a busy machine", ms, idle, stalled)
	}
	if l := gone.Links(); len(l) != 1 || l[0].SpanContext.SpanID() != build.SpanContext().SpanID() {
		t.Errorf("the disposal refers to %v, want its build", l)
	}
	if n := o.residents(); n != 0 {
		t.Errorf("the gauge is %d after the disposal", n)
	}

	c.post(call(`1`, "echo")).wait()
	again := o.told("mcp.session.build", 2)[1]
	about(again, 2, 1)
	if !attr(again, "kalpa.rebuilt").AsBool() {
		t.Error("the second build does not say that it was one")
	}
	if again.StartTime().Before(gone.EndTime()) {
		t.Error("it was built before the other was gone")
	}
	if n := o.residents(); n != 1 {
		t.Errorf("the gauge is %d after the rebuild", n)
	}
}

func TestEveryEndOfARuntimeIsToldWithItsReasonI9(t *testing.T) {
	id := func(c *client) storage.ID { return storage.ID{Class: session.Class, Name: c.id} }
	for _, tc := range []struct {
		reason, cause string
		end           func(o *observed, c *client)
	}{
		{"exited", "", func(_ *observed, c *client) { c.post(call(`1`, "exit")).wait() }},
		{"ended", "", func(_ *observed, c *client) {
			sock := session.NewSocket(0)
			c.send(&session.Delete{Socket: sock, Caller: caller}, sock).wait()
		}},
		{"reset", "aborted", func(o *observed, c *client) { o.host.Reset(id(c), actor.Aborted, nil) }},
		{"reset", "memory_limit", func(o *observed, c *client) {
			_, _ = o.host.ResetIsolate(o.host.IsolateOf(id(c)), actor.MemoryLimit, nil)
		}},
		{"shutdown", "", func(o *observed, _ *client) { o.shutdown() }},
		{"shutdown", "", func(o *observed, c *client) { // cut off at the end of its time
			o.hang(c, 1)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = o.host.Shutdown(ctx)
		}},
	} {
		t.Run(tc.reason+" "+tc.cause, func(t *testing.T) {
			o := newObserved(t, nil)
			o.world.t = t
			c := o.open1()
			if n := o.residents(); n != 1 {
				t.Fatalf("the gauge is %d", n)
			}
			tc.end(o, c)
			s := o.told("mcp.session.dispose", 1)[0]
			if reason, cause := attr(s, "kalpa.reason").AsString(), attr(s, "kalpa.cause").AsString(); reason != tc.reason || cause != tc.cause {
				t.Errorf("told %q %q", reason, cause)
			}
			if n := o.residents(); n != 0 || attr(s, "kalpa.residents").AsInt64() != 0 {
				t.Errorf("the gauge is %d, and %v in the span", n, attr(s, "kalpa.residents"))
			}
			got := o.figures("kalpa.mcp.runtime.disposals")
			if len(got) != 1 || got[fmt.Sprintf("isolate=%d,reason=%s,server=model", o.host.IsolateOf(id(c)), tc.reason)] != 1 {
				t.Errorf("counted %v", got)
			}
		})
	}
}

func TestBuildThatFailsIsTold(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.IdleTimeout = 100 * time.Millisecond })
	c := o.open1()
	o.told("mcp.session.dispose", 1)

	// The plugin fails: nothing was resident, nothing is disposed of.
	o.mu.Lock()
	o.buildErr = errors.New("no such program")
	o.mu.Unlock()
	c.post(call(`1`, "echo")).wait()
	s := o.told("mcp.session.build", 2)[1]
	if s.Status().Code != codes.Error || !strings.Contains(s.Status().Description, "no such program") || attr(s, "kalpa.residents").AsInt64() != 0 {
		t.Errorf("told %+v %v", s.Status(), s.Attributes())
	}

	// The handshake fails: what was resident goes.
	o.mu.Lock()
	o.buildErr, o.version = nil, "2024-11-05"
	o.mu.Unlock()
	c.post(call(`2`, "echo")).wait()
	s = o.told("mcp.session.build", 3)[2]
	if s.Status().Code != codes.Error || !strings.Contains(s.Status().Description, "revision") || attr(s, "kalpa.residents").AsInt64() != 1 {
		t.Errorf("told %+v %v", s.Status(), s.Attributes())
	}
	gone := o.told("mcp.session.dispose", 2)[1]
	if got := attr(gone, "kalpa.reason").AsString(); got != "build_failed" {
		t.Errorf("disposed of because of %q", got)
	}
	if n := o.residents(); n != 0 {
		t.Errorf("the gauge is %d", n)
	}
	var ready, failed int64
	for labels, n := range o.figures("kalpa.mcp.runtime.builds") {
		if strings.Contains(labels, "outcome=ready") {
			ready += n
		} else {
			failed += n
		}
	}
	if ready != 1 || failed != 2 {
		t.Errorf("%d builds were counted as ready and %d as failed, want 1 and 2", ready, failed)
	}
}

func TestBuildThatAResetCutsOffIsTold(t *testing.T) {
	asked := make(chan string, 1)
	o := newObserved(t, func(s *session.Server) {
		s.Plugin = mcp.PluginFunc(func(ctx context.Context, ms mcp.Session) (mcp.Runtime, error) {
			asked <- ms.ID()
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	c := &client{o.world, session.NewID(time.Now())}
	c.postAs(caller, true, initialize)
	<-asked
	o.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.Aborted, nil)
	if s := o.told("mcp.session.build", 1)[0]; s.Status().Code != codes.Error {
		t.Errorf("told %+v", s.Status())
	}
	if n := o.residents(); n != 0 {
		t.Errorf("the gauge is %d", n)
	}
}

// lingering is a runtime that takes its time to end.
type lingering struct {
	mcp.Runtime
	leave chan struct{}
}

func (l lingering) Close(ctx context.Context) error {
	<-l.leave
	return l.Runtime.Close(ctx)
}

func TestGaugeDropsWhenTheRuntimeIsReapedI9(t *testing.T) {
	leave := make(chan struct{})
	o := newObserved(t, func(s *session.Server) {
		s.IdleTimeout = 100 * time.Millisecond
		inner := s.Plugin
		s.Plugin = mcp.PluginFunc(func(ctx context.Context, ms mcp.Session) (mcp.Runtime, error) {
			r, err := inner.Build(ctx, ms)
			return lingering{r, leave}, err
		})
	})
	let := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(let)
	o.open1()
	time.Sleep(400 * time.Millisecond)
	if n := o.residents(); n != 1 {
		t.Errorf("the gauge is %d while the runtime is being closed", n)
	}
	if n := len(o.spans.Ended()); n != 1 {
		t.Errorf("%d spans, want that of the build alone", n)
	}
	left := time.Now()
	let()
	s := o.told("mcp.session.dispose", 1)[0]
	if n := o.residents(); n != 0 {
		t.Errorf("the gauge is %d when the disposal is told", n)
	}
	if s.StartTime().After(left) || s.EndTime().Before(left) {
		t.Errorf("the disposal is told to have taken from %v to %v; the runtime lingered until %v", s.StartTime(), s.EndTime(), left)
	}
	if ms := attr(s, "kalpa.idle_ms").AsFloat64(); ms > 300 {
		t.Errorf("idle for %v ms: the time it took to end is not idle time", ms)
	}
}

// The gauge against the truth, while many sessions come and go in every way.
func TestGaugeIsTheNumberOfResidentsI9(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.IdleTimeout = 50 * time.Millisecond })
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			sock := session.NewSocket(0)
			id := session.NewID(time.Now())
			m, _ := wire.Parse([]byte(initialize))
			_ = o.svc.Send(context.Background(), id, &session.Post{Socket: sock, Caller: caller, Stream: session.NewStream(), Create: true, Messages: []wire.Message{m}})
			time.Sleep(time.Duration(i*7%60) * time.Millisecond)
			if i%3 == 0 {
				o.host.Reset(storage.ID{Class: session.Class, Name: id}, actor.Aborted, nil)
			}
		})
	}
	highest := int64(0)
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		gauge := o.residents()
		// The fake counts a runtime in before the host does.
		if built, _ := o.runtimes(); gauge > int64(built) {
			t.Fatalf("the gauge is %d when %d were ever built", gauge, built)
		}
		highest = max(highest, gauge)
	}
	if highest == 0 {
		t.Error("the gauge has never moved")
	}
	all.Wait()
	o.within(5*time.Second, "the gauge returns to zero", func() bool { return o.residents() == 0 })
	built, open := o.runtimes()
	if open != 0 {
		t.Errorf("%d runtimes are open and none are told", open)
	}
	o.told("mcp.session.dispose", built)
}

func TestRequestsAreCountedByOutcome(t *testing.T) {
	o := newObserved(t, nil)
	c := o.open1()
	c.post(call(`1`, "echo")).wait()
	c.post(`{"jsonrpc":"2.0","id":2,"method":"made/up/by/` + c.id + `"}`).wait()
	c.post(`{"jsonrpc":"2.0","id":3,"method":"server/discover"}`).wait()
	hang := o.hang(c, 4)
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`).wait()
	hang.wait()
	c.post(call(`5`, "exit")).wait()
	want := map[string]int64{
		"method=initialize,outcome=result,server=model":             1,
		"method=tools/call,outcome=result,server=model":             1,
		"method=other,outcome=result,server=model":                  1, // the model answers anything
		"method=other,outcome=error,server=model":                   1,
		"method=tools/call,outcome=cancelled,server=model":          1,
		"method=tools/call,outcome=lost,reason=exited,server=model": 1,
	}
	o.within(2*time.Second, "all counted", func() bool { return len(o.figures("kalpa.mcp.requests")) == len(want) })
	if got := o.figures("kalpa.mcp.requests"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	var durations map[string]int64
	o.within(2*time.Second, "all measured", func() bool {
		durations = o.figures("mcp.server.operation.duration")
		return durations["error.type=-32010,mcp.method.name=tools/call,server=model"] != 0
	})
	if durations["mcp.method.name=tools/call,server=model"] != 1 || durations["error.type=-32010,mcp.method.name=tools/call,server=model"] != 1 ||
		durations["error.type=-32601,mcp.method.name=other,server=model"] != 1 {
		t.Errorf("durations: %v", durations)
	}
	// Lost with the incarnation: counted by the next one, which answers it.
	o.hang(c, 6)
	o.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.MemoryLimit, nil)
	c.get("").has("memory_limit")
	o.within(2*time.Second, "the loss is counted", func() bool {
		return o.figures("kalpa.mcp.requests")["method=tools/call,outcome=lost,reason=memory_limit,server=model"] == 1
	})
}

func TestNoSessionIsALabel(t *testing.T) {
	o := newObserved(t, nil)
	c := o.open1()
	c.post(call(`"secret"`, "echo")).wait()
	o.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.Aborted, nil)
	o.told("mcp.session.dispose", 1)
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, c.id) || strings.Contains(text, "secret") {
		t.Errorf("a session's name is in the metrics: %s", text)
	}
}

// parent is the span of a request, as a front would have made it.
func parent(state string) trace.SpanContext {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		panic(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: trace.FlagsSampled, TraceState: ts,
	})
}

func TestTraceReachesTheRuntime(t *testing.T) {
	const (
		ours  = `"traceparent":"00-01020300000000000000000000000000-0405060000000000-01"`
		state = `"tracestate":"a=1,b=2"`
	)
	unsampled := parent("").WithTraceFlags(0)
	for _, tc := range []struct {
		name, params string
		trace        trace.SpanContext
		want         string
	}{
		{"no meta", `{"name":"echo","x":1.50}`, parent(""), `{"name":"echo","x":1.50,"_meta":{` + ours + `}}`},
		{"a meta", `{"_meta":{"y":"z"},"name":"echo"}`, parent(""), `{"_meta":{"y":"z",` + ours + `},"name":"echo"}`},
		{"a state", `{"name":"echo"}`, parent("a=1,b=2"), `{"name":"echo","_meta":{` + ours + `,` + state + `}}`},
		{"the client's own", `{"name":"echo","_meta":{"traceparent":"00-ff-ee-01"}}`, parent(""), `{"name":"echo","_meta":{` + ours + `}}`},
		{"a meta that is none", `{"name":"echo","_meta":7}`, parent(""), `{"name":"echo","_meta":7}`},
		{"no trace", `{ "name" : "echo", "_meta":{ } }`, trace.SpanContext{}, `{ "name" : "echo", "_meta":{ } }`},
		{"not sampled", `{ "name" : "echo" }`, unsampled, `{ "name" : "echo" }`},
		{"no params", ``, parent(""), ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newObserved(t, nil)
			c := o.open1()
			text := `{"jsonrpc":"2.0","id":1,"method":"tools/call"`
			if tc.params != "" {
				text += `,"params":` + tc.params
			}
			m, err := wire.Parse([]byte(text + `}`))
			if err != nil {
				t.Fatal(err)
			}
			sock := session.NewSocket(0)
			c.send(&session.Post{Socket: sock, Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{m}, Trace: tc.trace}, sock).wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			i := slices.IndexFunc(o.delivered, func(d string) bool { return strings.Contains(d, " tools/call ") })
			if got := strings.SplitN(o.delivered[i], " ", 4)[3]; got != tc.want {
				t.Errorf("the runtime got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestBuildBelongsToTheRequestThatNeededIt(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.IdleTimeout = 50 * time.Millisecond })
	c := o.open1()
	o.told("mcp.session.dispose", 1)
	post := func(trace trace.SpanContext) {
		m, _ := wire.Parse([]byte(call(`1`, "echo")))
		sock := session.NewSocket(0)
		c.send(&session.Post{Socket: sock, Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{m}, Trace: trace}, sock).wait()
	}
	post(parent(""))
	if s := o.told("mcp.session.build", 2)[1]; s.Parent().SpanID() != parent("").SpanID() || s.SpanContext().TraceID() != parent("").TraceID() {
		t.Errorf("the build's parent is %v", s.Parent())
	}
	o.told("mcp.session.dispose", 2)
	post(parent("").WithTraceFlags(0))
	if s := o.told("mcp.session.build", 3)[2]; s.Parent().IsValid() {
		t.Errorf("a build is told under a request that is not: %v", s.Parent())
	}
}
