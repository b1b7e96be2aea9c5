package front

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Front serves the endpoint of one server. It is safe for concurrent use.
type Front struct {
	o      Options
	tracer trace.Tracer
	// deadline is how long a POST may owe answers: the session's ceiling and
	// DeadlineMargin. It is no option, so that the two can't drift apart.
	deadline time.Duration

	closing chan struct{} // closed when Shutdown begins
	turns   chan struct{} // holds a token for each exchange that is attaching

	mu      sync.Mutex
	serving int           // handlers inside ServeHTTP
	drained chan struct{} // closed when closing and serving is 0

	streams atomic.Int64
	bodies  atomic.Int64
	count   counters
}

// counters behind Stats.
type counters struct {
	attaches, lastResorts, parked, repeated atomic.Int64
}

// Stats are figures of a front, since its start but for the gauges.
type Stats struct {
	Streams int64 // gauge: exchanges that count toward MaxStreams
	Bodies  int64 // gauge: bytes that count toward MaxBodies

	Attaches    int64 // exchanges passed on to a next incarnation
	LastResorts int64 // requests that the front answered itself with a lost-execution error
	Parked      int64 // streams ended for the client to resume
	Repeated    int64 // second answers to one request, withheld; a defect of the session's
}

// New returns a front that serves at once, or says all that is wrong with its
// options.
func New(o Options) (*Front, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	ceiling, hosted := o.Sessions.RunningCeiling(o.Server)
	if !hosted {
		return nil, fmt.Errorf("front: no server is hosted under the name %q", o.Server)
	}
	f := &Front{
		o: o, tracer: o.tracer(), deadline: ceiling + DeadlineMargin, closing: make(chan struct{}), drained: make(chan struct{}), turns: make(chan struct{}, o.MaxAttaching),
	}
	if o.MeterProvider != nil {
		if err := f.instrument(o.MeterProvider); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Stats returns the current figures.
func (f *Front) Stats() Stats {
	return Stats{
		Streams:     f.streams.Load(),
		Bodies:      f.bodies.Load(),
		Attaches:    f.count.attaches.Load(),
		LastResorts: f.count.lastResorts.Load(),
		Parked:      f.count.parked.Load(),
		Repeated:    f.count.repeated.Load(),
	}
}

// Shutdown parks every open stream at once, refuses new requests, and waits until
// no handler is left or ctx ends. It may be called more than once.
func (f *Front) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	if !f.isClosing() {
		close(f.closing)
		if f.serving == 0 {
			close(f.drained)
		}
	}
	f.mu.Unlock()
	select {
	case <-f.drained:
		return nil
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("front %s: %d requests are still being served: %w", f.o.Server, f.serving, ctx.Err())
	}
}

func (f *Front) isClosing() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// enter counts a handler in, unless the front is closing.
func (f *Front) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isClosing() {
		return false
	}
	f.serving++
	return true
}

func (f *Front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving--
	if f.serving == 0 && f.isClosing() {
		close(f.drained)
	}
}

// methods are what the endpoint takes, as the Allow header names them.
const methods = "GET, POST, DELETE, OPTIONS"

func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.bodyBy(w, r)
	if no := f.guard(w.Header(), r); no != nil {
		no.write(w)
		return
	}
	if r.Method == http.MethodOptions {
		f.preflight(w, r)
		return
	}
	if !f.enter() {
		busy("", "The server is shutting down. Send the request again in a moment.").write(w)
		return
	}
	defer f.leave()
	var serve func(http.ResponseWriter, *http.Request, session.Caller) *Refusal
	switch r.Method {
	case http.MethodPost:
		serve = f.post
	case http.MethodGet:
		serve = f.get
	case http.MethodDelete:
		serve = f.delete
	default:
		refuse(http.StatusMethodNotAllowed, "", wire.InvalidRequest,
			"The method %s is not served here. Use POST to send messages, GET to listen, DELETE to end the session.", r.Method).
			with("Allow", methods).write(w)
		return
	}
	caller := session.Caller{Server: f.o.Server, Version: r.Header.Get(headerVersion)}
	if f.o.Principal != nil {
		var no *Refusal
		if caller.Principal, no = f.o.Principal(r); no != nil {
			no.write(w)
			return
		}
	}
	if no := serve(w, r, caller); no != nil {
		f.o.Logger.Debug("mcp request refused", "server", f.o.Server, "method", r.Method, "status", no.Status, "why", no.Body.String())
		no.write(w)
	}
}

// stream takes one of the front's MaxStreams; give it back with release.
func (f *Front) stream(id wire.ID) *Refusal {
	if n := f.streams.Add(1); n > int64(f.o.MaxStreams) {
		f.streams.Add(-1)
		return busy(id, "The server has %d streams open, as many as it may. Send the request again in a moment.", f.o.MaxStreams)
	}
	return nil
}

func (f *Front) release() { f.streams.Add(-1) }
