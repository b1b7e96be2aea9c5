package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// expire is what the front of a POST sends when it waits no longer.
func (l *link) expire(stream string) {
	_ = l.w.svc.Send(l.w.t.Context(), l.c.id, &session.Expire{Socket: l.sock, Stream: stream, Why: session.Lost(session.ReasonDeadline)})
}

// streamOf is the stream that a front has minted, as the ids of its events have it.
func (l *link) streamOf() string {
	e, err := session.ParseEventID(l.frames[0].ID)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return e.Stream[1:]
}

// A deadline that races a result: the first of them that is stored is the answer,
// the other is dropped.
func TestTheFirstOfDeadlineAndResultCountsRuleC(t *testing.T) {
	for _, expired := range []bool{false, true} {
		p := newPuppets(t, "", nil)
		c := p.open1()
		l := c.post(call(`7`, "slow"))
		r := p.nth(1)
		m := r.hears("slow")
		l.until("the event that primes", func() bool { return len(l.frames) > 0 })
		want, not := `"result":{"n":1}`, "-32010"
		if expired {
			want, not = `"reason":"deadline"`, `"result"`
			l.expire(l.streamOf())
			r.hears("notifications/cancelled")
			r.answer(m, `{"n":1}`)
		} else {
			r.answer(m, `{"n":1}`)
			l.expire(l.streamOf())
		}
		l.wait()
		again := c.get(l.frames[0].ID).wait() // all that storage has
		for _, got := range []string{l.text(), again.text()} {
			if !strings.Contains(got, want) || strings.Contains(got, not) || strings.Count(got, `"id":7`) != 1 {
				t.Errorf("expired first: %v; got %s", expired, got)
			}
		}
		if l.end.Kind != session.Final {
			t.Errorf("the stream ended %+v", l.end)
		}
	}
}

// Expiring answers what is owed on one stream, all of it, and nothing else.
func TestExpiringConcernsOneStream(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	a, b := c.post(call(`1`, "slow")), c.post(call(`2`, "slow"))
	a.until("prime", func() bool { return len(a.frames) > 0 })
	b.until("prime", func() bool { return len(b.frames) > 0 })
	p.within(time.Second, "both are under way", func() bool { return len(p.nth(1).heard("slow")) == 2 })
	a.expire("no-such-stream")
	a.expire(a.streamOf())
	a.has(`"id":1`).wait()
	for _, m := range p.nth(1).heard("slow") {
		p.nth(1).answer(m, `{}`)
	}
	if got := b.wait().text(); !strings.Contains(got, `"id":2,"result"`) {
		t.Errorf("the other stream got %s", got)
	}
}

// The initialize of a session that is given up leaves no runtime behind (I7, I9).
func TestExpiredInitializeLeavesNoRuntime(t *testing.T) {
	for name, tune := range map[string]func(*session.Server){
		"by its front":   nil,
		"at the ceiling": func(s *session.Server) { s.RunningCeiling = 50 * time.Millisecond },
	} {
		p := newPuppets(t, "", tune)
		p.deaf = true
		c := &client{p.world, session.NewID(time.Now())}
		l := c.postAs(caller, true, initialize)
		p.nth(1).hears("initialize")
		l.until("prime", func() bool { return len(l.frames) > 0 })
		if tune == nil {
			l.expire(l.streamOf())
		}
		l.has(`"reason":"deadline"`).wait()
		p.within(3*time.Second, name+": nothing is resident", func() bool { return p.svc.Residents() == 0 })
	}
}
