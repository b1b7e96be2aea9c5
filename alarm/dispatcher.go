package alarm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// Target runs alarms: it is the host of the objects.
type Target interface {
	// Fire runs an object's alarm and must not block. done is called once: with nil
	// when the row has been dealt with durably (completed, set to a retry, or set
	// anew by the object); with an error when the object could not be reached.
	Fire(d storage.Due, done func(error))
}

// Options configure a Dispatcher.
type Options struct {
	Store  storage.Store
	Target Target
	// Clock tells the time. Default: the system's.
	Clock clock.Clock
	// MaxInFlight bounds the alarms that run at once. Default: 1,024.
	MaxInFlight int
	// Jitter returns a number from 0 to 1 for each wait after a failure. Default: 0.
	Jitter func() float64
	// Logger takes what operators should know. Default: slog.Default().
	Logger *slog.Logger
}

const (
	defaultInFlight = 1024
	// maxDeferred bounds the failures remembered one by one; past it, everything
	// waits for a second.
	maxDeferred = 10_000
	// lookAgain is how long the wall clock is trusted not to have jumped.
	lookAgain = time.Second
)

// Dispatcher fires what is due.
type Dispatcher struct {
	o   Options
	log *slog.Logger

	mu       sync.Mutex
	low      storage.Cursor // before it the index has nothing but what is in flight or deferred
	inFlight map[storage.ID]time.Time
	deferred map[storage.ID]deferral
	behind   time.Time // the earliest alarm set since the scan began, zero for none
	// recent holds what was dealt with since the last whole scan: a row that is
	// still there unchanged must not be fired again at once.
	recent  map[storage.ID]time.Time
	paused  time.Time
	stopped bool
	idle    chan struct{} // closed when stopped and nothing is in flight

	signal chan struct{}
	quit   chan struct{}
	ended  chan struct{}
}

// deferral is a row that could not be run and waits.
type deferral struct {
	at    time.Time // the row's
	until time.Time
	fails int
}

// New makes a Dispatcher. It becomes the store's observer of alarms.
func New(o Options) (*Dispatcher, error) {
	if o.Store == nil || o.Target == nil {
		return nil, errors.New("alarm: Options.Store and Options.Target are required")
	}
	if o.MaxInFlight < 0 {
		return nil, errors.New("alarm: Options.MaxInFlight must not be negative")
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultInFlight
	}
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	d := &Dispatcher{
		o: o, log: o.Logger,
		inFlight: map[storage.ID]time.Time{}, deferred: map[storage.ID]deferral{}, recent: map[storage.ID]time.Time{},
		signal: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}), idle: make(chan struct{}),
	}
	o.Store.OnAlarm(d.set)
	return d, nil
}

// set is told of each alarm that is set, before its commit is confirmed.
func (d *Dispatcher) set(_ storage.ID, at time.Time) {
	d.mu.Lock()
	if !at.After(d.low.At) {
		d.low = storage.Cursor{At: at.Add(-time.Microsecond)}
	}
	if d.behind.IsZero() || at.Before(d.behind) {
		d.behind = at
	}
	d.mu.Unlock()
	d.poke()
}

