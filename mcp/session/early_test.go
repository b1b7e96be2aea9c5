package session_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// stalled is a world of puppets whose disk can be held.
func stalled(t *testing.T, tools string, early session.Early) (p *puppets, hold func(bool)) {
	var held atomic.Bool
	store := onDisk(t, func() {
		for held.Load() {
			time.Sleep(time.Millisecond)
		}
	})
	p = newPuppetsOn(t, store, tools, func(s *session.Server) { s.Early = early })
	t.Cleanup(func() { held.Store(false) })
	return p, held.Store
}

// twice has the tools of a session's runtime become known: at its second call.
func (c *client) twice(r *puppet, known bool) {
	c.w.t.Helper()
	for _, id := range []string{`1`, `2`} {
		l := c.post(call(id, "warm"+id))
		r.answer(r.hears("warm"+id), `{}`)
		l.wait()
		if n := len(r.heard("tools/list")); id == `1` && n > 0 {
			c.w.t.Error("it is asked for its tools at its first call")
		}
	}
	if known {
		r.hears("tools/list")
		time.Sleep(20 * time.Millisecond) // the answer is on its way
	}
}

func TestCallBeginsEarlyWhereItMay(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    session.Early
		tools   string
		message string
		early   bool
	}{
		{"not opted in", session.EarlyNever, readOnly, call(`7`, "slow"), false},
		{"read-only", session.EarlyReadOnly, readOnly, call(`7`, "slow"), true},
		{"among others", session.EarlyReadOnly, `{"name":"slo"},` + readOnly + `,{"name":"slower"}`, call(`7`, "slow"), true},
		{"idempotent, and that is too little", session.EarlyReadOnly, idempotent, call(`7`, "slow"), false},
		{"destructive", session.EarlyReadOnly, destructive, call(`7`, "slow"), false},
		{"no annotations", session.EarlyReadOnly, `{"name":"slow"}`, call(`7`, "slow"), false},
		{"a name that begins like another", session.EarlyReadOnly, `{"name":"slower","annotations":{"readOnlyHint":true}}`, call(`7`, "slow"), false},
		{"a name that ends like another", session.EarlyReadOnly, `{"name":"veryslow","annotations":{"readOnlyHint":true}}`, call(`7`, "slow"), false},
		{"listed twice, and differently", session.EarlyReadOnly, readOnly + "," + destructive, call(`7`, "slow"), false},
		{"no list", session.EarlyReadOnly, "error", call(`7`, "slow"), false},
		{"another method", session.EarlyReadOnly, readOnly, `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"slow"}}`, false},
		{"a task", session.EarlyReadOnly, readOnly, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","task":{}}}`, false},
		{"two names", session.EarlyReadOnly, readOnly, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","name":"other"}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, hold := stalled(t, tc.tools, tc.mode)
			c := p.open1()
			r := p.nth(1)
			c.twice(r, tc.mode != session.EarlyNever)
			hold(true)
			l := c.post(tc.message)
			if !tc.early {
				time.Sleep(30 * time.Millisecond)
				if n := len(r.heard(`"slow"`)); n > 0 {
					t.Error("it has begun, and is not stored")
				}
				hold(false)
			}
			r.answer(r.hears(`"slow"`), `{"by":1}`)
			if tc.early {
				time.Sleep(30 * time.Millisecond)
				if d := l.sock.Take(); d.Opening != nil || len(d.Frames) > 0 || d.End != nil {
					t.Errorf("something has left before it was durable: %+v", d)
				}
				hold(false)
			}
			once(t, l.wait().text(), `"result":{"by":1}`)
		})
	}
}

