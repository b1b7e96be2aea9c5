package actor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// fused is a host with objects that do what a test wants when their alarm fires,
// on a clock that stands. It fires alarms once it is started; before that, fire does.
type fused struct {
	*testing.T
	*actor.Host
	clock *clock.Fake
	call  actor.Call[string, int]

	mu   sync.Mutex
	runs []alarm.Info // of one, in order
	does func(context.Context, *actor.State) error
	act  func(context.Context, *actor.State) error
}

type fuse struct {
	w     *fused
	state *actor.State
}

var (
	oneFuse = storage.ID{Class: "fuse", Name: "one"}
	errFuse = errors.New("blown")
)

func (f *fuse) Alarm(ctx context.Context, info alarm.Info) error {
	f.w.mu.Lock()
	f.w.runs = append(f.w.runs, info)
	does := f.w.does
	f.w.mu.Unlock()
	if does == nil {
		return nil
	}
	return does(ctx, f.state)
}

func newFused(t *testing.T, o actor.Options) *fused {
	t.Helper()
	w := &fused{T: t, clock: clock.NewFake(morning)}
	o.Store, o.Clock, o.Logger, o.Isolates, o.EvictAfter = storage.NewMemory(), w.clock, quiet, 1, -1
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Host = h
	class := actor.Define("fuse", func(_ context.Context, s *actor.State) (*fuse, error) { return &fuse{w, s}, nil })
	w.call = actor.Method(class, "act", func(f *fuse, ctx context.Context, _ string) (int, error) {
		w.mu.Lock()
		act := w.act
		w.mu.Unlock()
		return 0, act(ctx, f.state)
	})
	class.Register(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		o.Store.Close()
	})
	if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.SetAlarm(morning) }); err != nil {
		t.Fatal(err)
	}
	return w
}

// acts calls an object that does f.
func (w *fused) acts(name string, f func(context.Context, *actor.State) error) error {
	w.mu.Lock()
	w.act = f
	w.mu.Unlock()
	_, err := w.call.Do(w.Context(), w.Stub(storage.ID{Class: "fuse", Name: name}), "")
	return err
}

// runsAs is what the alarm does from here on.
func (w *fused) runsAs(f func(context.Context, *actor.State) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.does = f
}

// fire fires the alarm as the dispatcher does; the error is what it is told.
func (w *fused) fire() error {
	done := make(chan error, 1)
	w.Fire(storage.Due{ID: oneFuse, Alarm: w.row()}, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		w.Fatal("the dispatcher is told nothing")
		return nil
	}
}

func (w *fused) row() storage.Alarm {
	w.Helper()
	row, err := w.Store().Alarm(context.Background(), oneFuse)
	if err != nil {
		w.Fatal(err)
	}
	return row
}

func (w *fused) ran() []alarm.Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

func (w *fused) to(at time.Time) { w.clock.Advance(at.Sub(w.clock.Now())) }

// retryOf is the row after a run of row that failed now.
func (w *fused) retryOf(row storage.Alarm) storage.Alarm {
	wait, _ := alarm.Backoff(row.Retry, alarm.Jitter(oneFuse, row.Retry))
	return storage.Alarm{At: w.clock.Now().Add(wait), Retry: row.Retry + 1, Set: row.Scheduled()}.Normal()
}

// What a handler's object deletes while it runs is gone, and no retry brings it
// back; what was not deleted after all is retried.
func TestAnAlarmThatIsDeletedWhileItRunsIsNotRetried(t *testing.T) {
	fail := func(err error) error { return errors.Join(err, errFuse) }
	for name, tc := range map[string]struct {
		does    func(context.Context, *actor.State) error
		retried bool
	}{
		"deleted": {func(_ context.Context, s *actor.State) error { return fail(s.DeleteAlarm()) }, false},
		"set and deleted": {func(_ context.Context, s *actor.State) error {
			return fail(errors.Join(s.SetAlarm(morning.Add(time.Hour)), s.DeleteAlarm()))
		}, false},
		"all deleted": {func(_ context.Context, s *actor.State) error { return fail(s.DeleteAll()) }, false},
		"left alone":  {func(context.Context, *actor.State) error { return errFuse }, true},
		"not deleted, in a transaction that fails": {func(ctx context.Context, s *actor.State) error {
			return fail(s.Transaction(ctx, func(context.Context) error { return errors.Join(s.DeleteAlarm(), actor.ErrRollback) }))
		}, true},
		"deleted in a transaction": {func(ctx context.Context, s *actor.State) error {
			return fail(s.Transaction(ctx, func(context.Context) error { return s.DeleteAlarm() }))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFused(t, actor.Options{})
			w.runsAs(tc.does)
			want := storage.Alarm{}
			if tc.retried {
				want = w.retryOf(w.row())
			}
			if err := w.fire(); err != nil {
				t.Fatal(err)
			}
			if got := w.row(); got != want {
				t.Errorf("the row is %v, want %v", got, want)
			}
			// The run after it begins anew.
			if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.SetAlarm(morning) }); err != nil {
				t.Fatal(err)
			}
			w.runsAs(func(context.Context, *actor.State) error { return errFuse })
			want = w.retryOf(w.row())
			if err := w.fire(); err != nil || w.row() != want {
				t.Errorf("the row of the alarm after it is %v, want %v: %v", w.row(), want, err)
			}
		})
	}
}

