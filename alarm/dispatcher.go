package alarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// Bounds of a Dispatcher.
const (
	// DefaultMaxInFlight bounds the alarms that have been fired and are not done.
	DefaultMaxInFlight = 1024
	// DefaultMaxDeferred bounds the objects whose back-off is remembered one by
	// one. Beyond it they share one; see the package documentation.
	DefaultMaxDeferred = 16 << 10

	// look is how often the wall clock is read while an alarm is pending, since it
	// may have jumped and timers don't know; and the index, since the alarm may have
	// been deleted, of which nobody tells.
	look = time.Second
)

// Target runs alarms: it is the host of the objects.
type Target interface {
	// Fire asks for the alarm of an object to be run. It does not wait for that and
	// must not block. d is what the index said: the target compares it with the
	// object's row, which may have changed since, and runs the row if it is due.
	//
	// done is called once, from any goroutine, also from within Fire. With nil it
	// says that the row has changed and that the change is durable: it was deleted,
	// set anew, or set to its retry. With an error it says that the alarm could not
	// be run and that its row is as it was; it will be fired again. A handler's
	// failure is not such an error: it is the target's to count, in the row.
	Fire(d storage.Due, done func(error))
}

// Rearmer is a Target whose objects derive their alarms, from waits among other
// things. When the wall clock was put back, what was to be in an hour is in an hour
// and that much more, and nobody would look at its object before.
type Rearmer interface {
	Target
	// Rearm asks for an object, whose alarm is not due, to derive it anew. It is called
	// for each that has an alarm after the clock was put back by a second or more.
	// Otherwise it is like Fire.
	Rearm(id storage.ID, done func(error))
}

// Options configure a Dispatcher. Store and Target are required.
type Options struct {
	// Store holds the alarm rows. The Dispatcher becomes its observer.
	Store storage.Store
	// Target runs the alarms.
	Target Target
	// Clock tells the time. Nil means the system's.
	Clock clock.Clock
	// Logger gets what an operator should know. Nil means slog.Default.
	Logger *slog.Logger
	// MaxInFlight bounds the alarms that are running at once; 0 means
	// DefaultMaxInFlight.
	MaxInFlight int
	// MaxDeferred bounds the objects that are remembered because their alarm could
	// not be run; 0 means DefaultMaxDeferred.
	MaxDeferred int
	// Runner starts the goroutine. Nil means the runtime's own.
	Runner run.Runner
	// Run, if it is set, replaces the goroutine that Start begins: it arranges for
	// f to be called soon, not from within Run, and never two at a time. It may be
	// called from any goroutine and must not block.
	Run func(f func())
}

func (o *Options) fill() error {
	var problems []error
	if o.Store == nil {
		problems = append(problems, errors.New("alarm: Options.Store is required"))
	}
	if o.Target == nil {
		problems = append(problems, errors.New("alarm: Options.Target is required"))
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Runner == nil {
		o.Runner = run.Real
	}
	for _, b := range []struct {
		name string
		n    *int
		def  int
	}{
		{"MaxInFlight", &o.MaxInFlight, DefaultMaxInFlight},
		{"MaxDeferred", &o.MaxDeferred, DefaultMaxDeferred},
	} {
		if *b.n < 0 {
			problems = append(problems, fmt.Errorf("alarm: Options.%s must not be negative, got %d", b.name, *b.n))
		}
		if *b.n == 0 {
			*b.n = b.def
		}
	}
	return errors.Join(problems...)
}

// Dispatcher fires alarms when they are due. Its methods may be called from any
// goroutine.
type Dispatcher struct {
	store  storage.Store
	target Target
	clock  clock.Clock
	log    limitedLog
	run    func(func())

	ctx    context.Context // of reads; ends with Stop
	cancel context.CancelFunc
	runner run.Runner
	kick   run.Signal // a step is wanted
	rest   run.Signal // what Stop waits for may have come

	stepping sync.Mutex // one Step at a time

	mu      sync.Mutex
	core    core
	started bool
	stopped bool
	woken   bool // a step is on its way
	timer   clock.Timer
	looping bool // there is a goroutine
	running int  // fired, and not done
}

// New makes a Dispatcher. It does nothing before Start.
func New(o Options) (*Dispatcher, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		store: o.Store, target: o.Target, clock: o.Clock, run: o.Run,
		log:    limitedLog{log: o.Logger},
		core:   newCore(o.MaxInFlight, o.MaxDeferred),
		runner: o.Runner, kick: o.Runner.Signal(), rest: o.Runner.Signal(),
	}
	_, d.core.reviews = o.Target.(Rearmer)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// Start begins to fire what is due, with what has been overdue since before the
// start. It returns at once, also with a million alarms pending.
func (d *Dispatcher) Start() error {
	d.mu.Lock()
	if d.started || d.stopped {
		d.mu.Unlock()
		return errors.New("alarm: a dispatcher can be started once")
	}
	d.started = true
	if d.run == nil {
		d.looping = true
		d.runner.Go(d.loop)
	}
	d.mu.Unlock()
	// What is set from here on is observed; what was set before is found by the
	// first scan, which begins after this.
	d.store.OnAlarm(d.observe)
	d.wake()
	return nil
}

// Stop ends firing and waits until what was fired is done, or until ctx ends;
// then it says how many were not. What is due stays in storage, for the next
// start. After Stop nothing is fired.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.mu.Lock()
	if !d.stopped {
		d.stopped = true
		d.cancel()
		if d.timer != nil {
			d.timer.Stop()
			d.timer = nil
		}
		d.kick.Set()
	}
	defer d.mu.Unlock()
	defer d.runner.AfterDone(ctx, d.rest.Set)()
	defer d.rest.Set() // for who else waits
	for d.looping || d.running > 0 {
		run.WaitWithout(&d.mu, d.rest)
		if ctx.Err() != nil && (d.looping || d.running > 0) {
			return fmt.Errorf("alarm: stopped with %d alarms running, which fire again at the next start unless they complete: %w", d.running, ctx.Err())
		}
	}
	return nil
}

// Stats are figures for telemetry.
type Stats struct {
	// Running: what is due is fired. So it is from Start to Stop.
	Running bool
	// InFlight alarms have been fired and are not settled.
	InFlight int
	// Deferred objects wait because their alarm could not be run.
	Deferred int
	// Fired, Failed and Unchanged count since New: calls of Fire, those that ended
	// with an error, and those that ended without one and left the row as it was.
	Fired, Failed, Unchanged uint64
}

// Stats returns the figures of this moment.
func (d *Dispatcher) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.core.stats()
	s.Running = d.started && !d.stopped
	return s
}

// observe is called by the store with each alarm that is set, before the commit
// is confirmed: so an alarm that moves earlier can't be overslept.
func (d *Dispatcher) observe(id storage.ID, at time.Time) {
	d.mu.Lock()
	sooner := !d.stopped && d.core.set(id, at)
	d.mu.Unlock()
	if sooner {
		d.wake()
	}
}
