package alarm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

var errBusy = errors.New("the host is overloaded")

func TestAlarmFiresAtItsTimeAndNotBefore(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), 90*time.Second)
	w.advance(90*time.Second - time.Microsecond)
	w.wantFired(0)
	w.advance(time.Microsecond)
	w.wantFired(1)
	w.completeAll()
	w.advance(time.Hour)
	w.wantFired(1)
	w.wantNothingArmed()
}

func TestAlarmsFireInOrderOfTime(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	for i := range 100 {
		w.setIn(object(fmt.Sprint(i)), time.Duration((i*37)%100)*time.Second)
	}
	w.advance(2 * time.Minute)
	w.wantFired(100)
	for i := range 99 {
		if w.fired[i+1].At.Before(w.fired[i].At) {
			t.Fatalf("%v was fired before %v", w.fired[i], w.fired[i+1])
		}
	}
}

func TestAlarmThatMovedEarlierIsNotOverslept(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), time.Hour)
	w.settle()
	w.setIn(object("a"), 10*time.Second)
	w.advance(10 * time.Second)
	w.wantFired(1)
}

// The crash rule: scheduled <= persisted, always. The dispatcher has heard of an
// alarm before anybody is told that it is set.
func TestAlarmThatMovesEarlierIsHeardOfBeforeItsCommitIsConfirmed(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, time.Hour)
	w.advance(0)
	at := epoch.Add(5 * time.Second)
	confirmed := make(chan time.Time, 1)
	w.store.Submit(&storage.Batch{ID: id, Epoch: w.epochs[id], Alarm: &storage.Alarm{At: at}}, func(err error) {
		w.d.mu.Lock()
		defer w.d.mu.Unlock()
		confirmed <- w.d.core.low.At
	})
	if low := <-confirmed; low.After(at) {
		t.Errorf("at the commit's confirmation the scheduler looks at %v, and the row says %v", low, at)
	}
}

func TestAlarmThatMovedLaterIsFiredOnceAtItsNewTime(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), 10*time.Second)
	w.advance(5 * time.Second)
	w.setIn(object("a"), time.Minute)
	w.advance(time.Minute - time.Millisecond)
	w.wantFired(0)
	w.advance(time.Millisecond)
	w.wantFired(1)
}

func TestNothingIsArmedSoonAfterTheLastAlarmIsDeleted(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.settle()
	w.wantNothingArmed()
	w.setIn(object("a"), 30*24*time.Hour)
	w.advance(10 * time.Second)
	w.set(object("a"), storage.Alarm{})
	w.advance(look)
	w.wantNothingArmed()
	w.wantFired(0)
}

// Known elsewhere: an alarm that is days in the past never fires after a restart.
func TestAlarmLongOverdueFiresAfterARestart(t *testing.T) {
	for _, overdue := range []time.Duration{time.Microsecond, 3 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		t.Run(overdue.String(), func(t *testing.T) {
			w := newWorld(t, Options{})
			defer w.close()
			w.setIn(object("a"), time.Hour)
			w.settle()
			w.crash()
			w.clock.Jump(epoch.Add(time.Hour + overdue))
			w.start()
			w.settle()
			w.wantFired(1)
		})
	}
}

func TestAlarmBefore1970FiresAfterARestart(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.crash()
	w.set(object("a"), storage.Alarm{At: time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)})
	w.start()
	w.settle()
	w.wantFired(1)
}

// Known elsewhere: alarms stop after a reload.
func TestAlarmsGoOnAfterReloads(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	for i := range 20 {
		w.setIn(id, 3*time.Second) // known to this dispatcher
		w.advance(time.Second)
		w.restart() // and to this one by its first scan
		w.advance(2 * time.Second)
		w.wantFired(2*i + 1)
		w.completeAll()
		w.restart()
		w.setIn(id, time.Second) // set after a reload
		w.advance(time.Second)
		w.wantFired(2*i + 2)
		w.completeAll()
	}
}

// Known elsewhere: an alarm that becomes due during a stop is dropped.
func TestAlarmDueDuringAStopFiresAtTheNextStart(t *testing.T) {
	w := newWorld(t, Options{MaxInFlight: 1})
	defer w.close()
	w.setIn(object("running"), 0)
	w.setIn(object("waiting"), 0)
	w.setIn(object("soon"), time.Second)
	w.settle()
	w.wantFired(1)
	running := w.flights[w.fired[0].ID]
	stopped := make(chan error)
	go func() { stopped <- w.d.Stop(context.Background()) }()
	for !isStopped(w.d) {
		time.Sleep(time.Millisecond)
	}
	w.clock.Advance(2 * time.Second)
	w.settle()
	running.complete() // a stop waits for it
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.wantFired(1)
	w.wantNothingArmed()
	w.start()
	for range 3 {
		w.settle()
		w.completeAll()
	}
	w.wantFired(3)
}