func TestAnAlarmThatAnotherEventDeletesWhileItRunsIsNotRetried(t *testing.T) {
	w := newFused(t, actor.Options{})
	begun, release := make(chan struct{}), make(chan struct{})
	w.runsAs(func(ctx context.Context, s *actor.State) error {
		return errors.Join(errFuse, s.Await(ctx, func(context.Context) error { close(begun); <-release; return nil }))
	})
	fired := make(chan error, 1)
	go func() { fired <- w.fire() }()
	<-begun
	if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.DeleteAlarm() }); err != nil {
		t.Fatal(err)
	}
	if row := w.row(); row != (storage.Alarm{}) {
		t.Errorf("the event has been answered, and the row is %v", row)
	}
	close(release)
	if err := <-fired; err != nil || w.row() != (storage.Alarm{}) || len(w.ran()) != 1 {
		t.Errorf("the row is %v after %d runs: %v", w.row(), len(w.ran()), err)
	}
}

// A reset of the object's own making while its alarm runs is a failure of that run;
// one that the object is only caught in costs no retry.
func TestAResetOfTheObjectsOwnMakingIsAFailureOfItsAlarm(t *testing.T) {
	wait := func(ctx context.Context, s *actor.State) error {
		return s.Await(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	}
	for name, tc := range map[string]struct {
		does  func(context.Context, *actor.State) error
		reset func(w *fused) // once the handler awaits
		own   bool
	}{
		"abort": {does: func(_ context.Context, s *actor.State) error { s.Abort(errFuse); return nil }, own: true},
		"a critical section's error": {does: func(ctx context.Context, s *actor.State) error {
			return s.Critical(ctx, func(context.Context) error { return errFuse })
		}, own: true},
		"a panic":           {does: func(context.Context, *actor.State) error { panic("oh") }, own: true},
		"an end of its own": {does: func(context.Context, *actor.State) error { runtime.Goexit(); return nil }, own: true},
		"too much memory": {does: func(_ context.Context, s *actor.State) error {
			_, err := s.Charge(2 << 20)
			return err
		}, own: true},
		"a deletion that is not committed": {does: func(_ context.Context, s *actor.State) error {
			err := s.DeleteAlarm()
			s.Abort(errFuse)
			return err
		}, own: true},
		"an abort by another event": {reset: func(w *fused) {
			_ = w.acts("one", func(_ context.Context, s *actor.State) error { s.Abort(nil); return nil })
		}, own: true},
		"a neighbour's memory": {reset: func(w *fused) {
			_ = w.acts("other", func(_ context.Context, s *actor.State) error { _, err := s.Charge(2 << 20); return err })
		}},
		"an operator":  {reset: func(w *fused) { w.Reset(oneFuse, actor.Aborted, nil) }},
		"new code":     {reset: func(w *fused) { _, _ = w.ResetIsolate(0, actor.CodeUpdated, nil) }},
		"a commit":     {reset: func(w *fused) { w.Reset(oneFuse, actor.CommitFailed, nil) }},
		"a slow store": {reset: func(w *fused) { w.Reset(oneFuse, actor.StorageTimeout, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFused(t, actor.Options{HeapLimit: 1 << 20})
			before := w.row()
			does := tc.does
			if does == nil {
				does = wait
			}
			begun := make(chan struct{})
			w.runsAs(func(ctx context.Context, s *actor.State) error { close(begun); return does(ctx, s) })
			fired := make(chan error, 1)
			go func() { fired <- w.fire() }()
			<-begun
			if tc.reset != nil {
				tc.reset(w)
			}
			if err := <-fired; err == nil {
				t.Fatal("the dispatcher was not told of the reset")
			}
			w.runsAs(nil)
			want := w.retryOf(before)
			if w.row() != before {
				t.Fatalf("the row is %v, and nobody has written it", w.row())
			}
			if err := w.fire(); err != nil {
				t.Fatal(err)
			}
			switch runs := w.ran(); {
			case tc.own && (len(runs) != 1 || w.row() != want):
				t.Errorf("the row is %v after %d runs, want %v and no run before it is due", w.row(), len(runs), want)
			case tc.own:
				w.to(want.At)
				if err := w.fire(); err != nil {
					t.Fatal(err)
				}
				if again := w.ran()[1:]; !slices.Equal(again, []alarm.Info{{Scheduled: morning, Retry: 1}}) || w.row() != (storage.Alarm{}) {
					t.Errorf("it is run again with %+v, and the row is %v", again, w.row())
				}
			case len(runs) != 2 || runs[1] != alarm.Info{Scheduled: morning} || w.row() != storage.Alarm{}:
				t.Errorf("it is run again with %+v, and the row is %v", runs, w.row())
			}
		})
	}
}

func TestATurnThatOverrunsIsAFailureOfItsAlarm(t *testing.T) {
	w := newFused(t, actor.Options{TurnLimit: 10 * time.Second})
	ended := make(chan struct{})
	w.runsAs(func(ctx context.Context, _ *actor.State) error { <-ctx.Done(); <-ended; return nil })
	defer close(ended)
	if err := w.Start(); err != nil { // the watchdog as well
		t.Fatal(err)
	}
	w.becomes("it runs", func() bool { return len(w.ran()) == 1 })
	w.runsAs(nil)
	w.becomes("it is run again", func() bool { w.clock.Advance(time.Second); return len(w.ran()) == 2 })
	if again := w.ran()[1]; again != (alarm.Info{Scheduled: morning, Retry: 1}) {
		t.Errorf("it is run again with %+v", again)
	}
}

func (w *fused) becomes(what string, f func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("in vain: %s", what)
		}
	}
}

