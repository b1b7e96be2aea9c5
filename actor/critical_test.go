package actor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// journal is a text that several goroutines write.
type journal struct {
	mu   sync.Mutex
	text string
}

func (j *journal) add(format string, a ...any) {
	j.mu.Lock()
	j.text += fmt.Sprintf(format, a...) + " "
	j.mu.Unlock()
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text
}

func wait(ch <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ch:
		case <-ctx.Done():
		}
		return nil
	}
}

// enqueue sends events that write their number, in order.
func (l lab) enqueue(name string, j *journal, n int) {
	l.Helper()
	for i := range n {
		f := func(context.Context, *actor.State) error { j.add("%d", i); return nil }
		runCode.Start(context.Background(), l.Stub(thingID(name)), register(f))
	}
}

func TestNothingEntersACriticalSection(t *testing.T) {
	l := newLab(t, actor.Options{})
	var j journal
	inside, leave, awaiting, resume := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	// One event awaits when the section begins: its continuation waits as well.
	other := l.begin("a", func(ctx context.Context, s *actor.State) error {
		close(awaiting)
		err := s.Await(ctx, wait(resume))
		j.add("continuation")
		return err
	})
	<-awaiting
	section := l.begin("a", func(ctx context.Context, s *actor.State) error {
		err := s.Critical(ctx, func(ctx context.Context) error {
			close(inside)
			if err := s.Await(ctx, wait(leave)); err != nil {
				return err
			}
			j.add("inside")
			return s.Critical(ctx, func(ctx context.Context) error { // it nests
				defer j.add("nested")
				return s.Await(ctx, func(context.Context) error { return nil })
			})
		})
		j.add("left")
		return err
	})
	<-inside
	close(resume)
	time.Sleep(settle)
	l.enqueue("a", &j, 3)
	time.Sleep(settle)
	if j.String() != "" {
		t.Fatalf("entered: %s", &j)
	}
	close(leave)
	if err := errors.Join(<-section, <-other); err != nil {
		t.Fatal(err)
	}
	l.must("a", func(context.Context, *actor.State) error { return nil })
	if want := "inside nested left continuation 0 1 2 "; j.String() != want {
		t.Errorf("got %s, want %s", &j, want)
	}
}

func TestWhatACriticalSectionWroteIsDurableBeforeWhatItAwaits(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{})}
	l := newLab(t, actor.Options{Store: slow})
	var j journal
	act := func(ctx context.Context, s *actor.State) error {
		return s.Critical(ctx, func(ctx context.Context) error {
			if err := s.Put("a", []byte("1")); err != nil {
				return err
			}
			return s.Await(ctx, func(context.Context) error { j.add("told"); return nil })
		})
	}
	l.constructs("new", act)
	one, two := l.begin("a", act), l.begin("new", func(context.Context, *actor.State) error { return nil })
	time.Sleep(settle)
	if j.String() != "" {
		t.Error("others were told before the commit")
	}
	close(slow.hold)
	if err := errors.Join(<-one, <-two); err != nil || j.String() != "told told " {
		t.Fatalf("%s %v", &j, err)
	}
	l.has("a", "a=1 ")
	l.has("new", "a=1 ")
}

func TestNothingEntersTheConstructor(t *testing.T) {
	l := newLab(t, actor.Options{})
	var j journal
	inside, leave := make(chan struct{}), make(chan struct{})
	l.constructs("a", func(ctx context.Context, s *actor.State) error {
		close(inside)
		err := s.Await(ctx, wait(leave))
		j.add("constructed")
		return err
	})
	l.enqueue("a", &j, 2)
	<-inside
	time.Sleep(settle)
	if j.String() != "" {
		t.Fatalf("entered: %s", &j)
	}
	close(leave)
	l.must("a", func(context.Context, *actor.State) error { return nil })
	if want := "constructed 0 1 "; j.String() != want {
		t.Errorf("got %s, want %s", &j, want)
	}
}

