package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// victim is an object that does what its test wants.
type victim struct{ state *actor.State }

// acts are what the victims of a test do, by the object's name: in their
// constructor if the name begins with "new", else when they are called.
var acts sync.Map // name -> func(*actor.State) error

var (
	victims = actor.Define("victim", func(_ context.Context, s *actor.State) (*victim, error) {
		if strings.HasPrefix(s.ID().Name, "new") {
			return &victim{s}, perform(s)
		}
		return &victim{s}, nil
	})
	act = actor.Method(victims, "act", func(v *victim, _ context.Context, _ int) (int, error) { return 1, perform(v.state) })
)

func perform(s *actor.State) error {
	if f, ok := acts.LoadAndDelete(s.ID().Name); ok {
		return f.(func(*actor.State) error)(s)
	}
	return nil
}

// ward is a host with victims, whose clock and disk a test moves.
type ward struct {
	*testing.T
	*actor.Host
	clock *clock.Fake
	disk  *slowDisk
}

func newWard(t *testing.T, o actor.Options) *ward {
	w := &ward{T: t, clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), disk: &slowDisk{Store: storage.NewMemory()}}
	o.Clock, o.Store, o.Logger, o.Isolates = w.clock, w.disk, quiet, 1
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Host = h
	victims.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.disk.release()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		w.disk.Close()
	})
	return w
}

// call has a victim act; the answer is its error.
func (w *ward) call(name string, f func(*actor.State) error) <-chan error {
	if f != nil {
		acts.Store(name, f)
	}
	done := make(chan error, 1)
	go func() {
		_, err := act.Do(context.Background(), w.Stub(storage.ID{Class: "victim", Name: name}), 0)
		done <- err
	}()
	return done
}

func (w *ward) answer(of <-chan error) error {
	w.Helper()
	select {
	case err := <-of:
		return err
	case <-time.After(10 * time.Second):
		w.Fatal("a call hangs")
		return nil
	}
}

func (w *ward) eventually(what string, f func() bool) {
	w.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("in vain: %s", what)
		}
	}
}

// slowDisk holds back reads of the key "slow", and the confirmation of every
// commit, while it is told to.
type slowDisk struct {
	storage.Store
	mu      sync.Mutex
	reads   chan struct{}
	commits chan struct{}
	claims  chan struct{}
	fail    error
	waiting int
}

func (d *slowDisk) hold(reads, commits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reads {
		d.reads = make(chan struct{})
	}
	if commits {
		d.commits = make(chan struct{})
	}
}

// holdClaims holds back the answer to every claim.
func (d *slowDisk) holdClaims() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = make(chan struct{})
}

func (d *slowDisk) Claim(id storage.ID, done func(uint64, bool, error)) {
	d.mu.Lock()
	on := d.claims
	d.mu.Unlock()
	d.Store.Claim(id, func(epoch uint64, fresh bool, err error) {
		if on == nil {
			done(epoch, fresh, err)
			return
		}
		go func() {
			d.wait(on)
			done(epoch, fresh, err)
		}()
	})
}

func (d *slowDisk) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range []*chan struct{}{&d.reads, &d.commits, &d.claims} {
		if *c != nil {
			close(*c)
			*c = nil
		}
	}
}

func (d *slowDisk) holds() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

func (d *slowDisk) wait(on chan struct{}) {
	if on == nil {
		return
	}
	count := func(n int) {
		d.mu.Lock()
		d.waiting += n
		d.mu.Unlock()
	}
	count(1)
	<-on
	count(-1)
}

func (d *slowDisk) Get(ctx context.Context, id storage.ID, key string) ([]byte, error) {
	if key == "slow" {
		d.mu.Lock()
		on := d.reads
		d.mu.Unlock()
		d.wait(on)
	}
	return d.Store.Get(ctx, id, key)
}

func (d *slowDisk) Submit(b *storage.Batch, done func(error)) {
	d.mu.Lock()
	on, fail := d.commits, d.fail
	d.mu.Unlock()
	d.Store.Submit(b, func(err error) {
		if fail != nil {
			err = fail
		}
		if on == nil {
			done(err)
			return
		}
		go func() {
			d.wait(on)
			done(err)
		}()
	})
}

// occupied returns an act that goes on until free is called, and tells when it has
// begun.
func occupied() (f func(*actor.State) error, begun chan struct{}, free func()) {
	begun, end := make(chan struct{}), make(chan struct{})
	return func(*actor.State) error { close(begun); <-end; return nil }, begun, sync.OnceFunc(func() { close(end) })
}