func isStopped(d *Dispatcher) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped
}

// Known elsewhere: a fired alarm is consumed, and its re-arming is lost in a
// storm of resets.
func TestAlarmSurvivesAStormOfResets(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, 0)
	w.settle()
	var waited time.Duration
	for n := range 60 {
		w.wantFired(n + 1)
		if w.fired[n].At != epoch {
			t.Fatalf("the row has become %v", w.fired[n])
		}
		if n == 30 {
			w.restart() // in the middle of it
			w.settle()
			continue
		}
		w.flights[id].done(errBusy)
		failures := n
		if n > 30 {
			failures = n - 31
		}
		wait := BackoffUncounted(failures, Jitter(id, failures))
		waited += wait
		w.advance(wait - time.Millisecond)
		w.wantFired(n + 1)
		w.advance(time.Millisecond)
	}
	// Then it works: the handler arms it again, and that holds.
	again := w.clock.Now().Add(time.Minute).Truncate(time.Microsecond)
	w.set(id, storage.Alarm{At: again})
	w.flights[id].done(nil)
	n := len(w.fired)
	w.advance(time.Minute)
	if w.firedSince(n, id) != 1 || !w.fired[n].At.Equal(again) {
		t.Fatalf("after %v of resets the alarm that was armed again did not fire once: %v", waited, w.fired[n:])
	}
}

// A handler's failure is in the row: the dispatcher adds no back-off of its own.
func TestHandlersRetryFiresAtTheRowsTime(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, 0)
	w.settle()
	for retry := range MaxRetries {
		f := w.flights[id]
		if f == nil || f.due.Retry != retry {
			t.Fatalf("retry %d: %+v is in flight", retry, f)
		}
		wait, again := Backoff(retry, 0)
		if !again {
			t.Fatalf("no retry after run %d", retry)
		}
		w.restart() // the count is durable
		w.settle()
		w.set(id, storage.Alarm{At: w.clock.Now().Add(wait), Retry: retry + 1})
		w.flights[id].done(nil)
		n := len(w.fired)
		w.advance(wait - time.Microsecond)
		w.wantFired(n)
		w.advance(time.Microsecond)
		w.wantFired(n + 1)
	}
}

func TestAlarmSetAnewByItsHandlerWaitsForTheHandler(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, 0)
	w.settle()
	w.setIn(id, time.Second)
	w.advance(time.Minute)
	w.wantFired(1) // the handler still runs
	w.flights[id].done(nil)
	w.settle()
	w.wantFired(2)
}

// A commit shows that the object is alive: its new alarm does not wait for the
// back-off of the old one.
func TestSettingAnAlarmEndsItsBackoff(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, 0)
	for range 10 {
		w.settle()
		w.flights[id].done(errBusy)
		w.advance(MaxUncounted)
	}
	w.flights[id].done(errBusy)
	n := len(w.fired)
	w.setIn(id, 3*time.Second)
	w.advance(3 * time.Second)
	if w.firedSince(n, id) != 1 {
		t.Fatal("the alarm waits for a back-off that its object has overcome")
	}
	// The same while it is in flight.
	w.setIn(id, 5*time.Second)
	w.flights[id].done(errBusy)
	w.advance(5 * time.Second)
	if w.firedSince(n, id) != 2 {
		t.Fatal("the alarm that was set during a failing run waits for that run's back-off")
	}
}

func TestRowThatStaysAsItWasIsNotFiredInALoop(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.setIn(id, 0)
	w.onFire = func(f *firing) { f.done(nil) }
	w.advance(time.Hour)
	if n := len(w.fired); n < 5 || n > 20 {
		t.Errorf("an alarm whose row does not change was fired %d times in an hour", n)
	}
	if s := w.d.Stats(); s.Unchanged != s.Fired || s.Deferred != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTargetMayAnswerWithinFire(t *testing.T) {
	w := newWorld(t, Options{MaxInFlight: 2})
	defer w.close()
	w.onFire = func(f *firing) { f.complete() }
	for i := range 1000 {
		w.set(object(fmt.Sprint(i)), storage.Alarm{At: epoch})
	}
	w.settle()
	w.wantFired(1000)
	w.advance(look)
	w.wantNothingArmed()
}

func TestSecondCallOfDoneIsIgnored(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), 0)
	w.settle()
	f := w.flights[object("a")]
	f.complete()
	f.call(errBusy)
	f.call(nil)
	if s := w.d.Stats(); s.InFlight != 1 || s.Deferred != 0 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	w.advance(time.Hour)
	w.wantFired(1)
	if s := w.d.Stats(); s.InFlight != 0 || s.Deferred != 0 {
		t.Errorf("%+v", s)
	}
}