func TestABrokenCriticalSectionRejectsItsWaitersInOrder(t *testing.T) {
	c := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l := newLab(t, actor.Options{Clock: c, EvictAfter: time.Nanosecond})
	inside, leave := make(chan struct{}), make(chan struct{})
	reason := errors.New("no such luck")
	section := l.begin("a", func(ctx context.Context, s *actor.State) error {
		if err := s.Put("a", []byte("1")); err != nil {
			return err
		}
		return s.Critical(ctx, func(ctx context.Context) error {
			close(inside)
			if err := s.Await(ctx, wait(leave)); err != nil {
				return err
			}
			if err := s.Put("b", []byte("1")); err != nil {
				return err
			}
			return reason
		})
	})
	<-inside
	c.Advance(2 * time.Second) // an object in a critical section does not rest
	var j journal
	for i := range 3 {
		err := l.Send(thingID("a"), i, func(err error) {
			if !errors.Is(err, reason) {
				t.Errorf("a waiter was told %v", err)
			}
			j.add("%d", i)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(leave)
	if err := <-section; !errors.Is(err, reason) || actor.CauseOf(err) != actor.Aborted || !strings.Contains(err.Error(), "critical section thing/a") {
		t.Fatalf("got %v", err)
	}
	l.has("a", "a=1 ") // and the next incarnation answers
	if want := "0 1 2 "; j.String() != want {
		t.Errorf("rejected in the order %s, want %s", &j, want)
	}
}

func TestACriticalSectionOverItsLimitResetsTheObject(t *testing.T) {
	for _, kind := range []string{"section", "transaction", "constructor"} {
		t.Run(kind, func(t *testing.T) {
			w := newWard(t, actor.Options{})
			inside := make(chan struct{})
			hang := func(ctx context.Context, s *actor.State) error {
				close(inside)
				return s.Await(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
			}
			name := map[string]string{"constructor": "new"}[kind] + "one"
			failed := w.call(name, func(s *actor.State) error {
				switch kind {
				case "section":
					return s.Critical(w.Context(), func(context.Context) error { return hang(t.Context(), s) })
				case "transaction":
					return s.Transaction(w.Context(), func(context.Context) error { return hang(t.Context(), s) })
				default:
					return hang(t.Context(), s)
				}
			})
			<-inside
			waiter := w.call(name, nil)
			time.Sleep(settle)
			for range 40 {
				w.clock.Advance(time.Second)
			}
			for _, err := range []error{<-failed, <-waiter} {
				if actor.CauseOf(err) != actor.CriticalTimeout || !strings.Contains(err.Error(), "A call to blockConcurrencyWhile() waited for too long.") {
					t.Errorf("got %v", err)
				}
				op := map[string]string{"constructor": "start"}[kind]
				if e, _ := errors.AsType[*actor.Error](err); e == nil || e.Op != cmp.Or(op, "critical section") {
					t.Errorf("the error is of another operation: %v", err)
				}
			}
		})
	}
}

func TestATransactionIsOneCommitAlsoWhenItAwaits(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	store := &countingStore{mem, make(chan int, 100)}
	l := newLab(t, actor.Options{Store: store})
	l.must("a", func(ctx context.Context, s *actor.State) error {
		if err := s.Put("before", nil); err != nil {
			return err
		}
		return s.Transaction(ctx, func(ctx context.Context) error {
			for _, k := range []string{"a", "b", "c"} {
				if err := s.Put(k, []byte("1")); err != nil {
					return err
				}
				if err := s.Sync(ctx); err != nil {
					return err
				}
				if v, err := s.Get(k); string(v) != "1" {
					t.Errorf("the transaction does not see its own write: %q %v", v, err)
				}
			}
			return nil
		})
	})
	close(store.batches)
	got := ""
	for n := range store.batches {
		got += fmt.Sprint(n, " ")
	}
	if got != "1 3 " {
		t.Errorf("committed batches of %s rows, want 1 3", got)
	}
}

func TestAFailedTransactionLeavesNoTrace(t *testing.T) {
	l := newLab(t, actor.Options{})
	reason := errors.New("changed its mind")
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	l.must("a", func(ctx context.Context, s *actor.State) error {
		if err := errors.Join(s.Put("a", []byte("1")), s.Put("b", []byte("1")), s.SetAlarm(at)); err != nil {
			return err
		}
		change := func(err error) error {
			return s.Transaction(ctx, func(ctx context.Context) error {
				must(t, s.Put("a", []byte("2")), s.Delete("b"), s.Put("c", []byte("2")), s.SetAlarm(at.Add(time.Hour)), s.Sync(ctx), s.DeleteAll(), s.Put("d", nil))
				return err
			})
		}
		if err := change(reason); !errors.Is(err, reason) {
			t.Errorf("the transaction's error is %v", err)
		}
		if err := change(fmt.Errorf("%w", actor.ErrRollback)); err != nil {
			t.Errorf("a rollback is an error: %v", err)
		}
		if got, err := rows(s, storage.Range{}); got != "a=1 b=1 " {
			t.Errorf("left are %q %v", got, err)
		}
		if is, err := s.Alarm(); !is.Equal(at) {
			t.Errorf("the alarm is at %v, want %v: %v", is, at, err)
		}
		return s.Put("e", []byte("1"))
	})
	l.has("a", "a=1 b=1 e=1 ")
	if a, err := l.Store().Alarm(t.Context(), thingID("a")); err != nil || !a.At.Equal(at) {
		t.Errorf("the alarm is at %v, want %v: %v", a.At, at, err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestTransactionsNest(t *testing.T) {
	l := newLab(t, actor.Options{})
	reason := errors.New("changed its mind")
	for _, c := range []struct {
		outer, inner error
		want         string
	}{
		{nil, nil, "inner=2 outer=3 "},
		{nil, reason, "outer=3 "},
		{reason, nil, ""},
		{reason, reason, ""},
	} {
		name := fmt.Sprint("nest", c.outer, c.inner)
		l.must(name, func(ctx context.Context, s *actor.State) error {
			err := s.Transaction(ctx, func(ctx context.Context) error {
				must(t, s.Put("outer", []byte("1")))
				err := s.Transaction(ctx, func(ctx context.Context) error {
					must(t, s.Put("inner", []byte("2")), s.Put("outer", []byte("2")), s.Sync(ctx))
					return c.inner
				})
				if !errors.Is(err, c.inner) {
					t.Errorf("the inner error is %v", err)
				}
				v, err := s.Get("outer")
				if want := map[bool]string{true: "1", false: "2"}[c.inner != nil]; string(v) != want {
					t.Errorf("after the inner transaction outer is %q, want %q: %v", v, want, err)
				}
				must(t, s.Put("outer", []byte("3")))
				return c.outer
			})
			if !errors.Is(err, c.outer) {
				t.Errorf("the outer error is %v", err)
			}
			return nil
		})
		l.has(name, c.want)
	}
}

func TestAResetTakesAnUnfinishedTransactionWithIt(t *testing.T) {
	l := newLab(t, actor.Options{})
	inside := make(chan struct{})
	failed := l.begin("a", func(ctx context.Context, s *actor.State) error {
		must(t, s.Put("before", []byte("1")))
		return s.Transaction(ctx, func(ctx context.Context) error {
			must(t, s.Put("in", []byte("1")), s.Sync(ctx))
			close(inside)
			return s.Await(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
	})
	<-inside
	l.Reset(thingID("a"), actor.MemoryLimit, nil)
	if err := <-failed; actor.CauseOf(err) != actor.MemoryLimit {
		t.Fatalf("got %v", err)
	}
	l.has("a", "before=1 ")
}

// What a transaction does to a schedule is taken back with it.
func TestAFailedTransactionLeavesSchedulesAlone(t *testing.T) {
	l := newLab(t, actor.Options{})
	l.must("a", func(ctx context.Context, s *actor.State) error {
		one, err := nothing.In(s, time.Hour, 0, alarm.WithID("one"))
		if err != nil {
			return err
		}
		err = s.Transaction(ctx, func(context.Context) error {
			_, err := s.Schedule().Cancel("one")
			must(t, err)
			_, err = nothing.In(s, time.Minute, 0, alarm.WithID("two"))
			must(t, err)
			return actor.ErrRollback
		})
		if err != nil {
			return err
		}
		all, err := s.Schedule().List()
		if err != nil || len(all) != 1 || all[0].ID != "one" || !all[0].Next.Equal(one.Next) {
			t.Errorf("the schedules are %+v %v", all, err)
		}
		return nil
	})
	a, err := l.Store().Alarm(t.Context(), thingID("a"))
	if wait := time.Until(a.At); err != nil || wait < 50*time.Minute {
		t.Errorf("the alarm is %v from now: %v", wait, err)
	}
}

func exit() { runtime.Goexit() }

var nothing = actor.Callback(things, "nothing", func(*thing, context.Context, int) error { return nil })

func TestBackgroundWorkDiesWithItsIncarnationAndWritesNothing(t *testing.T) {
	l := newLab(t, actor.Options{})
	begun, over := make(chan struct{}), make(chan error, 1)
	l.must("a", func(ctx context.Context, s *actor.State) error {
		return s.WaitUntil(func(ctx context.Context) error {
			if err := s.Put("a", []byte("1")); err != nil {
				return err
			}
			err := s.Await(ctx, func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return nil
			})
			over <- errors.Join(err, s.Put("a", []byte("2")), s.Sync(ctx))
			return nil
		})
	})
	<-begun
	l.has("a", "a=1 ") // others run meanwhile
	l.Reset(thingID("a"), actor.MemoryLimit, nil)
	if err := <-over; actor.CauseOf(err) != actor.MemoryLimit {
		t.Errorf("the State of a dead incarnation says %v", err)
	}
	l.has("a", "a=1 ")
}

func TestBackgroundWorkIsBoundedI12(t *testing.T) {
	l := newLab(t, actor.Options{MaxQueued: 3})
	release := make(chan struct{})
	l.must("a", func(_ context.Context, s *actor.State) error {
		for range 3 {
			must(t, s.WaitUntil(func(ctx context.Context) error { return s.Await(ctx, wait(release)) }))
		}
		if err := s.WaitUntil(func(context.Context) error { return nil }); actor.CauseOf(err) != actor.Overload {
			t.Errorf("a fourth is taken: %v", err)
		}
		return nil
	})
	close(release)
}

func TestAnEventThatEndsItsGoroutineIsAPanic(t *testing.T) {
	l := newLab(t, actor.Options{})
	for _, goexit := range []code{
		func(context.Context, *actor.State) error { exit(); return nil },
		func(ctx context.Context, s *actor.State) error {
			return s.Await(ctx, func(context.Context) error { exit(); return nil })
		},
	} {
		if err := l.in("a", goexit); actor.CauseOf(err) != actor.Panicked {
			t.Errorf("got %v", err)
		}
	}
	l.has("a", "")
}
