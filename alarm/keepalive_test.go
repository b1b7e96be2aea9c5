package alarm

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestHeartbeatWhileAKeepAliveIsHeld(t *testing.T) {
	o := newOwner(t)
	var first, second func()
	o.turn(func(s *Schedule) { first, second = s.KeepAlive(), s.KeepAlive() })
	if !o.keeper.Busy() {
		t.Error("what is kept alive can be evicted")
	}
	beat := monday.Add(Heartbeat)
	for _, s := range []int{0, 10, 29} {
		o.now = monday.Add(time.Duration(s) * time.Second)
		o.turn(nil)
		if !o.alarm.At.Equal(beat) {
			t.Errorf("%d s on the heartbeat is %v, want %v: it moves with every turn", s, o.alarm.At, beat)
		}
	}
	first()
	first()
	o.turn(nil)
	if !o.alarm.At.Equal(beat) || o.released != 0 {
		t.Errorf("released once of two: the alarm is %v, %d turns were asked for", o.alarm.At, o.released)
	}
	o.now = beat
	o.wake(nil)
	if want := beat.Add(Heartbeat); !o.alarm.At.Equal(want) {
		t.Errorf("the next heartbeat is %v, want %v", o.alarm.At, want)
	}
	o.now = monday // the clock was put back
	o.turn(nil)
	if want := monday.Add(Heartbeat); !o.alarm.At.Equal(want) {
		t.Errorf("after the clock went back the heartbeat is %v, want %v", o.alarm.At, want)
	}
	o.now = monday.Add(10 * time.Second)
	o.turn(nil)
	if want := monday.Add(Heartbeat); !o.alarm.At.Equal(want) {
		t.Errorf("after the clock went back the heartbeat moves with every turn: %v, want %v", o.alarm.At, want)
	}
	second()
	if o.released != 1 {
		t.Errorf("the last release asks for %d turns", o.released)
	}
	o.turn(nil)
	if !o.alarm.At.IsZero() || o.keeper.Busy() {
		t.Errorf("a stale heartbeat is left: %v", o.alarm.At)
	}
}

func TestReleaseFromAnyGoroutine(t *testing.T) {
	o := newOwner(t)
	var wg sync.WaitGroup
	for range 100 {
		release := o.keeper.Schedule().KeepAlive()
		wg.Go(release)
		wg.Go(release)
	}
	for range 100 {
		o.turn(nil)
	}
	wg.Wait()
	o.turn(nil)
	if !o.alarm.At.IsZero() {
		t.Errorf("all are released and the alarm is %v", o.alarm.At)
	}
}

func TestASourceThatDoesNotMoveIsPushedAndReported(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { s.AddSource("stuck", func(time.Time) time.Time { return monday }) })
	for i := range 5 {
		o.now = o.alarm.At
		if w := o.wake(nil); !w.Alarm {
			t.Fatal("the source is due and the owner is not told")
		}
		if push := o.alarm.At.Sub(o.now); push != spin {
			t.Fatalf("wake %d: the alarm is %v from now, want %v", i, push, spin)
		}
	}
	if !o.logged("source=stuck") {
		t.Error("not reported")
	}
}

func TestOwnersFailureBacksOffAndIsCounted(t *testing.T) {
	o := newOwner(t)
	source := func(s *Schedule) { s.AddSource("idle", func(time.Time) time.Time { return monday }) }
	o.start = source
	o.restart(Reset{})
	o.turn(nil)
	for i, base := range []time.Duration{2, 4, 8, 16, 32, 64, 64} {
		o.now = o.alarm.At
		o.turn(func(*Schedule) {
			w, err := o.keeper.Wake(o.alarm.Retry)
			if err != nil || !w.Alarm {
				t.Fatal(w, err)
			}
			_ = o.keeper.AlarmRan(errors.New("no"))
		})
		if wait := o.alarm.At.Sub(o.now); wait < base*time.Second || wait > base*time.Second*5/4+time.Microsecond {
			t.Errorf("failure %d waits %v, want %ds", i+1, wait, base)
		}
		if o.alarm.Retry != i+1 {
			t.Errorf("failure %d is counted as %d", i+1, o.alarm.Retry)
		}
		if i == 3 {
			before := o.alarm
			o.restart(Reset{})
			o.turn(nil)
			if o.alarm != before {
				t.Errorf("a restart makes %v of the back-off %v", o.alarm, before)
			}
		}
	}
	o.now = o.alarm.At
	o.wake(nil)
	if o.alarm.Retry != 0 {
		t.Error("a success does not end the count")
	}
}

func TestOwnersHandlerRunsOneAtATime(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) { s.AddSource("idle", func(time.Time) time.Time { return monday }) })
	wake := func() (w Work) {
		o.turn(func(*Schedule) { w, _ = o.keeper.Wake(0) })
		return w
	}
	if !wake().Alarm {
		t.Fatal("not told")
	}
	for range 3 {
		if !o.alarm.At.After(o.now) || o.alarm.At.Sub(o.now) > Heartbeat {
			t.Fatalf("while the handler runs the alarm is %v from now", o.alarm.At.Sub(o.now))
		}
		o.now = o.alarm.At
		if wake().Alarm {
			t.Fatal("told again while the handler runs")
		}
	}
}

func TestASourceOfTheSameNameIsReplaced(t *testing.T) {
	o := newOwner(t)
	o.turn(func(s *Schedule) {
		s.AddSource("idle", func(time.Time) time.Time { return monday.Add(time.Minute) })
		s.AddSource("idle", func(time.Time) time.Time { return monday.Add(time.Hour) })
	})
	if want := monday.Add(time.Hour); !o.alarm.At.Equal(want) {
		t.Errorf("the alarm is %v, want %v", o.alarm.At, want)
	}
}
