package actor

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
)

// Options configure a Host. The zero value of each field but Store means its
// default.
type Options struct {
	// Store holds the objects' state. Required. The host does not close it.
	Store storage.Store
	// Clock tells the time. Default: the system's.
	Clock clock.Clock
	// Runner starts goroutines. Default: a pool, from Start to Shutdown.
	Runner run.Runner
	// Logger takes what operators should know. Default: slog.Default().
	Logger *slog.Logger
	// MeterProvider takes the host's figures, for as long as it lives. Nil: nobody does.
	MeterProvider metric.MeterProvider
	// TracerProvider takes the spans of requests that objects serve over HTTP. Nil,
	// or that of the noop package: none are made.
	TracerProvider trace.TracerProvider
	// Isolates is the number of groups that share a heap. Default: 4.
	Isolates int
	// HeapLimit is the budget of one isolate, in bytes. Default: 128 MiB, that of the
	// platform whose semantics these are.
	HeapLimit int64
	// SoftLimit is how much of it may be charged before the isolate reclaims what nobody
	// needs, least recently used first: objects that rest, and machines that are
	// Reclaimers. Default: three quarters of HeapLimit. Negative: nothing is reclaimed,
	// and a charge that does not fit resets the isolate at once.
	SoftLimit int64
	// CacheLimit bounds the bytes of an isolate's batches that are not yet written.
	// What does not fit resets the isolate. Default: 128 MiB.
	CacheLimit int64
	// DirtyLimit is the part of it that one object may have: past it, the object's next
	// write waits until less is not yet written. Default: 8 MiB.
	DirtyLimit int64
	// TurnLimit is how long one turn may run, in wall time: Go can't meter a
	// goroutine. A turn that overruns is abandoned: its object is reset, nothing of it
	// is written or leaves, and what it has charged stays charged until it ends. It is
	// found within a second. Default: 30 s. Negative: none.
	TurnLimit time.Duration
	// MaxQueued bounds the events that wait for one object. Default: 1,000.
	MaxQueued int
	// MaxQueuedBytes bounds the bytes of those that are Sized, arguments of calls and
	// WebSocket messages among them; an empty queue takes one of any size.
	// Default: 32 MiB.
	MaxQueuedBytes int64
	// MaxQueuedFor is how long the oldest of them may have waited when another comes;
	// then that one is refused. It is counted while the process runs. Default: 30 s.
	// Negative: for ever.
	MaxQueuedFor time.Duration
	// EvictAfter is how long an object rests before its memory is given up.
	// Default: 10 s. Negative: never.
	EvictAfter time.Duration
	// Web bounds HTTP and WebSockets.
	Web Web
	// Version identifies the program's code. Where it is another than that of the last
	// host on the same store, what that one has lost was lost to an update: see
	// [Host.EndedBy]. Empty: nobody is told of updates.
	Version string
	// Dispatcher decides when incarnations run, and for how many messages one of them goes
	// on. Default: a goroutine of the Runner's for each that has work, for as long as it has.
	Dispatcher pa.Dispatcher
	// Entropy is what unique ids are drawn from. Default: the system's.
	Entropy io.Reader
	// Random draws the strikes of Chaos that have a probability. Default: seeded by
	// the system.
	Random Random
	// Kill ends the process at once, for strikes of that scope. Nil: there are none.
	Kill func()
	// Seams take parts out, for the tests of this module.
	Seams seams.Alarm
}

