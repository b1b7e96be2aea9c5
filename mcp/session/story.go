package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kalpahost/kalpa/actor"
)

// ending is why a runtime is closed.
type ending string

// The reasons.
const (
	closedIdle     ending = "idle"         // nobody needed it
	closedPressure ending = "pressure"     // nobody needed it, and its isolate was short of memory
	closedExited   ending = "exited"       // it ended by itself
	closedEnded    ending = "ended"        // the session ended
	closedShutdown ending = "shutdown"     // the host is stopping
	closedBuild    ending = "build_failed" // it was built, and the handshake failed
	closedReset    ending = "reset"        // the incarnation was reset under it
	closedOperator ending = "operator"     // somebody who runs the host has asked for it
)

// story tells of one generation: a span for its build, one for its disposal. Its
// methods may be called from any goroutine.
type story struct {
	t       *telemetry
	svc     *Service
	is      Occurrence // which runtime it is of
	at      place
	cause   trace.SpanContext // of the request that asked for it
	rebuilt bool

	mu     sync.Mutex
	build  trace.Span
	built  trace.SpanContext // for the disposal to refer to
	why    ending            // empty: it is not to be closed yet
	since  time.Time         // when it was to be closed
	closed []attribute.KeyValue
}

// newStory begins the story of a generation, in the turn that asks for it.
func (obj *object) newStory(t *actor.Turn, gen uint64) *story {
	s := obj.s
	at := place{obj.svc.host.IsolateOf(t.ID()), s.cfg.Name}
	is := obj.place(t)
	is.Generation = gen
	st := &story{t: obj.svc.telemetry, svc: obj.svc, is: is, at: at, rebuilt: s.result != nil}
	if len(s.rt.queue) > 0 {
		st.cause = s.rt.queue[0].trace
	}
	return st
}

// about says which runtime a span is of.
func (s *story) about() []attribute.KeyValue {
	return []attribute.KeyValue{
		keyServer.String(s.at.server), keySession.String(s.is.Session), keyEpoch.Int64(int64(s.is.Epoch)), keyGeneration.Int64(int64(s.is.Generation)), keyIsolate.Int(s.at.isolate),
	}
}

// begin is called when the plugin is asked.
func (s *story) begin() {
	var span trace.Span = noop.Span{}
	if s.t.tracer != nil {
		ctx := context.Background()
		if s.cause.IsSampled() { // else a trace of its own: residency is to be seen whoever asked
			ctx = trace.ContextWithSpanContext(ctx, s.cause)
		}
		_, span = s.t.tracer.Start(ctx, "mcp.session.build", trace.WithTimestamp(s.t.clock.Now()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build, s.built = span, span.SpanContext()
}

// ready ends the build: the handshake is over. failed ends it otherwise. The
// first of them counts.
func (s *story) ready()           { s.settle(nil) }
func (s *story) failed(err error) { s.settle(err) }

func (s *story) settle(err error) {
	s.mu.Lock()
	span := s.build
	s.build = nil
	s.mu.Unlock()
	if span == nil {
		return
	}
	outcome := "ready"
	if err != nil {
		outcome = "failed"
	}
	s.t.builds.Add(context.Background(), 1, s.t.labelsOf(residency{s.at, outcome})...)
	is := s.is
	is.Kind = RuntimeBuilt
	if err != nil {
		is.Kind, is.Detail = RuntimeFailed, err.Error()
	}
	s.svc.tell(is)
	if span.IsRecording() {
		span.SetAttributes(s.about()...)
		span.SetAttributes(keyRebuilt.Bool(s.rebuilt), keyResidents.Int64(s.t.of(s.at.isolate)))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
			span.SetAttributes(labelError.String(string(closedBuild)))
		}
		span.End(trace.WithTimestamp(s.t.clock.Now()))
	}
}

// closing notes why the runtime is to be closed, and for how long nobody had
// needed it. The first reason counts.
func (s *story) closing(why ending, idle time.Duration) {
	s.close(why, keyIdle.Float64(float64(idle.Microseconds())/1000))
}

// reset is closing for a runtime whose incarnation is gone.
func (s *story) reset(err error) {
	c := actor.CauseOf(err)
	if c == actor.Shutdown {
		s.close(closedShutdown)
		return
	}
	s.close(closedReset, keyCause.String(c.String()))
}

func (s *story) close(why ending, more ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		s.why, s.since, s.closed = why, s.t.clock.Now(), more
	}
}

// resident and reaped are the two ends of a runtime's residency.
func (s *story) resident() { s.t.add(s.at, 1) }

var errNeverReady = errors.New("it was closed before it was ready")

func (s *story) reaped() {
	left := s.t.add(s.at, -1)
	s.close(closedReset) // where nothing else was said
	s.failed(errNeverReady)
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.is
	is.Kind, is.Reason = RuntimeDisposed, string(s.why)
	s.svc.tell(is)
	ctx := context.Background()
	s.t.disposed.Add(ctx, 1, s.at.labels(labelReason.String(string(s.why))))
	if s.t.tracer == nil {
		return
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.since)}
	if s.built.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: s.built}))
	}
	_, span := s.t.tracer.Start(ctx, "mcp.session.dispose", options...)
	if span.IsRecording() {
		span.SetAttributes(s.about()...)
		span.SetAttributes(keyReason.String(string(s.why)), keyResidents.Int64(left))
		span.SetAttributes(s.closed...)
	}
	span.End(trace.WithTimestamp(s.t.clock.Now()))
}
