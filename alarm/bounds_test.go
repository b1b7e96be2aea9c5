package alarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// I12: each bound has a name, a default, and a test at its edge.

func TestNoMoreThanMaxInFlightAreFired(t *testing.T) {
	if d := newWorld(t, Options{}); d.d.core.maxFlights != 1024 || d.d.core.deferred.bound != 16384 {
		t.Errorf("the defaults are %d and %d", d.d.core.maxFlights, d.d.core.deferred.bound)
	} else {
		d.close()
	}
	for _, bound := range []int{1, 2, 300, DefaultMaxInFlight} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			w := newWorld(t, Options{MaxInFlight: bound})
			defer w.close()
			for i := range bound {
				w.setIn(object(fmt.Sprint(i)), 0)
			}
			w.advance(time.Second)
			w.wantFired(bound)
			w.setIn(object("late"), 0)
			w.advance(time.Minute)
			w.wantFired(bound)
			w.wantNothingArmed() // only a completion makes room
			w.inFlight()[0].complete()
			w.settle()
			w.wantFired(bound + 1)
			if w.flights[object("late")] == nil {
				t.Error("the one that waited was not fired")
			}
		})
	}
}

// The rows that don't fit keep their order of time, however often the window
// moves.
func TestBacklogIsFiredInOrderThroughANarrowWindow(t *testing.T) {
	w := newWorld(t, Options{MaxInFlight: 3})
	defer w.close()
	const rows = 2000
	for i := range rows {
		w.set(object(fmt.Sprintf("%05d", i)), storage.Alarm{At: epoch.Add(-time.Duration(rows-i/5) * time.Second)})
	}
	for len(w.fired) < rows {
		n := len(w.fired)
		w.settle()
		w.completeAll()
		w.settle()
		if len(w.fired) == n && len(w.flights) == 0 {
			t.Fatalf("stuck after %d", n)
		}
	}
	for i, d := range w.fired {
		if want := object(fmt.Sprintf("%05d", i)); d.ID != want {
			t.Fatalf("firing %d is of %v, want %v", i, d.ID, want)
		}
	}
}

// failAll ends whatever is in flight with an error.
func (w *world) failAll() {
	for _, f := range w.inFlight() {
		f.done(errBusy)
	}
	w.settle()
}

func TestUpToMaxDeferredEachHasItsOwnBackoff(t *testing.T) {
	const bound = 10
	w := newWorld(t, Options{MaxDeferred: bound})
	defer w.close()
	for i := range bound {
		w.setIn(object(fmt.Sprint(i)), 0)
	}
	w.settle()
	w.failAll()
	if s := w.d.Stats(); s.Deferred != bound || w.d.core.deferred.spill.on {
		t.Errorf("%d are deferred, spill: %v", s.Deferred, w.d.core.deferred.spill.on)
	}
	w.setIn(object("one more"), 0)
	w.settle()
	w.failAll()
	if s := w.d.Stats(); s.Deferred != bound || !w.d.core.deferred.spill.on {
		t.Errorf("beyond the bound %d are deferred, spill: %v", s.Deferred, w.d.core.deferred.spill.on)
	}
}

// A host that can run nothing: a thousand objects, room to remember ten. Their
// firings become fewer and fewer, memory stays bounded, and when the host is well
// again all are fired.
func TestMoreFailingObjectsThanFitShareABackoffAndNoneIsLost(t *testing.T) {
	const objects, bound = 1000, 10
	w := newWorld(t, Options{MaxInFlight: 50, MaxDeferred: bound})
	defer w.close()
	for i := range objects {
		w.setIn(object(fmt.Sprint(i)), time.Duration(i)*time.Microsecond)
	}
	w.onFire = func(f *firing) { f.done(errBusy) }
	var perHour [3]int
	for hour := range perHour {
		n := len(w.fired)
		w.advance(time.Hour)
		perHour[hour] = len(w.fired) - n
		if s := w.d.Stats(); s.Deferred > bound || s.InFlight > 50 {
			t.Fatalf("over the bounds: %+v", s)
		}
	}
	// An object in the first hour is tried some twelve times, and then every 17 min.
	if perHour[0] > 14*objects || perHour[2] > 5*objects || perHour[2] < 2*objects {
		t.Errorf("fired %v times an hour", perHour)
	}

	// A healthy object is not affected by them.
	n := len(w.fired)
	w.onFire = func(f *firing) {
		if f.due.ID == object("healthy") {
			f.complete()
		} else {
			f.done(errBusy)
		}
	}
	w.setIn(object("healthy"), time.Second)
	w.advance(time.Second)
	if w.firedSince(n, object("healthy")) != 1 {
		t.Error("a healthy object's alarm is held up by those that fail")
	}

	w.onFire = func(f *firing) { f.complete() }
	n = len(w.fired)
	w.advance(MaxUncounted)
	for i := range objects {
		if w.firedSince(n, object(fmt.Sprint(i))) != 1 {
			t.Fatalf("object %d was fired %d times after the host was well", i, w.firedSince(n, object(fmt.Sprint(i))))
		}
	}
	w.advance(look)
	w.wantNothingArmed()
}

func TestSpillBeginsAnewAfterItWentWell(t *testing.T) {
	var s spill
	at := func(sec int) time.Time { return epoch.Add(time.Duration(sec) * time.Second) }
	position := storage.Cursor{At: epoch, ID: object("a")}
	now := 0
	for n := range 5 {
		s.add(position, at(now))
		if want := BackoffUncounted(n, 0); s.wait != want {
			t.Fatalf("overflow %d in a row waits %v, want %v", n, s.wait, want)
		}
		now += int(s.wait / time.Second)
		if from, ended := s.end(at(now)); !ended || before(position, from) {
			t.Fatalf("the spill ended: %v, from %v", ended, from)
		}
	}
	s.add(position, at(now+int(2*s.wait/time.Second)+1))
	if s.wait != BackoffUncounted(0, 0) {
		t.Errorf("an overflow long after the last one waits %v", s.wait)
	}
}
