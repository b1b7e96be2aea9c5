package clock

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestFakeFiresInOrderOfTimeThenOfArming(t *testing.T) {
	c := NewFake(start)
	var got []string
	note := func(s string) func() { return func() { got = append(got, s) } }
	c.AfterFunc(2*time.Second, note("c"))
	c.AfterFunc(time.Second, note("a"))
	c.AfterFunc(time.Second, note("b"))
	c.AfterFunc(4*time.Second, note("d"))
	c.Advance(3 * time.Second)
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
	if next, armed := c.Next(); !armed || !next.Equal(start.Add(4*time.Second)) {
		t.Errorf("the next timer is at %v, %v; want the one of four seconds", next, armed)
	}
	c.Advance(time.Second)
	if next, armed := c.Next(); armed {
		t.Errorf("a timer is armed for %v, and all have fired", next)
	}
	if now := c.Now(); !now.Equal(start.Add(4 * time.Second)) {
		t.Errorf("it is %v after an advance of 4 s", now)
	}
}

func TestFakeTellsATimerItsOwnTime(t *testing.T) {
	c := NewFake(start)
	var at []time.Duration
	var tick func()
	tick = func() {
		at = append(at, c.Now().Sub(start))
		if len(at) < 3 {
			c.AfterFunc(time.Second, tick) // armed while advancing, and due on the way
		}
	}
	c.AfterFunc(time.Second, tick)
	c.Advance(time.Minute)
	if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("fired at %v, want %v", at, want)
	}
}

func TestFakeStoppedTimerDoesNotFire(t *testing.T) {
	c := NewFake(start)
	timer := c.AfterFunc(time.Second, func() { t.Error("fired") })
	if !timer.Stop() {
		t.Error("Stop says that an armed timer was not armed")
	}
	c.Advance(time.Minute)
	if timer.Stop() {
		t.Error("Stop says that a stopped timer was armed")
	}
}

func TestFakeJumpLeavesTimersWhatIsLeftOfThem(t *testing.T) {
	for _, to := range []time.Time{start.AddDate(1, 0, 0), start.AddDate(-1, 0, 0)} {
		c := NewFake(start)
		fired := 0
		c.AfterFunc(time.Second, func() { fired++ })
		c.Jump(to)
		if now := c.Now(); !now.Equal(to) {
			t.Errorf("it is %v after a jump to %v", now, to)
		}
		c.Advance(time.Second - 1)
		if fired != 0 {
			t.Errorf("a jump to %v made a timer fire early", to)
		}
		c.Advance(1)
		if fired != 1 {
			t.Errorf("a jump to %v made a timer late", to)
		}
	}
}

func TestRealTimerFiresAndStops(t *testing.T) {
	fired := make(chan struct{})
	before := Real.Now()
	Real.AfterFunc(time.Millisecond, func() { close(fired) })
	<-fired
	if Real.Now().Sub(before) < time.Millisecond {
		t.Error("fired early")
	}
	if !Real.AfterFunc(time.Hour, func() {}).Stop() {
		t.Error("an armed timer can't be stopped")
	}
}
