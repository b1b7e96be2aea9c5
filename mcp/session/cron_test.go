package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// ticking is a session that has a cron schedule on its object, beside the deadlines
// of its own.
type ticking struct {
	actor.Machine
	of *ticks
}

// ticks are the cron runs of all sessions: when each was due, and when it ran.
type ticks struct {
	mu  sync.Mutex
	all map[string][]tick
}

type tick struct{ due, ran time.Time }

func (m *ticking) Start(t *actor.Turn) error {
	if err := m.Machine.Start(t); err != nil {
		return err
	}
	_, err := t.Schedule().Cron("* * * * *", "tick", nil)
	return err
}

func (m *ticking) HasCallback(name string) bool { return name == "tick" }

func (m *ticking) Callback(_ context.Context, t *actor.Turn, run alarm.Run, done func(*actor.Turn, error)) {
	m.of.mu.Lock()
	m.of.all[t.ID().Name] = append(m.of.all[t.ID().Name], tick{run.Scheduled, t.Now()})
	m.of.mu.Unlock()
	done(t, nil)
}

func (s *ticks) of(id string) []tick {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// listener is a client that keeps a GET open: it comes back at once when the stream
// ends, and every few seconds all the same.
type listener struct {
	*client
	get *link
	n   int // that it has opened
}

func (l *listener) comeBack() {
	if l.get != nil {
		l.get.gone()
	}
	l.get = l.client.get("")
	l.get.until("an opening", func() bool { return l.get.opening != nil })
	l.n++
}

// Idle deadlines, a cron schedule and clients that come back for ever, on the same
// objects: two sessions, one of which is called once, the other by a call that
// outlasts the idle time-out. What is idle is reclaimed on its own clock, cron is
// punctual to the minute, and the call lives, and is answered.
func TestSessionsWithCronAndClientsThatComeBackForEverI7(t *testing.T) {
	if err := amongTicks(t, seams.Seams{}); err != nil {
		t.Error(err)
	}
}

// What the test above is there for is seen by it.
func TestSessionsWithCronNoticeWhatIsTakenOut(t *testing.T) {
	for _, name := range []string{"no-reassert", "no-release", "rearm-while-idle"} {
		t.Run(name, func(t *testing.T) {
			out, err := seams.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := amongTicks(t, out); err == nil {
				t.Error("nothing is missed")
			} else {
				t.Log(err)
			}
		})
	}
}

func amongTicks(t *testing.T, out seams.Seams) error {
	// The idle deadlines lie between the minutes: cron must not be what wakes for them.
	const idle, long = 4*time.Minute + 30*time.Second, 13 * time.Minute
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	c := clock.NewFake(start)
	cron := &ticks{all: map[string][]tick{}}
	p := &puppets{tools: "silence"}
	p.world = (&world{
		clock: c, seams: out,
		around:      func(m actor.Machine) actor.Machine { return &ticking{m, cron} },
		serverTuned: func(s *session.Server) { s.Plugin, s.IdleTimeout = mcp.PluginFunc(p.make), idle },
	}).begin(t)
	busy, quiet := &listener{client: p.open1()}, &listener{client: p.open1()}
	both := []*listener{busy, quiet}

	call1, call2 := busy.post(call(`1`, "long")), quiet.post(call(`2`, "short"))
	request, runtime := p.nth(1).hears(`"long"`), p.nth(1)
	p.nth(2).answer(p.nth(2).hears(`"short"`), `{}`)
	call2.wait()
	defer func() { runtime.answer(request, `{"at":"last"}`); call1.wait() }() // whatever is missed

	residents := int64(2)
	// pass lets time pass, in steps of ten seconds, and sees each time that all is well.
	pass := func(end time.Duration) error {
		for until := start.Add(end); c.Now().Before(until); {
			c.Advance(10 * time.Second)
			now := c.Now()
			minutes := int(now.Sub(start) / time.Minute)
			settled := func() error {
				for _, l := range both {
					if n := len(cron.of(l.id)); n != minutes {
						return fmt.Errorf("at %v cron has run %d times, want %d", now, n, minutes)
					}
				}
				if n := p.svc.Residents(); n != residents {
					return fmt.Errorf("at %v %d runtimes are resident, want %d", now, n, residents)
				}
				return nil
			}
			if err := p.becomesNil(settled); err != nil {
				return err
			}
			for _, l := range both {
				l.comeBack()
			}
			if err := settled(); err != nil {
				return fmt.Errorf("when the clients have come back: %w", err)
			}
			if call1.until("what is there", func() bool { return true }); end <= long && call1.end != nil {
				return fmt.Errorf("at %v the call has ended: %s", now, call1.text())
			}
		}
		return nil
	}
	steps := []struct {
		until     time.Duration
		residents int64
	}{
		{idle - 10*time.Second, 2}, // within the time-out
		{idle, 1},                  // what is idle is reclaimed on its own clock
		{long, 1},                  // the call lives on
	}
	for _, s := range steps {
		residents = s.residents
		if err := pass(s.until); err != nil {
			return err
		}
	}
	runtime.answer(request, `{"at":"last"}`)
	if got := call1.wait().text(); !strings.Contains(got, `"at":"last"`) {
		return fmt.Errorf("the call is answered %q", got)
	}
	steps = []struct {
		until     time.Duration
		residents int64
	}{{long + idle - 10*time.Second, 1}, {long + idle, 0}, {long + idle + 3*time.Minute, 0}}
	for _, s := range steps {
		residents = s.residents
		if err := pass(s.until); err != nil {
			return err
		}
	}
	for _, l := range both {
		for i, run := range cron.of(l.id) {
			if due := start.Add(time.Duration(i+1) * time.Minute); !run.due.Equal(due) || !run.ran.Equal(due) {
				return fmt.Errorf("run %d of cron was for %v and at %v, want %v", i, run.due, run.ran, due)
			}
		}
		if l.n < 100 {
			return fmt.Errorf("the client has come back %d times", l.n)
		}
		// What is left is cron's: nothing else wants the alarm in the next minute.
		row, err := p.store.Alarm(t.Context(), storage.ID{Class: session.Class, Name: l.id})
		if want := c.Now().Truncate(time.Minute).Add(time.Minute); err != nil || !row.At.Equal(want) {
			return fmt.Errorf("the alarm is %v, want cron's next run at %v: %v", row.At, want, err)
		}
	}
	return nil
}

// becomesNil waits until f has nothing to complain of, and returns what it still has.
func (w *world) becomesNil(f func() error) (err error) {
	for i := range 2000 {
		if err = f(); err == nil {
			return nil
		}
		if i%200 == 199 {
			w.kick()
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// kick has the dispatcher look at the clock again: it may have looked just before
// the test moved it, and armed its timer just after.
func (w *world) kick() {
	id := storage.ID{Class: session.Class, Name: "kick"}
	epoch, err := storage.Claim(w.t.Context(), w.store, id)
	if err == nil {
		err = storage.Commit(w.t.Context(), w.store, &storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{At: time.Unix(1, 0)}})
	}
	if err != nil && !errors.Is(err, storage.ErrStaleEpoch) {
		w.t.Fatal(err)
	}
}