// The count is durable before the handler runs again, also when other incarnations
// come and go before its retry; and it is that of the alarm that failed.
func TestAFailureByAResetIsCountedByALaterIncarnation(t *testing.T) {
	abort := func(_ context.Context, s *actor.State) error { s.Abort(errFuse); return nil }
	w := newFused(t, actor.Options{})
	w.runsAs(abort)
	_ = w.fire()
	want := w.retryOf(w.row())
	_ = w.acts("one", abort)
	w.Reset(oneFuse, actor.CodeUpdated, nil)
	if err := w.acts("one", func(_ context.Context, s *actor.State) error {
		if at, err := s.Alarm(); err != nil || !at.Equal(morning) {
			t.Errorf("it reads as %v: %v", at, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Second) // the wait is from when it failed
	if err := w.fire(); err != nil || w.row() != want {
		t.Fatalf("the row is %v, want %v: %v", w.row(), want, err)
	}
	w.to(want.At)
	_ = w.fire()
	anew := w.clock.Now().Add(time.Minute)
	if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.SetAlarm(anew) }); err != nil {
		t.Fatal(err)
	}
	w.to(anew)
	w.runsAs(nil)
	if err := w.fire(); err != nil {
		t.Fatal(err)
	}
	if runs := w.ran(); len(runs) != 3 || runs[2] != (alarm.Info{Scheduled: anew}) {
		t.Errorf("the runs are %+v: an alarm that is set anew has failed no time yet", runs)
	}
}

func TestAResetAfterAnAlarmHasRunIsNoFailureOfIt(t *testing.T) {
	w := newFused(t, actor.Options{})
	if err := w.fire(); err != nil {
		t.Fatal(err)
	}
	if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.SetAlarm(morning) }); err != nil {
		t.Fatal(err)
	}
	_ = w.acts("one", func(_ context.Context, s *actor.State) error { s.Abort(nil); return nil })
	if err := w.fire(); err != nil || len(w.ran()) != 2 || w.ran()[1].Retry != 0 {
		t.Errorf("the runs are %+v: %v", w.ran(), err)
	}
}

