package alarm

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// Restarted is what this binary does when a benchmark runs it again, as the process
// that comes after a restart.
var Restarted func(folder string)

// RestartFolder is the variable that names the folder then.
const RestartFolder = "KALPA_BENCH_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(RestartFolder); folder != "" {
		Restarted(folder)
		return
	}
	goleak.VerifyTestMain(m)
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// world is a dispatcher on a fake clock, whose steps are made by the test's own
// goroutine: nothing happens between two lines of a test. Its target notes what
// is fired, and checks that nothing is fired early or twice at a time (I6).
type world struct {
	t     tb
	store storage.Store
	clock *clock.Fake
	opts  Options
	d     *Dispatcher
	// target is what the dispatcher fires at; nil: the world itself.
	target Target

	mu     sync.Mutex
	queue  []func() // steps that are wanted
	epochs map[storage.ID]uint64

	flights map[storage.ID]*firing
	fired   []storage.Due // all, in order
	onFire  func(*firing) // called within Fire, if set
}

// firing is an alarm that the target was asked to run.
type firing struct {
	w    *world
	due  storage.Due
	call func(error)
}

func newWorld(t tb, o Options) *world {
	store := storage.NewMemory()
	return newWorldOn(t, o, store)
}

func newWorldOn(t tb, o Options, store storage.Store) *world {
	w := &world{
		t: t, store: store, clock: clock.NewFake(epoch), opts: o,
		epochs:  make(map[storage.ID]uint64),
		flights: make(map[storage.ID]*firing),
	}
	w.start()
	return w
}

func (w *world) start() {
	w.t.Helper()
	o := w.opts
	o.Store, o.Clock, o.Target = w.store, w.clock, cmp.Or[Target](w.target, w)
	o.Logger = slog.New(slog.DiscardHandler)
	o.Run = w.run
	d, err := New(o)
	if err != nil {
		w.t.Fatalf("New: %v", err)
	}
	w.d = d
	if err := d.Start(); err != nil {
		w.t.Fatalf("Start: %v", err)
	}
}

// crash ends the dispatcher with whatever is in flight, and forgets it.
func (w *world) crash() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.d.Stop(ctx) // an error if anything was in flight
	clear(w.flights)
	w.queue = nil
}

// restart crashes, and starts a dispatcher on the same store.
func (w *world) restart() {
	w.t.Helper()
	w.crash()
	w.start()
}

func (w *world) close() {
	w.crash()
	if err := w.store.Close(); err != nil {
		w.t.Errorf("Close: %v", err)
	}
}

// run is Options.Run.
func (w *world) run(f func()) {
	w.mu.Lock()
	w.queue = append(w.queue, f)
	w.mu.Unlock()
}

// settle makes steps until none is wanted.
func (w *world) settle() {
	w.t.Helper()
	for steps := 0; ; steps++ {
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.mu.Unlock()
			return
		}
		f := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		if steps > 1000+len(w.fired) {
			w.t.Fatalf("the dispatcher spins (I8): %d steps at one moment", steps)
		}
		f()
	}
}

// advance lets time pass, and makes the steps that are wanted on the way.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	w.settle()
	for end := w.clock.Now().Add(d); ; w.settle() {
		next, armed := w.clock.Next()
		now := w.clock.Now()
		if !armed || next.After(end) {
			w.clock.Advance(end.Sub(now))
			w.settle()
			return
		}
		if next.Sub(now) > look {
			w.t.Errorf("a timer is armed for %v: the wall clock may jump, and must be looked at once a second", next.Sub(now))
		}
		w.clock.Advance(next.Sub(now))
	}
}

// Fire implements Target.
func (w *world) Fire(d storage.Due, done func(error)) {
	if now := w.clock.Now(); d.At.After(now) {
		w.t.Errorf("%v fired %v before its time (I6)", d.ID, d.At.Sub(now))
	}
	if w.flights[d.ID] != nil {
		w.t.Errorf("%v fired while it was in flight (I6)", d.ID)
	}
	f := &firing{w, d, done}
	w.flights[d.ID] = f
	w.fired = append(w.fired, d)
	if w.onFire != nil {
		w.onFire(f)
	}
}

func (f *firing) done(err error) {
	if f.w.flights[f.due.ID] == f {
		delete(f.w.flights, f.due.ID)
	}
	f.call(err)
}

// complete deletes the row and is done, as a handler that succeeds.
func (f *firing) complete() {
	f.w.t.Helper()
	f.w.set(f.due.ID, storage.Alarm{})
	f.done(nil)
}

// completeAll completes whatever is in flight, in the order of IDs.
func (w *world) completeAll() {
	w.t.Helper()
	for _, f := range w.inFlight() {
		f.complete()
	}
}

func (w *world) inFlight() []*firing {
	var all []*firing
	for _, f := range w.flights {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *firing) int {
		if a.due.ID.String() < b.due.ID.String() {
			return -1
		}
		return 1
	})
	return all
}

// set commits an alarm row; the zero alarm deletes it.
func (w *world) set(id storage.ID, a storage.Alarm) {
	w.t.Helper()
	e, ok := w.epochs[id]
	if !ok {
		var err error
		if e, err = storage.Claim(context.Background(), w.store, id); err != nil {
			w.t.Fatalf("Claim: %v", err)
		}
		w.epochs[id] = e
	}
	if err := storage.Commit(context.Background(), w.store, &storage.Batch{ID: id, Epoch: e, Alarm: &a}); err != nil {
		w.t.Fatalf("Commit: %v", err)
	}
}

// setIn commits an alarm that is due a duration from now.
func (w *world) setIn(id storage.ID, d time.Duration) {
	w.t.Helper()
	w.set(id, storage.Alarm{At: w.clock.Now().Add(d)})
}

// firedSince returns how often an object was fired after the first n firings.
func (w *world) firedSince(n int, id storage.ID) int {
	count := 0
	for _, d := range w.fired[n:] {
		if d.ID == id {
			count++
		}
	}
	return count
}

func (w *world) wantFired(n int) {
	w.t.Helper()
	if len(w.fired) != n {
		w.t.Fatalf("%d alarms were fired, want %d", len(w.fired), n)
	}
}

// wantNothingArmed checks I8.
func (w *world) wantNothingArmed() {
	w.t.Helper()
	if at, armed := w.clock.Next(); armed {
		w.t.Fatalf("nothing is pending, and a timer is armed for %v from now (I8)", at.Sub(w.clock.Now()))
	}
}

func object(name string) storage.ID { return storage.ID{Class: "object", Name: name} }
