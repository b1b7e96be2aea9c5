package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
)

var morning = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// session is a machine like those of package mcp: each request holds a keep-alive
// and moves the idle deadline, which is a source.
type session struct {
	idle    time.Time
	release func()
	alarms  int
}

type (
	request struct{ answered chan struct{} }
	respond struct{ left chan struct{} }
)

const idleTimeout = 5 * time.Minute

func (s *session) Start(t *actor.Turn) error {
	t.Schedule().AddSource("idle", func(time.Time) time.Time { return s.idle })
	return nil
}

func (s *session) Handle(t *actor.Turn, event any) {
	switch e := event.(type) {
	case request:
		s.release = t.Schedule().KeepAlive()
		s.idle = t.Now().Add(idleTimeout)
		t.After(func() { close(e.answered) })
	case respond:
		release := s.release
		t.After(func() { release(); close(e.left) }) // the response has gone out
	}
}

func (s *session) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) {
	s.alarms++
	if !s.idle.After(t.Now()) {
		s.idle = time.Time{}
	}
	done(t, nil)
}

func (s *session) Idle() bool { return s.idle.IsZero() }

// afterOneCall is the alarm of a session that was called once and is idle.
func afterOneCall(t *testing.T, s seams.Alarm) (*actor.Host, *clock.Fake, storage.ID) {
	t.Helper()
	c := clock.NewFake(morning)
	store := storage.NewMemory()
	t.Cleanup(func() { store.Close() })
	h, err := actor.NewHost(actor.Options{Store: store, Clock: c, Logger: quiet, Seams: s})
	if err != nil {
		t.Fatal(err)
	}
	h.Register("session", func() actor.Machine { return &session{} })
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = h.Shutdown(ctx) // what is idle rests, what is not is reset
	})
	id := storage.ID{Class: "session", Name: "one"}
	q, r := request{make(chan struct{})}, respond{make(chan struct{})}
	for _, e := range []struct {
		event any
		done  chan struct{}
	}{{q, q.answered}, {r, r.left}} {
		if err := h.Send(id, e.event, nil); err != nil {
			t.Fatal(err)
		}
		<-e.done
	}
	return h, c, id
}

// alarmBecomes waits for the alarm row to be what is wanted.
func alarmBecomes(t *testing.T, s storage.Store, id storage.ID, want time.Time) bool {
	t.Helper()
	var row storage.Alarm
	for range 2000 {
		var err error
		if row, err = s.Alarm(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if row.At.Equal(want) {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func TestIdleDeadlineSurvivesTheLastReleaseI7(t *testing.T) {
	h, c, id := afterOneCall(t, seams.Alarm{})
	if !alarmBecomes(t, h.Store(), id, morning.Add(idleTimeout)) {
		row, _ := h.Store().Alarm(t.Context(), id)
		t.Fatalf("after the response has gone out the alarm is %v, want the idle deadline", row)
	}
	// The row is seen a little before the dispatcher hears of it, whose timer counts from then.
	if !passes(c, 2*idleTimeout, func() bool {
		row, err := h.Store().Alarm(t.Context(), id)
		return err == nil && row.At.IsZero()
	}) {
		t.Fatal("I8: an alarm is left when nothing is to be reclaimed")
	}
}

func TestWhatATestTakesOutIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		seams seams.Alarm
		want  time.Time // what the story says becomes of the alarm
	}{
		"without re-assertion the last release erases the idle alarm":  {seams.Alarm{NoReassert: true}, time.Time{}},
		"deleting last erases it too":                                  {seams.Alarm{DeleteLast: true}, time.Time{}},
		"without a turn at the last release a stale heartbeat is left": {seams.Alarm{NoRelease: true}, morning.Add(alarm.Heartbeat)},
	} {
		t.Run(name, func(t *testing.T) {
			h, _, id := afterOneCall(t, c.seams)
			if !alarmBecomes(t, h.Store(), id, c.want) {
				row, _ := h.Store().Alarm(t.Context(), id)
				t.Fatalf("the alarm is %v, want %v", row, c.want)
			}
		})
	}
}
