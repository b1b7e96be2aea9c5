package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// stored is all that storage has of a session, but when it was last used.
func (c *client) stored() (all []string) {
	c.w.t.Helper()
	for e, err := range c.w.store.List(c.w.t.Context(), storage.ID{Class: session.Class, Name: c.id}, storage.Range{}) {
		if err != nil {
			c.w.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%q %q", e.Key, e.Value))
	}
	return all
}

// A runtime that does not know yet that its time is over, or does not care: whatever
// it says, stores or asks after the next incarnation is up, or the next generation,
// reaches neither storage nor a client. Its request has the id, toward the runtime,
// that the next one's has.
func TestNothingOfAnOldRuntimeReachesAnybody(t *testing.T) {
	for cause, lose := range losses {
		t.Run(cause, func(t *testing.T) {
			p := newPuppets(t, "", nil)
			c := p.open1()
			g := c.get("")
			g.until("the GET stream", func() bool { return len(g.frames) > 0 })
			l := c.post(call(`7`, "slow"))
			old := p.nth(1)
			first := old.hears(`"slow"`)
			l.until("the event that primes", func() bool { return len(l.frames) > 0 })
			if err := old.State().Put(t.Context(), "k", []byte("in time")); err != nil {
				t.Fatal(err)
			}
			_ = old.Send(t.Context(), wire.NewNotification("notifications/message", []byte(`{"level":"info","data":"stored"}`)), first.ID())
			l.has("stored") // so the state is durable
			p.pmu.Lock()
			p.slow = 300 * time.Millisecond // it takes its time to close
			p.pmu.Unlock()
			lose(p, c, old)
			l = l.rest().has(`"reason"`).wait()

			// The next incarnation is up; the old runtime is not gone.
			again := c.post(call(`8`, "slow"))
			again.until("the event that primes", func() bool { return len(again.frames) > 0 })
			if len(p.all) > 1 {
				t.Fatal("the next runtime is there already")
			}
			before := c.stored()
			old.haunt(t, first)
			if after := c.stored(); !slices.Equal(before, after) {
				t.Errorf("while it was closing it changed\n%s\nto\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}

			// The next runtime is up as well, and at work.
			next := p.nth(2)
			m := next.hears(`"slow"`)
			if cause != "exited" && m.ID() != first.ID() {
				t.Fatalf("the requests have the ids %s and %s: nothing could be mixed up", first.ID(), m.ID())
			}
			before = c.stored()
			old.haunt(t, first)
			if after := c.stored(); !slices.Equal(before, after) {
				t.Errorf("after it was closed it changed\n%s\nto\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			next.answer(m, `{"by":2}`)
			if got := again.wait().text(); !strings.Contains(got, `"id":8,"result":{"by":2}`) || strings.Contains(got, "ghost") {
				t.Errorf("the next call got %s", got)
			}
			if v, err := next.State().Get(t.Context(), "k"); err != nil || string(v) != "in time" {
				t.Errorf("its state is %q, %v", v, err)
			}
			for _, l := range []*link{g, l} {
				if got := l.until("", func() bool { return true }).text(); strings.Contains(got, "ghost") {
					t.Errorf("a stream got %s", got)
				}
			}
		})
	}
}

// haunt does all that a runtime can do, and must get an error wherever there is one
// to be had.
func (r *puppet) haunt(t *testing.T, first wire.Message) {
	t.Helper()
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"an answer": func() error { return r.Send(ctx, wire.NewResult(first.ID(), []byte(`{"by":"ghost"}`)), "") },
		"progress": func() error {
			return r.Send(ctx, wire.NewNotification("notifications/progress", []byte(`{"progressToken":`+string(first.ID())+`,"progress":1,"message":"ghost"}`)), first.ID())
		},
		"a notification": func() error {
			return r.Send(ctx, wire.NewNotification("notifications/message", []byte(`{"level":"info","data":"ghost"}`)), "")
		},
		"a question": func() error {
			return r.Send(ctx, wire.NewRequest("1", "elicitation/create", []byte(`{"message":"ghost"}`)), first.ID())
		},
		"state put": func() error { return r.State().Put(ctx, "k", []byte("ghost")) },
		"state got": func() error { _, err := r.State().Get(ctx, "k"); return err },
		"state updated": func() error {
			return r.State().Update(ctx, "k", func([]byte) ([]byte, error) { return []byte("ghost"), nil })
		},
		"state deleted": func() error { return r.State().Delete(ctx, "k") },
		"its stream closed": func() error {
			return r.Session.(mcp.StreamCloser).CloseStream(ctx, first.ID(), 0)
		},
	} {
		if err := do(); !errors.Is(err, mcp.ErrReset) {
			t.Errorf("%s: %v, want %v", what, err, mcp.ErrReset)
		}
	}
	r.Exited(errors.New("ghost"))
	time.Sleep(20 * time.Millisecond) // for what would come of it
}

// A question of a runtime that is gone is answered to nobody, and its id is no other's.
func TestAnswerToAQuestionOfADeadRuntime(t *testing.T) {
	ask := func(l *link, r *puppet, id wire.ID) wire.Message {
		t.Helper()
		_ = r.Send(t.Context(), wire.NewRequest("5", "sampling/createMessage", []byte(`{}`)), id)
		l.has("sampling/createMessage")
		m, err := wire.Parse(l.frames[len(l.frames)-1].Data)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for cause, lose := range losses {
		t.Run(cause, func(t *testing.T) {
			p := newPuppets(t, "", nil)
			c := p.open1()
			l := c.post(call(`7`, "slow"))
			dead := ask(l, p.nth(1), p.nth(1).hears(`"slow"`).ID())
			lose(p, c, p.nth(1))
			l.until("the end", func() bool { return l.end != nil })
			l = c.post(call(`8`, "slow"))
			next := p.nth(2)
			m := next.hears(`"slow"`)
			alive := ask(l, next, m.ID())
			if dead.ID() == alive.ID() {
				t.Fatalf("both have the id %s", dead.ID())
			}
			reply := func(q wire.Message, text string) {
				got := c.post(`{"jsonrpc":"2.0","id":` + string(q.ID()) + `,"result":{"text":"` + text + `"}}`).wait()
				if got.opening.Refusal != nil || got.opening.Streaming {
					t.Errorf("the answer to %s was answered %+v", q.ID(), got.opening)
				}
			}
			reply(dead, "late")
			reply(alive, "in time")
			if got := next.hears("in time"); got.ID() != "5" {
				t.Errorf("the runtime was told %s", got)
			}
			for _, r := range p.all {
				if len(r.heard("late")) > 0 {
					t.Error("the late answer reached a runtime")
				}
			}
			next.answer(m, `{}`)
			l.wait()
		})
	}
}

// A plugin that does not heed the build time-out and is ready after it: the client has its
// answer by then, and the runtime is closed like any other.
func TestARuntimeThatIsReadyTooLateIsClosed(t *testing.T) {
	var p *puppets
	closed := make(chan struct{})
	p = newPuppets(t, "", func(s *session.Server) {
		s.BuildTimeout = 50 * time.Millisecond
		s.Plugin = mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
			<-ctx.Done()
			r, err := p.make(ctx, s)
			return lateRuntime{r, closed}, err
		})
	})
	c := &client{p.world, session.NewID(time.Now())}
	if got := c.postAs(caller, true, initialize).wait().text(); !strings.Contains(got, "not ready within the build time-out") {
		t.Errorf("the client was told %s", got)
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("the runtime is still there")
	}
}

type lateRuntime struct {
	mcp.Runtime
	closed chan struct{}
}

func (r lateRuntime) Close(ctx context.Context) error {
	defer close(r.closed)
	return r.Runtime.Close(ctx)
}