func TestTheWaitAfterAFailureByAResetIsNoLongerWhenTheClockIsPutBack(t *testing.T) {
	w := newFused(t, actor.Options{})
	w.to(morning.Add(time.Hour))
	w.runsAs(func(_ context.Context, s *actor.State) error { s.Abort(errFuse); return nil })
	_ = w.fire()
	w.clock.Jump(morning)
	want := w.retryOf(w.row())
	if err := w.fire(); err != nil || w.row() != want {
		t.Errorf("the row is %v, want %v: %v", w.row(), want, err)
	}
}

// Once an object uses its schedule, that says when the alarm runs; it may say what
// the row has said before.
func TestAFailureByAResetDoesNotHoldUpASchedule(t *testing.T) {
	w := newFused(t, actor.Options{})
	w.runsAs(func(_ context.Context, s *actor.State) error { s.Abort(errFuse); return nil })
	_ = w.fire()
	w.runsAs(nil)
	if err := w.acts("one", func(_ context.Context, s *actor.State) error {
		s.Schedule().AddSource("morning", func(time.Time) time.Time {
			if len(w.ran()) > 1 {
				return time.Time{}
			}
			return morning
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.fire(); err != nil || len(w.ran()) != 2 {
		t.Errorf("it ran %d times: %v", len(w.ran()), err)
	}
}

// The dispatcher has an alarm whose object always resets itself run as often as one
// that fails, and no more.
func TestAnAlarmThatAlwaysAbortsIsGivenUp(t *testing.T) {
	w := newFused(t, actor.Options{})
	w.runsAs(func(_ context.Context, s *actor.State) error { s.Abort(errFuse); return nil })
	var at []time.Time
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	w.becomes("it is given up", func() bool {
		if n := len(w.ran()); n > len(at) {
			at = append(at, w.clock.Now())
		}
		if w.row() == (storage.Alarm{}) {
			return true
		}
		w.clock.Advance(250 * time.Millisecond)
		return false
	})
	runs := w.ran()
	if len(runs) != alarm.MaxRetries+1 {
		t.Fatalf("it ran %d times: %+v", len(runs), runs)
	}
	for i, info := range runs {
		if info != (alarm.Info{Scheduled: morning, Retry: i}) {
			t.Errorf("run %d was told %+v", i, info)
		}
		if least := 2 * time.Second << max(i-1, 0); i > 0 && len(at) == len(runs) && at[i].Sub(at[i-1]) < least-time.Second {
			t.Errorf("run %d came %v after the one before it", i, at[i].Sub(at[i-1]))
		}
	}
}

// What an alarm was set to is what its object and its retries see.
func TestARetryKnowsTheTimeThatItsAlarmWasSetTo(t *testing.T) {
	w := newFused(t, actor.Options{})
	w.runsAs(func(context.Context, *actor.State) error { return errFuse })
	for retry := range 3 {
		if err := w.fire(); err != nil {
			t.Fatal(err)
		}
		row := w.row()
		if row.Retry != retry+1 || !row.Set.Equal(morning) || !row.At.After(w.clock.Now()) {
			t.Errorf("after run %d the row is %+v", retry, row)
		}
		if retry == 1 {
			w.Reset(oneFuse, actor.CodeUpdated, nil) // the next incarnation reads it
		}
		done := make(chan error, 1)
		w.Rearm(oneFuse, func(err error) { done <- err })
		if err := <-done; err != nil || w.row() != row {
			t.Errorf("asked to derive it, the object makes it %+v: %v", w.row(), err)
		}
		if err := w.acts("one", func(_ context.Context, s *actor.State) error {
			if at, err := s.Alarm(); err != nil || !at.Equal(morning) {
				t.Errorf("it reads as %v: %v", at, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.to(row.At)
	}
	for retry, info := range w.ran() {
		if info != (alarm.Info{Scheduled: morning, Retry: retry}) {
			t.Errorf("run %d was told %+v", retry, info)
		}
	}
	// Set to the time of the retry it is an alarm of its own.
	at := w.row().At
	if err := w.acts("one", func(_ context.Context, s *actor.State) error { return s.SetAlarm(at) }); err != nil || w.row() != (storage.Alarm{At: at}) {
		t.Errorf("the row is %+v: %v", w.row(), err)
	}
}