func (o *Options) defaults() error {
	if o.Store == nil {
		return errors.New("actor: Options.Store is required")
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Isolates == 0 {
		o.Isolates = 4
	}
	if o.HeapLimit == 0 {
		o.HeapLimit = 128 << 20
	}
	if o.SoftLimit == 0 {
		o.SoftLimit = o.HeapLimit / 4 * 3
	}
	if o.CacheLimit == 0 {
		o.CacheLimit = 128 << 20
	}
	if o.DirtyLimit == 0 {
		o.DirtyLimit = 8 << 20
	}
	if o.TurnLimit == 0 {
		o.TurnLimit = 30 * time.Second
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 1000
	}
	if o.MaxQueuedBytes == 0 {
		o.MaxQueuedBytes = 32 << 20
	}
	if o.MaxQueuedFor == 0 {
		o.MaxQueuedFor = 30 * time.Second
	}
	if o.EvictAfter == 0 {
		o.EvictAfter = 10 * time.Second
	}
	if o.Entropy == nil {
		o.Entropy = crand.Reader
	}
	if o.Random == nil {
		o.Random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:forbidigo,gosec // the default; chances, not secrets
	}
	if o.Isolates < 0 || o.HeapLimit < 0 || o.CacheLimit < 0 || o.DirtyLimit < 0 || o.MaxQueued < 0 || o.MaxQueuedBytes < 0 {
		return fmt.Errorf("actor: Options.Isolates, HeapLimit, CacheLimit, DirtyLimit, MaxQueued and MaxQueuedBytes must not be negative, got %d, %d, %d, %d, %d, %d",
			o.Isolates, o.HeapLimit, o.CacheLimit, o.DirtyLimit, o.MaxQueued, o.MaxQueuedBytes)
	}
	if o.SoftLimit > o.HeapLimit {
		return fmt.Errorf("actor: Options.SoftLimit is %d, more than HeapLimit, which is %d", o.SoftLimit, o.HeapLimit)
	}
	return o.Web.defaults()
}

// idleGoroutines is how many a host keeps for the next events: enough for some hundred
// requests at a time, and a few MB.
const idleGoroutines = 256

// dispatcher runs mailboxes on a Runner's goroutines.
type dispatcher struct{ run.Runner }

func (d dispatcher) Schedule(f func()) { d.Go(f) }

// Throughput has a mailbox go on while it has work.
func (d dispatcher) Throughput() int { return math.MaxInt }

// Host runs the objects of one process.
type Host struct {
	o          Options
	pool       *run.Pool // of goroutines, where Options have no Runner
	began      time.Time
	log        *slog.Logger
	sys        *pa.ActorSystem
	spawner    spawner
	classes    map[string]func() Machine
	isolates   []*isolate
	dir        directory
	breaks     breaks
	watcher    watching
	chaos      Chaos
	dispatcher *alarm.Dispatcher
	meters     meters
	entropy    sync.Mutex      // of Options.Entropy
	served     map[string]bool // the classes that Handler serves
	sockets    *sockets
	bodies     atomic.Int64 // of requests, in bytes

	ticks    atomic.Uint32 // of the sweep
	evicted  atomic.Int64  // objects
	code     code          // since Start
	started  atomic.Bool
	draining atomic.Bool
	look     run.Signal // while draining: an object may have come to rest
	sweeping struct {
		sync.Mutex
		timer   clock.Timer
		stopped bool
		next    int // the shard that is looked at next
	}
}

// The registry of an actor system is 1,024 maps, and each would have 32 shards with
// a lock and a map of their own: 3 MB and milliseconds for every host. The 1,024 are
// enough.
func init() {
	cmap.SHARD_COUNT = 1 // it is there to be set before the first map is made
}

// NewHost makes a host. Register its classes, then call Start.
func NewHost(o Options) (*Host, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	pool := run.NewPool()
	if o.Runner == nil {
		o.Runner = pool
	}
	if o.Dispatcher == nil {
		o.Dispatcher = dispatcher{o.Runner}
	}
	h := &Host{
		o: o, pool: pool, log: o.Logger, began: o.Clock.Now(),
		classes: map[string]func() Machine{},
		sys: pa.NewActorSystem(pa.WithLoggerFactory(func(*pa.ActorSystem) *slog.Logger {
			return slog.New(slog.DiscardHandler)
		}),
			// What reaches an incarnation that has just ended is nothing to log; the
			// goroutine that counts it outlives the host by so long.
			pa.WithDeadLetterThrottleInterval(10*time.Millisecond)),
	}
	h.spawner.init(h)
	h.dir.init()
	h.served, h.sockets = map[string]bool{}, newSockets(h)
	h.look = o.Runner.Signal()
	h.chaos.h, h.chaos.random = h, o.Random
	for n := range o.Isolates {
		h.isolates = append(h.isolates, newIsolate(h, n))
	}
	d, err := alarm.New(alarm.Options{Store: o.Store, Clock: o.Clock, Runner: o.Runner, Target: h, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	h.dispatcher = d
	if err := h.instrument(o.MeterProvider); err != nil {
		return nil, err
	}
	return h, nil
}

// Register makes a class of machines known. It must be called before Start, and
// panics when the name is taken or no class can have it: that is 1 to 64 letters,
// digits, '_', '.' and '-'.
func (h *Host) Register(class string, create func() Machine) {
	if h.started.Load() {
		panic("actor: Register after Start")
	}
	if err := storage.ValidateClass(class); err != nil {
		panic(fmt.Sprintf("actor: Register: %v", err))
	}
	if class == codeID.Class {
		panic(fmt.Sprintf("actor: class %q is the host's own", class))
	}
	if _, taken := h.classes[class]; taken {
		panic(fmt.Sprintf("actor: class %q is registered twice", class))
	}
	h.classes[class] = create
}

// Start begins to fire alarms and to evict idle objects. Events are taken before
// it as well.
func (h *Host) Start() error {
	h.started.Store(true)
	h.pool.Keep(idleGoroutines)
	if err := h.deploy(); err != nil {
		return err
	}
	h.armSweep()
	return h.dispatcher.Start()
}

// Runner is what the host's goroutines are started by.
func (h *Host) Runner() run.Runner { return h.o.Runner }

// Alarms are the figures of the alarms that the host has fired.
func (h *Host) Alarms() alarm.Stats { return h.dispatcher.Stats() }

// Clock is the clock that the host runs by.
func (h *Host) Clock() clock.Clock { return h.o.Clock }

// Store is where the host's objects live.
func (h *Host) Store() storage.Store { return h.o.Store }

// Logger is where the host logs to.
func (h *Host) Logger() *slog.Logger { return h.log }

// Send passes an event to an object, activating it when it is at rest. fail is
// called, once, if the event turns out not to have been handled: the incarnation
// was reset before it. An error of Send itself means the same. Send does not
// wait for the event to be handled.
func (h *Host) Send(id storage.ID, event any, fail func(error)) error {
	return h.send(id, envelope{event: event, fail: fail})
}

func (h *Host) send(id storage.ID, e envelope) error {
	if h.draining.Load() {
		return &Error{Op: "send", ID: id, Cause: Shutdown, Hint: "send it again to the host that follows"}
	}
	return h.enqueue(id, e)
}

// Active reports whether an object has an incarnation at this moment.
func (h *Host) Active(id storage.ID) bool {
	s := h.dir.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.entries[id]
	return ok
}

// Fire runs an object's alarm: it is how the host serves alarm.Dispatcher.
func (h *Host) Fire(d storage.Due, done func(error)) {
	if err := h.enqueue(d.ID, envelope{event: &fired{d, done}, fail: done}); err != nil {
		done(err)
	}
}

// Reset breaks one object: its memory is gone, its storage is not. The sentence
// of the cause is what callers in flight get, and reason behind it if it is not
// nil. It returns the epoch that has ended; 0 for an object at rest, which has
// nothing to reset.
func (h *Host) Reset(id storage.ID, c Cause, reason error) (epoch uint64) {
	inc := h.dir.incarnation(id)
	if inc == nil {
		return 0
	}
	left, ok := inc.condemn(&Error{Op: "run", ID: id, Epoch: inc.epoch, Cause: c, Err: reason})
	if !ok {
		return 0
	}
	inc.bury(left)
	h.watcher.reset(inc.broken.Load(), inc.isolate.n)
	return inc.epoch
}

// Epoch is that of the object's incarnation, 0 when it has none at this moment.
func (h *Host) Epoch(id storage.ID) uint64 {
	if inc := h.dir.incarnation(id); inc != nil {
		return inc.epoch
	}
	return 0
}

// Evicted is how many objects have been evicted: what they had in memory, the next
// collection finds.
func (h *Host) Evicted() int64 { return h.evicted.Load() }

// Classes are the names of those that are registered, sorted.
func (h *Host) Classes() []string { return slices.Sorted(maps.Keys(h.classes)) }

// Isolates is the number of isolates, which are numbered from 0.
func (h *Host) Isolates() int { return len(h.isolates) }

// IsolateOf is the number of the isolate that an object lives in.
func (h *Host) IsolateOf(id storage.ID) int { return h.isolateOf(id).n }

// ResetIsolate breaks every object of an isolate, and no other. It returns how many
// there were.
func (h *Host) ResetIsolate(n int, c Cause, reason error) (objects int, err error) {
	if n < 0 || n >= len(h.isolates) {
		return 0, h.noIsolate(n)
	}
	return h.isolates[n].reset(c, reason), nil
}

func (h *Host) noIsolate(n int) error {
	return fmt.Errorf("actor: there is no isolate %d; this host has 0 to %d", n, len(h.isolates)-1)
}

// looked tells a host that shuts down that an object may have come to rest.
func (h *Host) looked() {
	if h.draining.Load() {
		h.look.Set()
	}
}

// Shutdown stops the host in order: no new events, no alarms, a Drain turn for
// each object, then eviction. Objects that are still at work when ctx ends are
// reset. The store stays open.
func (h *Host) Shutdown(ctx context.Context) error {
	if h.draining.Swap(true) {
		return nil
	}
	defer h.pool.Keep(0)
	h.sweeping.Lock()
	h.sweeping.stopped = true
	if h.sweeping.timer != nil {
		h.sweeping.timer.Stop()
	}
	h.sweeping.Unlock()
	err := h.dispatcher.Stop(ctx)
	deadline, _ := ctx.Deadline()
	for id := range h.dir.all() {
		_ = h.enqueue(id, envelope{event: Drain{deadline}})
	}
	defer h.o.Runner.AfterDone(ctx, h.look.Set)()
	for !h.dir.empty() {
		if ctx.Err() != nil {
			for id := range h.dir.all() {
				h.Reset(id, Shutdown, nil)
			}
			h.sockets.shutdown(ctx)
			return cmp.Or(err, ctx.Err())
		}
		h.sweepAll()
		h.look.Wait()
	}
	h.sockets.shutdown(ctx)
	return err
}
