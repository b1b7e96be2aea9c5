package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// Sessions is what a front needs of the sessions behind it.
type Sessions interface {
	// Send passes an event to a session, activating it when it is at rest. The
	// answer comes on the event's socket. Send fails with ErrUnknown when there is
	// no such session (an event with Create makes it), and with the host's error when
	// the session can't take the event: overloaded, or shutting down. It never blocks
	// for long.
	Send(ctx context.Context, id string, e Event) error
	// RunningCeiling is when the sessions of a server answer a request in its
	// runtime's place: that long after they have admitted it. There is none when the
	// server is not hosted.
	RunningCeiling(server string) (ceiling time.Duration, hosted bool)
}

// ErrUnknown: no session has this id, or it has ended.
var ErrUnknown = errors.New("no such session")

// Class is the class of session objects: their ids in storage are Class and the
// session id.
const Class = "mcp-session"

// Options configure a Service.
type Options struct {
	// Servers are the MCP servers that sessions may be opened on. A session whose
	// server is not among them is kept, and refused until it is again.
	Servers []Server
	// Logger takes what operators should know. Default: the host's.
	Logger *slog.Logger
	// TracerProvider and MeterProvider take the spans and the figures. Nil:
	// OpenTelemetry's global ones. Of the noop package's TracerProvider no spans are asked.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// CloseTimeout bounds the closing of one runtime. Default: 10 s.
	CloseTimeout time.Duration
	// Seams take parts out, for the tests of this module.
	Seams seams.Session
}

// Service is the sessions of one host.
type Service struct {
	host         *actor.Host
	log          *slog.Logger
	servers      *roster
	census       census
	underWay     underWay
	closeTimeout time.Duration
	seams        seams.Session
	telemetry    *telemetry
	residents    atomic.Int64
	confirmed    confirmed
	said         said
	rest         run.Signal // a runtime has ended
	watcher      atomic.Pointer[func(Occurrence)]

	mu      sync.Mutex
	running int                  // runtimes, from their building to their end
	current map[string]*resident // the newest runtime of each session that has one
}

// began counts a runtime that is about to be built.
func (s *Service) began() {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
}

// succeed makes a runtime the newest of its session, and reports whether the one
// before must be waited for; its end sets the newer one's wake.
func (s *Service) succeed(rt *resident) (wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rt.before == nil && s.current[rt.id] != rt {
		rt.before = s.current[rt.id]
		s.current[rt.id] = rt
	}
	if rt.before == nil || rt.before.gone {
		rt.before = nil
		return false
	}
	rt.before.next = &rt.worker
	return true
}

// left says that a runtime is gone.
func (s *Service) left(rt *resident) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rt.gone = true
	if rt.next != nil {
		rt.next.wake()
	}
	if s.current[rt.id] == rt {
		delete(s.current, rt.id)
	}
}

// ended forgets a runtime of which nothing is left.
func (s *Service) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.rest.Set()
}

// NewService registers the session class on a host. Call it before Host.Start.
func NewService(h *actor.Host, o Options) (*Service, error) {
	s, err := newService(h, o)
	if err == nil {
		h.Register(Class, s.machine)
	}
	return s, err
}

// machine is a session.
func (s *Service) machine() actor.Machine { return &object{svc: s} }

func newService(h *actor.Host, o Options) (*Service, error) {
	all, err := hosting(o.Servers)
	if err != nil {
		return nil, err
	}
	s := &Service{host: h, log: o.Logger, servers: newRoster(all), closeTimeout: o.CloseTimeout, rest: h.Runner().Signal(), seams: o.Seams, current: map[string]*resident{}}
	if s.log == nil {
		s.log = h.Logger()
	}
	if s.closeTimeout == 0 {
		s.closeTimeout = 10 * time.Second
	}
	if s.telemetry, err = newTelemetry(h.Clock(), o.TracerProvider, o.MeterProvider, s.underWay.each); err != nil {
		return nil, err
	}
	// In any order: they are figures by name.
	for name := range all {
		s.underWay.begin(name)
		for isolate := range h.Isolates() {
			s.telemetry.begin(place{isolate, name})
		}
	}
	return s, nil
}

// Residents is the number of runtimes that are resident.
func (s *Service) Residents() int64 { return s.residents.Load() }

// Wait returns when every runtime has been closed, or with ctx's error. Call it
// after Host.Shutdown.
func (s *Service) Wait(ctx context.Context) error {
	defer s.host.Runner().AfterDone(ctx, s.rest.Set)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("%d runtimes have not ended: %w", s.running, ctx.Err())
		}
		run.WaitWithout(&s.mu, s.rest)
	}
	return nil
}

// Send implements Sessions. An id that storage does not know never activates
// an object.
func (s *Service) Send(ctx context.Context, id string, e Event) error {
	oid := storage.ID{Class: Class, Name: id}
	err := s.known(ctx, oid, e)
	if f, ok := e.(*Flushed); ok && !errors.Is(err, ErrUnknown) {
		s.confirmed.add(id, f.Event) // also when the session can't be asked at the moment
	}
	if err != nil {
		return err
	}
	p, opens := e.(*Post)
	if opens = opens && p.Create; opens {
		if err := s.census.enter(s.servers.get(p.Caller.Server), p.Caller.Principal.Subject); err != nil {
			return err
		}
	}
	sock := e.socket()
	err = s.host.Send(oid, e, func(err error) { sock.End(End{Kind: Broken, Err: err}) })
	if err != nil && opens {
		s.census.leave(p.Caller.Server, p.Caller.Principal.Subject)
	}
	return err
}

// known is nil when there is an object that an event can reach, or is made by it.
func (s *Service) known(ctx context.Context, id storage.ID, e Event) error {
	if creates(e) || s.host.Active(id) {
		return nil
	}
	meta, err := s.host.Store().Get(ctx, id, keyMeta)
	if err == nil && meta == nil {
		return ErrUnknown
	}
	return err
}

// writesDown wakes a session that was reset before it had written down what its
// clients have: nobody else may come to it until the host ends, and then it would be
// forgotten.
func (s *Service) writesDown(id storage.ID) {
	if len(s.confirmed.of(id.Name)) == 0 {
		return
	}
	s.host.Clock().AfterFunc(writeDownAfter, func() { _ = s.host.Send(id, tidy{}, func(error) {}) }) // a host that ends takes nothing more
}

// writeDownAfter is when a session that was reset is woken to write down what its
// clients have; and again, when that has failed.
const writeDownAfter = time.Second

// At tells that a request of a session has come to a point at which a reset can be
// provoked.
func (s *Service) At(p actor.Point, id string, request wire.Message) {
	m := actor.Moment{Point: p, ID: storage.ID{Class: Class, Name: id}, Method: request.Method()}
	if request.Is("tools/call") {
		m.Tool = request.ParamString("name")
	}
	s.host.Chaos().At(m)
}

func creates(e Event) bool {
	switch e := e.(type) {
	case *Post:
		return e.Create
	case *Attach:
		return e.Post.Create
	}
	return false
}

func newState(id string, epoch uint64, svc *Service) *state {
	return &state{
		id: id, epoch: epoch, log: svc.log, said: &svc.said, servers: svc.servers, seams: svc.seams, share: share{of: &svc.underWay},
	}
}

// configured finds a server; nil when this host does not have it.
func (s *state) configured(name string) *Server { return s.servers.get(name) }