func (d *Dispatcher) poke() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// Step fires what is due at now, and returns when to step again: not later than
// the next alarm, and zero when nothing is pending. A new alarm or the end of a
// run calls for a step as well.
func (d *Dispatcher) Step(ctx context.Context, now time.Time) (next time.Time, err error) {
	d.mu.Lock()
	cursor := d.low
	d.behind = time.Time{}
	full := d.stopped || d.paused.After(now)
	if full {
		next = d.paused
	}
	d.mu.Unlock()
	for !full {
		rows, err := d.o.Store.Due(ctx, cursor, now, d.o.MaxInFlight)
		if err != nil {
			return now.Add(lookAgain), err
		}
		for _, row := range rows {
			fire, wait := d.consider(row, now)
			if wait == errFull {
				full = true
				break
			}
			cursor = storage.Cursor{At: row.At, ID: row.ID}
			if fire {
				d.o.Target.Fire(row, d.doneWith(row))
			}
		}
		if len(rows) < d.o.MaxInFlight {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !full {
		d.advance(cursor)
		clear(d.recent)
		rows, err := d.o.Store.Due(ctx, storage.Cursor{At: now, ID: last}, forever, 1)
		if err != nil {
			return now.Add(lookAgain), err
		}
		if len(rows) > 0 {
			next = rows[0].At
		}
	}
	for _, f := range d.deferred {
		if next.IsZero() || f.until.Before(next) {
			next = f.until
		}
	}
	return next, nil
}

var (
	errFull = errors.New("as many alarms run as may")
	forever = time.Unix(1<<40, 0)
	// last is after every ID in the index.
	last = storage.ID{Class: "\xff", Name: "\xff"}
)

// consider decides whether a row is to be fired now.
func (d *Dispatcher) consider(row storage.Due, now time.Time) (fire bool, wait error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, running := d.inFlight[row.ID]; running {
		return false, nil
	}
	f, failed := d.deferred[row.ID]
	if failed && f.until.After(now) {
		return false, nil
	}
	if at, ok := d.recent[row.ID]; ok && at.Equal(row.At) && !failed {
		d.log.Error("an alarm was reported as done and its row is unchanged", "object", row.ID.String(), "at", row.At)
		d.postpone(row, deferral{}, now)
		return false, nil
	}
	if d.stopped || len(d.inFlight) >= d.o.MaxInFlight {
		return false, errFull
	}
	d.inFlight[row.ID] = row.At
	return true, nil
}

// advance moves the start of the next scan to before the earliest row that is
// in flight or deferred, or to the end of this scan. Called with the lock.
func (d *Dispatcher) advance(cursor storage.Cursor) {
	low := cursor
	before := func(at time.Time) {
		if c := (storage.Cursor{At: at.Add(-time.Microsecond)}); c.At.Before(low.At) {
			low = c
		}
	}
	for _, at := range d.inFlight {
		before(at)
	}
	for _, f := range d.deferred {
		before(f.at)
	}
	// An alarm that was set during the scan may lie behind it.
	if !d.behind.IsZero() {
		before(d.behind)
	}
	d.low = low
}

// postpone remembers a row that could not be run. Called with the lock.
func (d *Dispatcher) postpone(row storage.Due, f deferral, now time.Time) {
	if len(d.deferred) >= maxDeferred {
		d.paused = now.Add(lookAgain)
		return
	}
	f.at, f.until = row.At, now.Add(BackoffUncounted(f.fails, d.o.Jitter()))
	f.fails++
	d.deferred[row.ID] = f
}

// doneWith returns what the target calls when a row has been dealt with.
func (d *Dispatcher) doneWith(row storage.Due) func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			d.mu.Lock()
			delete(d.inFlight, row.ID)
			before := d.deferred[row.ID]
			delete(d.deferred, row.ID)
			if err != nil {
				d.log.Warn("an alarm could not be run and is tried again later", "object", row.ID.String(), "failures", before.fails+1, "error", err)
				d.postpone(row, before, d.o.Clock.Now())
			} else {
				d.recent[row.ID] = row.At
			}
			n := len(d.inFlight)
			if d.stopped && n == 0 {
				close(d.idle)
			}
			d.mu.Unlock()
			// A step for each run would walk the rows in flight again and again.
			if n == 0 || n == d.o.MaxInFlight/2 || err != nil {
				d.poke()
			}
		})
	}
}

// Start drives the dispatcher on a goroutine of its own.
func (d *Dispatcher) Start() error {
	go d.run()
	return nil
}

func (d *Dispatcher) run() {
	defer close(d.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-d.quit; cancel() }()
	for {
		now := d.o.Clock.Now()
		next, err := d.Step(ctx, now)
		if err != nil && ctx.Err() == nil {
			d.log.Error("the alarm index could not be read", "error", err)
		}
		var timer clock.Timer
		if !next.IsZero() {
			timer = d.o.Clock.AfterFunc(min(next.Sub(now), lookAgain), d.poke)
		}
		select {
		case <-d.signal:
		case <-d.quit:
		}
		if timer != nil {
			timer.Stop()
		}
		select {
		case <-d.quit:
			return
		default:
		}
	}
}

// Stop fires nothing more and waits for the alarms that run, or for ctx. What
// is overdue stays in storage.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.mu.Lock()
	if !d.stopped {
		d.stopped = true
		close(d.quit)
		if len(d.inFlight) == 0 {
			close(d.idle)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
