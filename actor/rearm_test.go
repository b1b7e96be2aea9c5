package actor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// lookAtClock lets the second pass within which the clock is looked at.
func (p *planned) lookAtClock() {
	p.t.Helper()
	p.kick()
	for range 3 {
		p.c.Advance(time.Second / 2)
		time.Sleep(5 * time.Millisecond)
	}
}

// An object whose alarm lies ahead, in memory or at rest, does not wait for a wall
// clock that was put back to come back to where it was.
func TestAClockThatIsPutBackDoesNotStarveAnInterval(t *testing.T) {
	for name, atRest := range map[string]bool{"in memory": false, "at rest": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t, "lazy")
			ask(p, p.plan, plan{Job: "f", Payload: "again", Kind: "every", In: time.Hour})
			p.alarmIs(in(time.Hour))
			p.to(in(time.Minute))
			p.lookAtClock()
			if atRest {
				p.h.Reset(p.id, actor.Aborted, nil)
			}
			p.c.Jump(in(-48 * time.Hour))
			p.lookAtClock()
			p.becomes("the alarm is less than the interval away", func() bool {
				wait := p.row().At.Sub(p.c.Now())
				return wait > 0 && wait <= time.Hour
			})
			if p.times("f") != 0 {
				t.Fatal("it ran early")
			}
			p.to(p.row().At)
			p.becomes("it runs", func() bool { return p.times("f") == 1 })
		})
	}
}

// The wait before an alarm's retry is one too; the time that an alarm was set to
// is not.
func TestAClockThatIsPutBackDoesNotPutOffAnAlarmsRetry(t *testing.T) {
	h, c, ran, set := alarmedWorld(t)
	rearm := func() {
		t.Helper()
		done := make(chan error, 1)
		h.Rearm(alarmedID, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	row := func() storage.Alarm {
		t.Helper()
		row, err := h.Store().Alarm(t.Context(), alarmedID)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	if _, err := set(morning.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	rearm()
	if at := row().At; !at.Equal(morning.Add(time.Hour)) {
		t.Errorf("the alarm is %v, want what it was set to", at)
	}
	c.Advance(time.Hour)
	ran.Store("fails", errors.New("no"))
	fire(t, h, c.Now())
	if got := row(); got.Retry != 1 {
		t.Fatalf("the row is %+v, want a first retry", got)
	}
	before := row()
	rearm()
	if got := row(); got != before {
		t.Errorf("the row is %+v, want %+v: the clock stands", got, before)
	}
	c.Jump(morning.Add(-24 * time.Hour))
	rearm()
	if got := row(); !got.Set.Equal(before.Set) || got.Set.IsZero() {
		t.Errorf("the row is %+v, want the time that it was set to in it", got)
	}
	if got, _ := alarm.Backoff(0, 1); row().Retry != 1 || row().At.Sub(c.Now()) <= 0 || row().At.Sub(c.Now()) > got {
		t.Errorf("the row is %+v, %v away, want at most %v", row(), row().At.Sub(c.Now()), got)
	}
}
