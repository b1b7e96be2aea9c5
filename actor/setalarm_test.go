package actor_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// alarmed is an object whose alarm is set to whatever a caller wants.
type alarmed struct {
	state *actor.State
	ran   *sync.Map // name -> alarm.Info of the last run; "fails" -> the error of runs; "sets" -> what they set the alarm to
}

func (a *alarmed) Alarm(_ context.Context, info alarm.Info) error {
	a.ran.Store(a.state.ID().Name, info)
	if at, ok := a.ran.Load("sets"); ok {
		if err := a.state.SetAlarm(at.(time.Time)); err != nil {
			return err
		}
	}
	if err, ok := a.ran.Load("fails"); ok {
		return err.(error)
	}
	return nil
}

// alarmedWorld is a host on a clock that stands. It is not started: a test fires
// what it wants.
func alarmedWorld(t *testing.T) (h *actor.Host, c *clock.Fake, ran *sync.Map, set func(time.Time) (time.Time, error)) {
	t.Helper()
	return alarmedWorldWith(t, nil)
}

func alarmedWorldWith(t *testing.T, m metric.MeterProvider) (h *actor.Host, c *clock.Fake, ran *sync.Map, set func(time.Time) (time.Time, error)) {
	t.Helper()
	store, c, ran := storage.NewMemory(), clock.NewFake(morning), &sync.Map{}
	t.Cleanup(func() { store.Close() })
	h, err := actor.NewHost(actor.Options{Store: store, Clock: c, Logger: quiet, MeterProvider: m})
	if err != nil {
		t.Fatal(err)
	}
	class := actor.Define("alarmed", func(_ context.Context, s *actor.State) (*alarmed, error) { return &alarmed{s, ran}, nil })
	method := actor.Method(class, "set", func(a *alarmed, _ context.Context, in [2]int64) (time.Time, error) { // JSON has no time after 9999
		at := time.Unix(in[0], in[1])
		if err := a.state.Put("set", []byte(at.String())); err != nil {
			return time.Time{}, err
		}
		err := a.state.SetAlarm(at)
		is, _ := a.state.Alarm()
		return is, err
	})
	class.Register(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, c, ran, func(at time.Time) (time.Time, error) {
		return method.Do(t.Context(), h.Stub(alarmedID), [2]int64{at.Unix(), int64(at.Nanosecond())})
	}
}

var alarmedID = storage.ID{Class: "alarmed", Name: "one"}

// fire fires the object's alarm as a dispatcher would that has read at in the index.
func fire(t *testing.T, h *actor.Host, at time.Time) {
	t.Helper()
	done := make(chan error, 1)
	h.Fire(storage.Due{ID: alarmedID, Alarm: storage.Alarm{At: at}}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestATimeInThePastMeansNow(t *testing.T) {
	h, _, ran, set := alarmedWorld(t)
	for _, at := range []time.Time{morning.Add(-time.Nanosecond), morning.Add(-time.Hour), time.Unix(0, int64(time.Millisecond)), morning} {
		if is, err := set(at); err != nil || !is.Equal(morning) {
			t.Errorf("set to %v it is %v (%v), want now", at, is, err)
		}
		if row, err := h.Store().Alarm(t.Context(), alarmedID); err != nil || !row.At.Equal(morning) {
			t.Errorf("set to %v the row is %v (%v), want now", at, row, err)
		}
	}
	fire(t, h, morning)
	if info, ok := ran.Load("one"); !ok || !info.(alarm.Info).Scheduled.Equal(morning) {
		t.Errorf("ran: %v with %+v, want scheduled for now", ok, info)
	}
}

func TestATimeThatNoAlarmCanHaveIsATypedErrorAndNoChange(t *testing.T) {
	h, _, _, set := alarmedWorld(t)
	want := morning.Add(time.Hour)
	if _, err := set(want); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{
		"1970": time.Unix(0, 0), "zero": {}, "negative": time.Unix(-1, 0), "far below zero": time.Unix(math.MinInt64, 0),
		"before all years": time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), "after 9999": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"rounded up beyond 9999": time.Date(9999, 12, 31, 23, 59, 59, 999_999_001, time.UTC), "not finite": time.Unix(math.MaxInt64, 0),
	} {
		_, err := set(at)
		if e, ok := errors.AsType[*actor.Error](err); !ok || !errors.Is(err, alarm.ErrTime) || e.Cause != actor.NoCause {
			t.Errorf("%s: %v, want a typed error that is no reset", name, err)
		}
		if row, err := h.Store().Alarm(t.Context(), alarmedID); err != nil || !row.At.Equal(want) {
			t.Errorf("%s: the row is %v (%v), want %v as before", name, row, err, want)
		}
	}
}

// An object that sets its alarm to now in every turn must not outrun it: what the
// dispatcher has read of the index is always an older time then.
func TestAnAlarmThatMovedAndIsDueRuns(t *testing.T) {
	h, c, ran, set := alarmedWorld(t)
	if _, err := set(morning); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	moved, err := set(morning)
	if err != nil || !moved.Equal(morning.Add(time.Second)) {
		t.Fatalf("moved to %v: %v", moved, err)
	}
	fire(t, h, morning)
	if info, ok := ran.Load("one"); !ok || !info.(alarm.Info).Scheduled.Equal(moved) {
		t.Errorf("ran: %v with %+v, want scheduled for %v", ok, info, moved)
	}
	if row, err := h.Store().Alarm(t.Context(), alarmedID); err != nil || !row.At.IsZero() {
		t.Errorf("the row is %v (%v), want none", row, err)
	}
	if _, err := set(c.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	ran.Clear()
	fire(t, h, moved)
	if info, ok := ran.Load("one"); ok {
		t.Errorf("an alarm that moved later ran early (I6): %+v", info)
	}
}

// What a handler sets takes the place of its retries, if it then fails, and of the
// deletion, if it does not.
func TestAnAlarmSetByItsHandlerSupersedesItsRetries(t *testing.T) {
	for name, failure := range map[string]error{"succeeds": nil, "fails": errors.New("no")} {
		h, _, ran, set := alarmedWorld(t)
		if _, err := set(morning); err != nil {
			t.Fatal(err)
		}
		want := storage.Alarm{At: morning.Add(time.Hour)}
		ran.Store("sets", want.At)
		if failure != nil {
			ran.Store("fails", failure)
		}
		fire(t, h, morning)
		if row, err := h.Store().Alarm(t.Context(), alarmedID); err != nil || row != want {
			t.Errorf("%s: the row is %+v (%v), want %+v", name, row, err, want)
		}
	}
}
