package actor_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// passes lets time pass, in steps in which what it begins can go on, until it is so or
// a while is over.
func passes(c *clock.Fake, atMost time.Duration, so func() bool) bool {
	const step = 5 * time.Second
	for ; atMost > 0; atMost -= step {
		c.Advance(step)
		time.Sleep(time.Millisecond)
		if so() {
			return true
		}
	}
	time.Sleep(settle)
	return so()
}

// A handler of the alarm that waits for more than 15 minutes is given up with its
// incarnation, so that never two of one object run at a time, and that is a failure
// like any other: it is counted, and retried. Until then the object does what it is
// asked to.
func TestAnAlarmThatRunsForTooLongIsGivenUp(t *testing.T) {
	w := newFused(t, actor.Options{})
	ended, end := make(chan error, 9), make(chan struct{})
	defer close(end)
	w.runsAs(func(ctx context.Context, s *actor.State) error {
		return s.Await(ctx, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-end:
			}
			return nil
		})
	})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	if !passes(w.clock, 10*time.Second, func() bool { return len(w.ran()) == 1 }) {
		t.Fatal("it does not run")
	}
	first := w.Epoch(oneFuse)
	if passes(w.clock, 15*time.Minute-20*time.Second, func() bool { return len(ended) > 0 }) {
		t.Fatalf("it was ended before its time: %v", <-ended)
	}
	if err := w.acts("one", func(context.Context, *actor.State) error { return nil }); err != nil || w.Epoch(oneFuse) != first {
		t.Fatalf("while it runs: %v", err)
	}
	if !passes(w.clock, 30*time.Second, func() bool { return len(ended) > 0 }) {
		t.Fatal("it was not ended")
	}
	if err := <-ended; actor.CauseOf(err) != actor.Aborted || !strings.Contains(err.Error(), "15m0s is the limit") {
		t.Errorf("it ended with %v", err)
	}
	if !passes(w.clock, 30*time.Second, func() bool { return len(w.ran()) == 2 }) || w.ran()[1].Retry != 1 {
		t.Errorf("it ran as %+v", w.ran())
	}
}

// The same holds where the alarm is that of a schedule, and for what an object does
// before it is torn down.
func TestAHandlerOfASchedulesOwnerThatRunsForTooLongIsGivenUp(t *testing.T) {
	for what, destroy := range map[string]bool{"a source": false, "destroy": true} {
		t.Run(what, func(t *testing.T) {
			w := newStuck(t, destroy)
			if !passes(w.clock, 10*time.Second, func() bool { return w.begun.Load() == 1 }) {
				t.Fatal("it does not run")
			}
			if passes(w.clock, 15*time.Minute-20*time.Second, func() bool { return w.ended.Load() > 0 }) {
				t.Fatal("it was ended before its time")
			}
			if !passes(w.clock, time.Minute, func() bool { return w.ended.Load() == 1 && w.begun.Load() == 2 }) {
				t.Fatalf("begun %d times, ended %d", w.begun.Load(), w.ended.Load())
			}
			if destroy {
				return
			}
			if retry := w.retry.Load(); retry != 1 {
				t.Errorf("the second run is retry %d: the first one's failure was not counted", retry)
			}
		})
	}
}

// stuck is an object whose handlers wait for ever.
type stuck struct {
	w     *stuckWorld
	state *actor.State
}

type stuckWorld struct {
	clock        *clock.Fake
	begun, ended atomic.Int64
	retry        atomic.Int64 // of the last run
}

func (s *stuck) wait(ctx context.Context) error {
	s.w.begun.Add(1)
	return s.state.Await(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		s.w.ended.Add(1)
		return nil
	})
}

func (s *stuck) Alarm(ctx context.Context, info alarm.Info) error {
	s.w.retry.Store(int64(info.Retry))
	return s.wait(ctx)
}
func (s *stuck) Destroy(ctx context.Context) error { return s.wait(ctx) }

func newStuck(t *testing.T, destroy bool) *stuckWorld {
	t.Helper()
	w := &stuckWorld{clock: clock.NewFake(morning)}
	store := storage.NewMemory()
	h, err := actor.NewHost(actor.Options{Store: store, Clock: w.clock, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	class := actor.Define("stuck", func(_ context.Context, s *actor.State) (*stuck, error) {
		if !destroy {
			s.Schedule().AddSource("stuck", func(now time.Time) time.Time { return now })
		}
		return &stuck{w, s}, nil
	})
	begin := actor.Method(class, "begin", func(s *stuck, _ context.Context, _ int) (int, error) {
		if destroy {
			return 0, s.state.Schedule().Destroy()
		}
		return 0, nil
	})
	class.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = h.Shutdown(ctx) // what waits for ever is reset
		store.Close()
	})
	if _, err := begin.Do(t.Context(), h.Stub(storage.ID{Class: "stuck", Name: "one"}), 0); err != nil {
		t.Fatal(err)
	}
	return w
}
