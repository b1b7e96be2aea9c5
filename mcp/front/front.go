package front

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/internal/guard"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Front serves the endpoint of one server. It is safe for concurrent use.
type Front struct {
	o       Options
	limits  atomic.Pointer[Limits]
	guarded atomic.Pointer[guard.Rules]
	tracer  trace.Tracer // nil: nobody takes spans

	turns turns      // of exchanges that are attaching
	rest  run.Signal // the last handler has left

	mu        sync.Mutex
	closing   bool // Drain was called
	serving   int  // handlers inside ServeHTTP
	exchanges map[uint64]*exchange
	last      uint64 // number given to an exchange

	pace func(ctx context.Context, bytes int) error // paced, but for tests

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
	if _, hosted := o.Sessions.RunningCeiling(o.Server); !hosted {
		return nil, fmt.Errorf("front: no server is hosted under the name %q", o.Server)
	}
	f := &Front{
		o: o, pace: paced, tracer: o.tracer(), turns: turns{free: o.MaxAttaching}, rest: o.Runner.Signal(), exchanges: map[uint64]*exchange{},
	}
	if err := f.Configure(o.limits()); err != nil {
		return nil, err
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

// Drain parks every open stream at once, and refuses new requests.
func (f *Front) Drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return
	}
	f.closing = true
	f.rest.Set()
	for _, n := range slices.Sorted(maps.Keys(f.exchanges)) {
		f.exchanges[n].woken.Set()
	}
}

// Shutdown drains the front, and waits until no handler is left or ctx ends.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Drain()
	defer f.o.Runner.AfterDone(ctx, f.rest.Set)()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.rest.Set() // for who else waits
	for f.serving > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("front %s: %d requests are still being served: %w", f.o.Server, f.serving, ctx.Err())
		}
		run.WaitWithout(&f.mu, f.rest)
	}
	return nil
}

func (f *Front) isClosing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closing
}

// enter counts a handler in, unless the front is closing.
func (f *Front) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.serving++
	return true
}

func (f *Front) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.serving--; f.serving == 0 {
		f.rest.Set()
	}
}

// add lets an exchange hear of Drain.
func (f *Front) add(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	x.number = f.last
	f.exchanges[x.number] = x
	if f.closing {
		x.woken.Set()
	}
}

func (f *Front) remove(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.exchanges, x.number)
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
	most := f.limits.Load().MaxStreams
	if n := f.streams.Add(1); n > int64(most) {
		f.streams.Add(-1)
		return busy(id, "The server has %d streams open, as many as it may. Send the request again in a moment.", most)
	}
	return nil
}

func (f *Front) release() { f.streams.Add(-1) }
