package actor_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// wanted is the model: who wants the one alarm of an object, and when.
type wanted struct {
	once     map[string]time.Time // schedules that run once, by ID
	interval map[string]time.Time // schedules that run again and again
	every    map[string]time.Duration
	idle     time.Time // the owner's deadline
	held     int       // keep-alives
	beat     time.Time
}

// earliest is what the alarm has to be.
func (w *wanted) earliest() (at time.Time) {
	want := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, t := range w.once {
		want(t)
	}
	for _, t := range w.interval {
		want(t)
	}
	want(w.idle)
	want(w.beat)
	return at
}

func (w *wanted) release() {
	if w.held = max(0, w.held-1); w.held == 0 {
		w.beat = time.Time{}
	}
}

// fire is what an alarm at now leaves.
func (w *wanted) fire(now time.Time) {
	maps.DeleteFunc(w.once, func(_ string, t time.Time) bool { return !t.After(now) })
	for id, t := range w.interval {
		for !t.After(now) {
			t = t.Add(w.every[id])
		}
		w.interval[id] = t
	}
	if !w.idle.After(now) {
		w.idle = time.Time{}
	}
	if w.held > 0 && !w.beat.After(now) {
		w.beat = now.Add(alarm.Heartbeat)
	}
}

// A schedule, a keep-alive and the owner's deadline on one object, in every order
// of set, fire, cancel and restart: the alarm is always the earliest of what is
// due, and there is none when nothing is (I7, I8).
func TestAlarmIsAlwaysTheEarliestI7(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := storage.NewMemory()
		defer store.Close()
		p := &planned{t: t, c: clock.NewFake(morning), store: store, id: storage.ID{Class: "planner", Name: "model"}, planners: newPlanners()}
		p.startHost()
		defer func() { p.stopHost() }()
		w := &wanted{once: map[string]time.Time{}, interval: map[string]time.Time{}, every: map[string]time.Duration{}}
		now := func() time.Time { return p.c.Now() }
		delays := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds"))*time.Second + time.Duration(rapid.IntRange(0, 2).Draw(t, "micros"))*time.Microsecond
		})
		// An alarm set to the very time that it has just fired for looks to the dispatcher
		// like one that was not run, and has to wait.
		var fired time.Time
		after := func(d time.Duration) time.Duration {
			if d == 0 && now().Equal(fired) {
				return time.Microsecond
			}
			return d
		}
		// What is due at once fires at once.
		settle := func() {
			for n := 0; ; n++ {
				at := w.earliest()
				if at.IsZero() || at.After(now()) {
					break
				}
				if n > 3 {
					t.Fatal("the model spins")
				}
				w.fire(now())
				fired = now()
			}
			p.becomes("the schedules are those of the model", func() bool {
				got := map[string]time.Time{}
				for _, e := range ask(p, p.list, 0) {
					if e.Running != nil {
						return false
					}
					got[e.ID] = e.Next
				}
				want := maps.Clone(w.once)
				maps.Copy(want, w.interval)
				return maps.EqualFunc(got, want, time.Time.Equal)
			})
			p.alarmIs(w.earliest())
		}
		lost := func() { // with the incarnation
			w.held, w.beat, p.holds = 0, time.Time{}, nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"schedule once": func(t *rapid.T) {
				id, d := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), after(delays.Draw(t, "in"))
				delete(w.interval, id)
				// The same again changes nothing; the payload makes it another one.
				ask(p, p.plan, plan{ID: id, Job: "f", In: d, Payload: fmt.Sprint(now(), d)})
				w.once[id] = now().Add(d)
			},
			"schedule again and again": func(t *rapid.T) {
				id, d := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), delays.Draw(t, "every")+time.Second
				delete(w.once, id)
				ask(p, p.plan, plan{ID: id, Job: "g", Kind: "every", In: d, Payload: fmt.Sprint(now())})
				w.interval[id], w.every[id] = now().Add(d), d
			},
			"schedule the same again": func(t *rapid.T) {
				if len(w.interval) == 0 {
					t.Skip("there is none")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.interval))).Draw(t, "id")
				before := w.interval[id]
				for _, e := range ask(p, p.list, 0) {
					if e.ID == id && !e.Next.Equal(before) {
						t.Fatalf("%s is due at %v, want %v", id, e.Next, before)
					}
				}
			},
			"cancel": func(t *rapid.T) {
				id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
				_, once := w.once[id]
				_, again := w.interval[id]
				if got := ask(p, p.cancel, id); got != (once || again) {
					t.Fatalf("cancelled %s: %v", id, got)
				}
				delete(w.once, id)
				delete(w.interval, id)
			},
			"move the owner's deadline": func(t *rapid.T) {
				d := after(delays.Draw(t, "idle"))
				ask(p, p.idle, d)
				w.idle = now().Add(d)
			},
			"drop the owner's deadline": func(*rapid.T) {
				ask(p, p.idle, time.Duration(-1))
				w.idle = time.Time{}
			},
			"keep alive": func(*rapid.T) {
				ask(p, p.hold, 0)
				if w.held++; w.held == 1 {
					w.beat = now().Add(alarm.Heartbeat)
				}
			},
			"release": func(*rapid.T) {
				ask(p, p.release, 0)
				w.release()
			},
			"release outside of a turn": func(*rapid.T) {
				p.letGo()
				w.release()
				p.alarmIs(w.earliest()) // before a turn of something else derives it
			},
			"let time pass": func(t *rapid.T) {
				end := now().Add(delays.Draw(t, "time"))
				for {
					at := w.earliest()
					if at.IsZero() || at.After(end) {
						break
					}
					p.to(at)
					settle()
				}
				p.to(end)
			},
			"fire": func(t *rapid.T) {
				at := w.earliest()
				if at.IsZero() {
					t.Skip("nothing is due")
				}
				p.to(at)
			},
			"reset the object": func(*rapid.T) {
				p.h.Reset(p.id, actor.MemoryLimit, nil)
				lost()
				ask(p, p.try, "poke")
			},
			"restart the host": func(*rapid.T) {
				p.stopHost()
				p.startHost()
				lost()
				ask(p, p.try, "poke")
			},
			"": func(*rapid.T) { settle() },
		})
	})
}
