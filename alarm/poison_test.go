package alarm

import (
	"errors"
	"testing"
	"time"
)

// begun is an object with a run of f in progress, and g due beside it.
func begun(t *testing.T, o ...Option) *owner {
	t.Helper()
	w := newOwner(t)
	w.turn(func(s *Schedule) {
		must(t)(s.In(0, "f", []byte("x"), append(o, WithID("culprit"))...))
		must(t)(s.Every(time.Hour, "g", nil, WithID("other")))
	})
	w.wake(func(Run) error { return errAwaits })
	return w
}

func (o *owner) entry(id string) Entry {
	o.t.Helper()
	for _, e := range o.entries() {
		if e.ID == id {
			return e
		}
	}
	return Entry{}
}

func TestMemoryStrikesBackOffAndTheThirdRemovesOnlyTheCulprit(t *testing.T) {
	o := begun(t)
	oom := Reset{Epoch: o.epoch, Schedule: "culprit", Own: true, Memory: true}
	for strike := 1; strike <= 2; strike++ {
		o.restart(oom)
		e := o.entry("culprit")
		if e.Strikes != strike || e.Failed != 0 || e.Running != nil {
			t.Fatalf("after strike %d: %+v", strike, e)
		}
		if wait := e.Next.Sub(o.now); wait != time.Duration(strike)*30*time.Second {
			t.Fatalf("strike %d backs off %v", strike, wait)
		}
		o.restart(Reset{}) // a restart forgets no strike
		if e := o.entry("culprit"); e.Strikes != strike {
			t.Fatalf("a restart has left %d of %d strikes", e.Strikes, strike)
		}
		o.now = e.Next
		o.wake(func(Run) error { return errAwaits })
		oom.Epoch = o.epoch
	}
	o.restart(oom)
	if e := o.entries(); len(e) != 1 || e[0].ID != "other" {
		t.Fatalf("after three strikes there are %+v", e)
	}
	if _, ok := o.aside()["culprit"]; !ok || !o.logged("out of memory 3 times in a row") {
		t.Error("the culprit is not set aside, loudly")
	}
	if want := monday.Add(time.Hour); !o.alarm.At.Equal(want) {
		t.Errorf("the alarm is %v, want that of the other, %v", o.alarm.At, want)
	}
}

func TestASuccessEndsTheRowOfStrikes(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.Every(time.Minute, "f", nil, WithID("one"))) })
	for range 4 {
		for range MaxStrikes - 1 {
			o.now = o.alarm.At
			o.wake(func(Run) error { return errAwaits })
			o.restart(Reset{Epoch: o.epoch, Schedule: "one", Own: true, Memory: true})
			o.turn(func(s *Schedule) { _, _ = s.List() })
		}
		o.now = o.alarm.At
		o.wake(nil)
		if e := o.entry("one"); e.Strikes != 0 {
			t.Fatalf("%d strikes after a success", e.Strikes)
		}
	}
}

func TestStrikeWaitIsAtMost300s(t *testing.T) {
	for strikes, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 9: 270 * time.Second, 10: 300 * time.Second, 1000: 300 * time.Second} {
		if got := strikeWait(strikes); got != want {
			t.Errorf("%d strikes wait %v, want %v", strikes, got, want)
		}
	}
}

// What a reset makes of a run that was in progress, and of the budget that it has.
func TestAResetBurnsNoAttemptsButAPanicDoes(t *testing.T) {
	for _, c := range []struct {
		name           string
		last           Reset
		strikes, lost  int
		failed         int
		atLeast, below time.Duration // the wait
	}{
		{"another process", Reset{}, 0, 1, 0, time.Second, 2 * time.Second},
		{"reset for another object's memory", Reset{Epoch: 1}, 0, 0, 0, 0, 1},
		{"reset for the object's memory, by another schedule", Reset{Epoch: 1, Schedule: "other", Own: true, Memory: true}, 0, 0, 0, 0, 1},
		{"reset for the object's memory, while it awaits, the only one", Reset{Epoch: 1, Own: true, Memory: true}, 1, 0, 0, 30 * time.Second, 31 * time.Second},
		{"reset for its own memory", Reset{Epoch: 1, Schedule: "culprit", Own: true, Memory: true}, 1, 0, 0, 30 * time.Second, 31 * time.Second},
		{"reset while it held the turn", Reset{Epoch: 1, Schedule: "culprit", Own: true}, 0, 1, 0, time.Second, 2 * time.Second},
		{"panic", Reset{Epoch: 1, Schedule: "culprit", Own: true, Panic: true}, 0, 0, 1, DefaultBase, 2 * DefaultBase},
		{"a reset of an incarnation before that", Reset{Epoch: 77, Schedule: "culprit", Own: true, Memory: true}, 0, 1, 0, time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := begun(t)
			o.restart(c.last)
			e := o.entry("culprit")
			if e.Strikes != c.strikes || e.Lost != c.lost || e.Failed != c.failed || e.Running != nil {
				t.Errorf("%+v", e)
			}
			if wait := max(0, e.Next.Sub(o.now)); wait < c.atLeast || wait >= c.below {
				t.Errorf("it waits %v, want %v to %v", wait, c.atLeast, c.below)
			}
		})
	}
}

func TestTwoInProgressAreNotBothBlamed(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		must(t)(s.In(0, "f", nil, WithID("a")))
		must(t)(s.In(0, "f", nil, WithID("b")))
	})
	o.wake(func(Run) error { return errAwaits })
	o.restart(Reset{Epoch: 1, Own: true, Memory: true}) // while both awaited
	for _, e := range o.entries() {
		if e.Strikes != 0 || e.Lost != 1 {
			t.Errorf("%+v", e)
		}
	}
}

// A run that takes the whole process down is known to the next one, and doesn't
// take it down at once again.
func TestCrashLoopsBackOff(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { must(t)(s.In(0, "f", nil)) })
	var waits []time.Duration
	for range 14 {
		o.now = o.alarm.At
		o.wake(func(Run) error { return errAwaits })
		o.restart(Reset{})
		o.turn(func(s *Schedule) { _, _ = s.List() })
		waits = append(waits, o.alarm.At.Sub(o.now))
	}
	if waits[0] != time.Second || waits[1] != 30*time.Second || waits[13] != 300*time.Second {
		t.Errorf("waits %v", waits)
	}
	o.now = o.alarm.At
	o.wake(nil)
	if len(o.rows) != 0 {
		t.Error("the run that succeeded in the end is still there")
	}
}

func TestErrorsAreFoundThroughWrapping(t *testing.T) {
	e := &Error{Op: "in", Err: ErrTime, Hint: "look"}
	if !errors.Is(e, ErrTime) || e.Error() != "schedule in /: not a time for an alarm (look)" {
		t.Error(e)
	}
}
