package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// older is a caller whose clients know no priming event: a stream without events
// gives them nothing to resume from.
var older = session.Caller{Server: "model", Version: "2025-06-18"}

// A GET that its front passes on to the next incarnation is the stream that it was:
// what is confirmed on it is not told again.
func TestAGetThatIsPassedOnIsOneStreamI11(t *testing.T) {
	w := newWorld(t, nil)
	w.version = older.Version
	c := w.open1()
	l := c.postAs(older, false, call(`1`, "hang"))
	l.until("opening", func() bool { return l.opening != nil })
	l.gone()
	get := &session.Get{Socket: session.NewSocket(0), Caller: older, Stream: session.NewStream()}
	g := c.send(get, get.Socket)
	g.until("opening", func() bool { return g.opening != nil })
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.CPULimit, nil)
	g.wait()

	again := *get
	again.Socket = session.NewSocket(0)
	g = c.send(&again, again.Socket)
	g.has(`"reason":"cpu_limit"`)
	g.gone()
	c.hears(c.get(""), "cpu_limit", false)
}

// What a client has no other way to learn reaches it on the GET that it resumes, as
// it does on a new one.
func TestLostAnswersReachAResumedGetI1(t *testing.T) {
	w := newWorld(t, nil)
	w.version = older.Version
	c := w.open1()
	g := c.get("")
	c.post(call(`0`, "log")).wait()
	g.has("list_changed")
	last := g.frames[len(g.frames)-1].ID
	l := c.postAs(older, false, call(`1`, "hang"))
	l.until("opening", func() bool { return l.opening != nil })
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.CPULimit, nil)
	g = c.get(last)
	g.has(`"reason":"cpu_limit"`)
	if strings.Contains(g.text(), "list_changed") {
		t.Errorf("what the client had is told again: %s", g.text())
	}
	g.gone()
	c.hears(c.get(""), "cpu_limit", false)
}

// A client that opens a GET just when its session was reset does not take the answer
// away from its POST, whose front is about to pass it on; and what was passed on once
// is not taken for new (rule e).
func TestAGetDoesNotOutrunTheFrontOfAPost(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t, nil)
		c := w.open1()
		hang, err := wire.Parse([]byte(call(`1`, "hang")))
		if err != nil {
			t.Fatal(err)
		}
		p := &session.Post{Socket: session.NewSocket(0), Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{hang}}
		l := c.send(p, p.Socket)
		l.until("opening", func() bool { return l.opening != nil })
		w.within(time.Second, "delivered", func() bool { return w.saw("hang") == 1 })
		w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.CPULimit, nil)
		l.wait()
		g := c.get("")
		g.until("opening", func() bool { return g.opening != nil })
		if late {
			g.has(`"reason":"cpu_limit"`)
		}
		a := &session.Attach{Socket: session.NewSocket(0), Post: *p}
		again := c.send(a, a.Socket).wait()
		if told := strings.Contains(again.text(), "cpu_limit"); told == late || again.end.Kind != session.Final {
			t.Errorf("late: %v: the POST ends %+v with %q", late, again.end, again.text())
		}
		c.hears(g, "cpu_limit", late)
		if n := w.saw("hang"); n != 1 {
			t.Errorf("late: %v: the request was executed %d times", late, n)
		}
	}
}

// hears checks whether a GET brings something within a while.
func (c *client) hears(g *link, what string, want bool) {
	c.w.t.Helper()
	g.until("opening", func() bool { return g.opening != nil })
	time.Sleep(50 * time.Millisecond)
	if g.until("", func() bool { return true }); strings.Contains(g.text(), what) != want {
		c.w.t.Errorf("the GET brings %q, want %s: %v", g.text(), what, want)
	}
}