// What the client has said before arrives before: a call does not overtake what waits for
// the disk.
func TestCallThatBeginsEarlyOvertakesNothing(t *testing.T) {
	p, hold := stalled(t, readOnly+`,{"name":"writes"}`, session.EarlyReadOnly)
	c := p.open1()
	r := p.nth(1)
	c.twice(r, true)
	hold(true)
	first := c.post(call(`7`, "writes"))
	second := c.post(call(`8`, "slow"))
	time.Sleep(30 * time.Millisecond)
	if n := len(r.heard(`"slow"`)); n > 0 {
		t.Error("it has overtaken the call before it")
	}
	hold(false)
	r.answer(r.hears(`"writes"`), `{}`)
	r.answer(r.hears(`"slow"`), `{}`)
	first.wait()
	second.wait()
}

// slow calls the tool of that name. again is what a front does when its socket breaks.
func (c *client) slow() (l *link, again func() *link) {
	c.w.t.Helper()
	m, err := wire.Parse([]byte(call(`7`, "slow")))
	if err != nil {
		c.w.t.Fatal(err)
	}
	post := session.Post{Socket: session.NewSocket(0), Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{m}}
	return c.send(&post, post.Socket), func() *link {
		a := &session.Attach{Socket: session.NewSocket(0), Post: post}
		a.Post.Socket = a.Socket
		return c.send(a, a.Socket)
	}
}

// A reset while the call is being stored: its row lands, and the next incarnation answers
// for it. It does not begin again.
func TestCallThatBeganEarlyIsOwedAfterAReset(t *testing.T) {
	p, hold := stalled(t, readOnly, session.EarlyReadOnly)
	c := p.open1()
	r := p.nth(1)
	c.twice(r, true)
	hold(true)
	l, again := c.slow()
	r.hears(`"slow"`)
	losses["memory_limit"](p, c, r)
	hold(false)
	if end := l.wait().end; end.Kind != session.Broken || l.opening != nil {
		t.Fatalf("opening %+v, end %+v", l.opening, end)
	}
	once(t, again().wait().text(), `"started":true`)
	if p.count() > 1 && len(p.nth(2).heard(`"slow"`)) > 0 {
		t.Error("it was begun again")
	}
}

// A strike that is armed finds the time between a call and its answer: the two do not wait
// for each other then.
func TestStrikeComesBetweenACallAndItsAnswer(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Early = session.EarlyReadOnly })
	c, r := p.open1(), p.nth(1)
	c.twice(r, true)
	if _, err := p.host.Chaos().Arm(actor.Strike{Point: actor.AfterDelivery, Tool: "slow", Cause: actor.MemoryLimit}); err != nil {
		t.Fatal(err)
	}
	l, again := c.slow()
	r.answer(r.hears(`"slow"`), `{}`)
	if end := l.wait().end; end.Kind != session.Broken {
		t.Fatalf("end %+v", end)
	}
	once(t, again().wait().text(), `"started":true`)
}

// A list that has changed is forgotten until it is known again, and so is one of a runtime
// that has ended.
func TestToolsAreForgotten(t *testing.T) {
	for name, change := range map[string]func(p *puppets, c *client) *puppet{
		"the list has changed": func(p *puppets, _ *client) *puppet {
			p.say("silence")
			_ = p.nth(1).Send(t.Context(), wire.NewNotification("notifications/tools/list_changed", nil), "")
			p.within(time.Second, "it is asked again", func() bool { return len(p.nth(1).heard("tools/list")) == 2 })
			return p.nth(1)
		},
		"the runtime has ended": func(p *puppets, c *client) *puppet {
			p.nth(1).Exited(fmt.Errorf("signal: killed"))
			l := c.post(call(`3`, "wakes"))
			p.nth(2).answer(p.nth(2).hears("wakes"), `{}`)
			l.wait()
			return p.nth(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, hold := stalled(t, readOnly, session.EarlyReadOnly)
			c := p.open1()
			c.twice(p.nth(1), true)
			r := change(p, c)
			hold(true)
			l := c.post(call(`7`, "slow"))
			time.Sleep(30 * time.Millisecond)
			if len(r.heard(`"slow"`)) > 0 {
				t.Error("it has begun, and is not stored")
			}
			hold(false)
			r.answer(r.hears(`"slow"`), `{}`)
			l.wait()
		})
	}
}
