package alarm

import (
	"errors"
	"testing"
	"time"
)

func condemned(t *testing.T) *owner {
	t.Helper()
	o := newOwner(t)
	o.start = func(s *Schedule) {
		s.AddSource("early", func(now time.Time) time.Time { return now.Add(time.Millisecond) })
	}
	o.restart(Reset{})
	o.turn(func(s *Schedule) {
		must(t)(s.In(time.Millisecond, "f", nil))
		s.KeepAlive()
		if err := s.Destroy(); err != nil {
			t.Fatal(err)
		}
	})
	return o
}

func TestPendingDestroyOwnsTheAlarm(t *testing.T) {
	o := condemned(t)
	due := monday.Add(destroyAfter)
	if !o.alarm.At.Equal(due) {
		t.Fatalf("the alarm is %v, want %v", o.alarm.At, due)
	}
	for what, f := range map[string]func(s *Schedule){
		"condemned again":  func(s *Schedule) { _ = s.Destroy() },
		"a schedule":       func(s *Schedule) { _, _ = s.In(0, "f", nil) },
		"all rows deleted": func(s *Schedule) { _ = o.keeper.Clear(func() { clear(o.rows) }) },
		"restarted":        func(*Schedule) { o.restart(Reset{}) },
		"nothing":          nil,
	} {
		o.turn(f)
		if !o.alarm.At.Equal(due) {
			t.Errorf("%s: the alarm is %v, want %v", what, o.alarm.At, due)
		}
	}
	o.turn(func(s *Schedule) {
		if _, err := s.In(0, "f", nil); !errors.Is(err, ErrCondemned) {
			t.Errorf("a condemned object takes a schedule: %v", err)
		}
		if yes, err := s.Condemned(); !yes || err != nil {
			t.Error(yes, err)
		}
	})
	o.now = due
	if w := o.wake(nil); !w.Destroy || len(w.Runs) != 0 || w.Alarm || len(o.ran) != 0 {
		t.Errorf("the alarm of a condemned object runs %+v", w)
	}
	if !o.alarm.At.After(o.now) || o.alarm.At.After(o.now.Add(Heartbeat)) {
		t.Errorf("while it is torn down the alarm is %v: a crash must tear it down again", o.alarm.At)
	}
	o.now = o.alarm.At
	if w := o.wake(nil); w.Destroy {
		t.Error("it is torn down twice at once")
	}
	o.turn(func(*Schedule) {
		if err := o.keeper.Destroyed(nil); err != nil {
			t.Fatal(err)
		}
		if err := o.keeper.Clear(func() { clear(o.rows) }); err != nil {
			t.Fatal(err)
		}
	})
	if len(o.rows) != 0 || !o.alarm.At.IsZero() {
		t.Errorf("left are %v and the alarm %v", o.rows, o.alarm)
	}
	o.turn(nil)
	if !o.alarm.At.IsZero() {
		t.Error("a source arms what has been destroyed")
	}
}

func TestDestroyIsTriedAgainAfterACrashAndAfterAFailure(t *testing.T) {
	o := condemned(t)
	o.now = o.alarm.At
	o.wake(nil)
	o.restart(Reset{})
	o.turn(func(s *Schedule) { _, _ = s.Condemned() })
	if o.alarm.At.IsZero() {
		t.Fatal("the crash has saved the condemned")
	}
	last := time.Duration(0)
	for range 3 {
		o.now = o.alarm.At
		if w := o.wake(nil); !w.Destroy {
			t.Fatal("it is not torn down again")
		}
		o.turn(func(*Schedule) { _ = o.keeper.Destroyed(errors.New("no")) })
		wait := o.alarm.At.Sub(o.now)
		if wait <= last {
			t.Errorf("the wait is %v after %v", wait, last)
		}
		last = wait
	}
}

func TestAMarkThatDoesNotDecodeIsAMark(t *testing.T) {
	o := newOwner(t)
	o.rows[destroyKey] = []byte("?")
	o.restart(Reset{})
	o.turn(func(s *Schedule) { _, _ = s.Condemned() })
	if !o.alarm.At.Equal(o.now) {
		t.Errorf("the alarm is %v, want now", o.alarm.At)
	}
}