func writes(bytes int) func(*actor.State) error {
	return func(s *actor.State) error { return s.Put("k", make([]byte, bytes)) }
}

// Every cause that the host finds by itself, provoked as it comes about, and what
// a caller reads and can tell. The sentences and classes are the table of the
// platform whose semantics these are, written out once more.
func TestEachCauseOfAResetComesAboutAndIsTold(t *testing.T) {
	const reset, overloaded, transient, retryable = "reset ", "overloaded ", "transient ", "retryable "
	longer := 32 * time.Second // than any limit, and the watchdog's second
	for _, tc := range []struct {
		name     string
		cause    actor.Cause
		sentence string
		class    string
		options  actor.Options
		provoke  func(w *ward) error
	}{
		{"a charge that does not fit", actor.MemoryLimit, "Durable Object's isolate exceeded its memory limit and was reset.", reset + transient,
			actor.Options{HeapLimit: 1 << 20}, func(w *ward) error {
				return w.answer(w.call("a", func(s *actor.State) error { _, err := s.Charge(2 << 20); return err }))
			}},
		{"a write that does not fit", actor.CacheOverflow, "Durable Object's isolate exceeded its memory limit due to overflowing the storage cache.", reset + overloaded,
			actor.Options{CacheLimit: 64 << 10}, func(w *ward) error {
				w.disk.hold(false, true)
				first := w.call("a", writes(40<<10))
				w.eventually("the first is on its way", func() bool { return w.disk.holds() == 1 })
				second := w.answer(w.call("b", writes(40<<10)))
				if err := w.answer(first); actor.CauseOf(err) != actor.CacheOverflow {
					w.Errorf("a neighbour's call failed with %v", err)
				}
				return second
			}},
		{"a turn that does not end", actor.CPULimit, "Durable Object exceeded its CPU time limit and was reset.", reset + transient,
			actor.Options{}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				failed := w.call("a", f)
				<-begun
				w.clock.Advance(longer)
				return w.answer(failed)
			}},
		{"a read that is not answered", actor.StorageTimeout, "Durable Object storage operation exceeded timeout which caused object to be reset.", reset + overloaded + transient,
			actor.Options{}, func(w *ward) error {
				if err := w.answer(w.call("a", writes(1))); err != nil {
					return err // of an object that has no rows nothing would be read
				}
				w.disk.hold(true, false)
				failed := w.call("a", func(s *actor.State) error { _, err := s.Get("slow"); return err })
				w.eventually("it reads", func() bool { return w.disk.holds() == 1 })
				w.clock.Advance(longer)
				return w.answer(failed)
			}},
		{"a claim that is not answered", actor.StorageTimeout, "Durable Object storage operation exceeded timeout which caused object to be reset.", reset + overloaded + transient,
			actor.Options{}, func(w *ward) error {
				w.disk.holdClaims()
				failed := w.call("a", nil)
				w.eventually("it is claimed", func() bool { return w.disk.holds() == 1 })
				w.clock.Advance(longer)
				err := w.answer(failed)
				w.disk.release() // the answer that comes too late starts nothing
				return err
			}},
		{"a commit that is not confirmed", actor.StorageTimeout, "Durable Object storage operation exceeded timeout which caused object to be reset.", reset + overloaded + transient,
			actor.Options{}, func(w *ward) error {
				w.disk.hold(false, true)
				failed := w.call("a", writes(1))
				w.eventually("it writes", func() bool { return w.disk.holds() == 1 })
				w.clock.Advance(longer)
				return w.answer(failed)
			}},
		{"new code", actor.CodeUpdated, "Durable Object reset because its code was updated.", reset + transient,
			actor.Options{}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				failed := w.call("a", f)
				<-begun
				if _, err := w.ResetIsolate(0, actor.CodeUpdated, nil); err != nil {
					w.Error(err)
				}
				return w.answer(failed)
			}},
		{"a constructor that does not end", actor.CriticalTimeout, "A call to blockConcurrencyWhile() waited for too long.", reset + overloaded,
			actor.Options{}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				failed := w.call("new", f)
				<-begun
				w.clock.Advance(longer)
				return w.answer(failed)
			}},
		{"a constructor's error", actor.ConstructorFailed, "start victim/new: no such luck", reset,
			actor.Options{}, func(w *ward) error {
				return w.answer(w.call("new", func(*actor.State) error { return errors.New("no such luck") }))
			}},
		{"an abort with a reason", actor.Aborted, "run victim/a: enough of this", reset,
			actor.Options{}, func(w *ward) error {
				return w.answer(w.call("a", func(s *actor.State) error { s.Abort(errors.New("enough of this")); return nil }))
			}},
		{"an abort", actor.Aborted, "Application called abort() to reset Durable Object.", reset,
			actor.Options{}, func(w *ward) error {
				return w.answer(w.call("a", func(s *actor.State) error { s.Abort(nil); return nil }))
			}},
		{"a commit that fails", actor.CommitFailed, "Internal error in Durable Object storage write caused object to be reset.", reset,
			actor.Options{}, func(w *ward) error {
				w.disk.fail = errors.New("no space left")
				return w.answer(w.call("a", writes(1)))
			}},
		{"a newer incarnation", actor.Superseded, "A newer incarnation of the object exists.", reset + retryable,
			actor.Options{}, func(w *ward) error {
				return w.answer(w.call("a", func(s *actor.State) error {
					if _, err := storage.Claim(w.Context(), w.disk, s.ID()); err != nil {
						w.Error(err)
					}
					return s.Put("k", []byte("too late"))
				}))
			}},
		{"a panic", actor.Panicked, "The object's code panicked.", reset,
			actor.Options{}, func(w *ward) error {
				return w.answer(w.call("a", func(*actor.State) error { panic("oh") }))
			}},
		{"a shutdown that can't wait", actor.Shutdown, "The host is shutting down.", reset + transient + retryable,
			actor.Options{}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				failed := w.call("a", f)
				<-begun
				over, cancel := context.WithCancel(w.Context())
				cancel()
				_ = w.Shutdown(over)
				return w.answer(failed)
			}},
		{"too many in the queue", actor.Overload, "Durable Object is overloaded. Too many requests queued.", overloaded,
			actor.Options{MaxQueued: 1}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				w.call("a", f)
				<-begun
				waits := w.call("a", nil)
				refused := w.call("a", nil)
				select {
				case err := <-waits:
					return err
				case err := <-refused:
					return err
				}
			}},
		{"too much in the queue", actor.OverloadedBytes, "Durable Object is overloaded. Too much data queued.", overloaded,
			actor.Options{MaxQueuedBytes: 1}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				w.call("a", f)
				<-begun
				if err := w.Send(storage.ID{Class: "victim", Name: "a"}, sized(1), nil); err != nil {
					return err
				}
				return w.answer(w.call("a", nil))
			}},
		{"too old a queue", actor.OverloadedAge, "Durable Object is overloaded. Requests queued for too long.", overloaded,
			actor.Options{MaxQueuedFor: 10 * time.Second}, func(w *ward) error {
				f, begun, free := occupied()
				defer free()
				w.call("a", f)
				<-begun
				if err := w.Send(storage.ID{Class: "victim", Name: "a"}, sized(0), nil); err != nil {
					return err
				}
				w.clock.Advance(10 * time.Second)
				return w.answer(w.call("a", nil))
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWard(t, tc.options)
			err := tc.provoke(w)
			if !strings.Contains(fmt.Sprint(err), tc.sentence) {
				t.Errorf("a caller reads %q, and not %q", err, tc.sentence)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(err)
			for how, err := range map[string]error{
				"as it is": err,
				"wrapped":  fmt.Errorf("while at it: %w", err),
				"joined":   errors.Join(errors.New("another"), &actor.Error{Op: "call", Err: errors.New("a third")}, fmt.Errorf("deeper: %w", err)),
				"behind":   &actor.Error{Op: "call", Err: err},
				"a cause":  context.Cause(ctx),
			} {
				c := actor.CauseOf(err)
				class := ""
				for _, f := range []struct {
					is   bool
					name string
				}{{c.Reset(), reset}, {c.Overloaded(), overloaded}, {c.Transient(), transient}, {c.Retryable(), retryable}} {
					if f.is {
						class += f.name
					}
				}
				if c != tc.cause || class != tc.class {
					t.Errorf("%s, it is %v: %s; want %v: %s", how, c, class, tc.cause, tc.class)
				}
			}
			var e *actor.Error
			if !errors.As(err, &e) || e.Reset() != tc.cause.Reset() || e.Overloaded() != tc.cause.Overloaded() ||
				e.Transient() != tc.cause.Transient() || e.Retryable() != tc.cause.Retryable() {
				t.Errorf("the error's own classes differ from its cause's: %+v", e)
			}
			w.disk.release()
			w.disk.mu.Lock()
			w.disk.fail = nil
			w.disk.mu.Unlock()
			switch tc.cause {
			case actor.Shutdown:
			case actor.Overload, actor.OverloadedBytes, actor.OverloadedAge:
				w.eventually("a later call is taken", func() bool { return w.answer(w.call("a", nil)) == nil })
			default:
				if err := w.answer(w.call("a", writes(1))); err != nil {
					t.Errorf("the next call failed: %v", err)
				}
			}
		})
	}
}