func TestClockThatJumpsForwardFiresWithinASecond(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), 24*time.Hour)
	w.advance(time.Minute)
	w.clock.Jump(epoch.Add(25 * time.Hour))
	w.advance(look)
	w.wantFired(1)
}

// The timers of a machine go on while its wall clock is set back.
func TestClockThatJumpsBackFiresNothingEarly(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), time.Minute)
	w.setIn(object("failing"), 0)
	w.settle()
	w.flights[object("failing")].done(errBusy)
	w.advance(59 * time.Second)
	n := len(w.fired)
	w.clock.Jump(epoch.Add(-24 * time.Hour))
	w.advance(24*time.Hour + 59*time.Second) // world.Fire checks
	if w.firedSince(n, object("a")) != 0 {
		t.Fatal("fired")
	}
	w.advance(time.Second)
	if w.firedSince(n, object("a")) != 1 {
		t.Fatal("not fired at its time")
	}
}

func TestBackoffIsNotProlongedByAClockThatJumpsBack(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	id := object("a")
	w.set(id, storage.Alarm{At: epoch.AddDate(-10, 0, 0)})
	w.settle()
	w.flights[id].done(errBusy)
	w.settle()
	w.clock.Jump(epoch.AddDate(-1, 0, 0))
	w.advance(look + 2500*time.Millisecond) // it is noticed at the next look
	if w.firedSince(0, id) != 2 {
		t.Errorf("fired %d times, want again after its back-off", w.firedSince(0, id))
	}
}

func TestStopWaitsAtMostForItsContext(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	w.setIn(object("a"), 0)
	w.settle()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := w.d.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 alarms running") {
		t.Errorf("Stop: %v", err)
	}
	w.setIn(object("b"), 0)
	w.advance(time.Hour)
	w.wantFired(1)
	w.flights[object("a")].done(nil)
	if err := w.d.Stop(t.Context()); err != nil {
		t.Errorf("Stop when all is done: %v", err)
	}
	if err := w.d.Start(); err == nil {
		t.Error("a stopped dispatcher was started")
	}
}

// A stop in the middle of a page ends it there.
func TestStopWithinFireEndsThePage(t *testing.T) {
	w := newWorld(t, Options{})
	defer w.close()
	for i := range 10 {
		w.setIn(object(fmt.Sprint(i)), 0)
	}
	w.onFire = func(*firing) {
		if err := w.d.Stop(canceled()); err == nil {
			t.Error("Stop does not say that an alarm is running")
		}
	}
	w.settle()
	w.wantFired(1)
}

// flaky is a store whose alarm reads can fail.
type flaky struct {
	storage.Store
	err error
}

func (s *flaky) Due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Due(ctx, after, until, limit)
}

func (s *flaky) Alarm(ctx context.Context, id storage.ID) (storage.Alarm, error) {
	if s.err != nil {
		return storage.Alarm{}, s.err
	}
	return s.Store.Alarm(ctx, id)
}

func TestFailingReadsDelayAndLoseNothing(t *testing.T) {
	store := &flaky{Store: storage.NewMemory()}
	w := newWorldOn(t, Options{}, store)
	defer w.close()
	w.setIn(object("a"), 0)
	w.setIn(object("b"), 0)
	w.settle()
	w.wantFired(2)
	store.err = errors.New("the disk is gone")
	w.flights[object("a")].complete()    // its row can't be seen to have gone
	w.flights[object("b")].done(errBusy) // its row can't be read before it is fired again
	w.setIn(object("c"), time.Second)    // the index can't be read
	w.advance(time.Hour)
	w.wantFired(2)
	store.err = nil
	w.advance(MaxUncounted)
	if w.firedSince(2, object("b")) != 1 || w.firedSince(2, object("c")) != 1 || len(w.fired) != 4 {
		t.Fatalf("fired %v after the disk came back", w.fired[2:])
	}
	w.completeAll()
	w.advance(look)
	w.wantNothingArmed()
}

func TestNewNamesAllThatIsWrong(t *testing.T) {
	_, err := New(Options{MaxInFlight: -1, MaxDeferred: -2})
	for _, want := range []string{"Store is required", "Target is required", "MaxInFlight must not be negative, got -1", "MaxDeferred must not be negative, got -2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New does not say %q: %v", want, err)
		}
	}
}