// A turn that overruns can't be stopped. Its object goes on without it; nothing of
// it is written; what it holds stays charged and counted until it ends.
func TestATurnThatOverrunsIsAbandoned(t *testing.T) {
	w := newWard(t, actor.Options{TurnLimit: 5 * time.Second, EvictAfter: -1})
	idle := w.Heap(0)
	f, begun, free := occupied()
	defer free()
	failed := w.call("a", func(s *actor.State) error {
		if _, err := s.Charge(1 << 20); err != nil {
			return err
		}
		_ = f(s)
		return s.Put("k", []byte("too late"))
	})
	<-begun
	w.clock.Advance(4 * time.Second)
	if n := w.Abandoned(); n != 0 {
		t.Fatalf("%d turns were abandoned before the limit", n)
	}
	w.clock.Advance(3 * time.Second) // a second until it is seen, and one until the next look
	if err := w.answer(failed); actor.CauseOf(err) != actor.CPULimit {
		t.Fatalf("got %v", err)
	}
	if err := w.answer(w.call("a", func(s *actor.State) error {
		v, err := s.Get("k")
		if v != nil {
			err = errors.New("an abandoned turn has written")
		}
		return err
	})); err != nil {
		t.Fatal(err)
	}
	if n, heap := w.Abandoned(), w.Heap(0); n != 1 || heap < idle+1<<20 {
		t.Fatalf("%d turns are counted as abandoned, and %d bytes are charged", n, heap)
	}
	free()
	w.eventually("it has ended", func() bool { return w.Abandoned() == 0 })
	if heap := w.Heap(0); heap >= idle+1<<20 {
		t.Fatalf("%d bytes are charged after it has ended", heap)
	}
	if err := w.answer(w.call("a", func(s *actor.State) error {
		if v, _ := s.Get("k"); v != nil {
			return errors.New("the abandoned turn has written in the end")
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
}

// What waits is not at work: an object may await for as long as it likes, and any
// number of short turns and commits may follow one another.
func TestOnlyWhatDoesNotEndOverruns(t *testing.T) {
	w := newWard(t, actor.Options{EvictAfter: -1})
	begun, end := make(chan struct{}), make(chan struct{})
	waits := w.call("waits", func(s *actor.State) error {
		return s.Await(context.Background(), func(context.Context) error { close(begun); <-end; return nil })
	})
	<-begun
	for range 90 { // and each time that the watchdog looks, a turn is running
		f, begun, free := occupied()
		goes := w.call("busy", func(s *actor.State) error {
			if err := s.Put("k", []byte("v")); err != nil {
				return err
			}
			return f(s)
		})
		<-begun
		w.clock.Advance(time.Second)
		free()
		if err := w.answer(goes); err != nil {
			t.Fatal(err)
		}
	}
	close(end)
	if err := w.answer(waits); err != nil {
		t.Fatal(err)
	}
}

// What is written makes room in the cache again.
func TestWhatIsWrittenLeavesTheCache(t *testing.T) {
	w := newWard(t, actor.Options{CacheLimit: 64 << 10})
	for range 5 {
		if err := w.answer(w.call("a", writes(40<<10))); err != nil {
			t.Fatal(err)
		}
	}
}

// A clock that is set resets nobody.
func TestAClockThatJumpsAbandonsNoTurn(t *testing.T) {
	w := newWard(t, actor.Options{})
	f, begun, free := occupied()
	defer free()
	goes := w.call("a", f)
	<-begun
	w.clock.Advance(2 * time.Second)
	w.clock.Jump(w.clock.Now().AddDate(1, 0, 0))
	w.clock.Advance(2 * time.Second)
	free()
	if err := w.answer(goes); err != nil {
		t.Fatal(err)
	}
}
