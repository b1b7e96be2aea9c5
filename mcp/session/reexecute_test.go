package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// The ways in which a runtime loses what it is at work on.
var losses = map[string]func(p *puppets, c *client, r *puppet){
	"memory_limit": func(p *puppets, c *client, _ *puppet) {
		p.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.MemoryLimit, nil)
	},
	"exited": func(_ *puppets, _ *client, r *puppet) { r.Exited(errors.New("signal: killed")) },
}

const (
	readOnly    = `{"name":"slow","annotations":{"readOnlyHint":true}}`
	idempotent  = `{"name":"slow","annotations":{"readOnlyHint":false,"idempotentHint":true}}`
	destructive = `{"name":"slow","annotations":{"destructiveHint":true}}`
)

// rest is what an exchange brings from here on: on its own socket, or where that
// broke with its incarnation, on the one with which its client comes back.
func (l *link) rest() *link {
	l.w.t.Helper()
	l.until("the end, or an answer", func() bool { return l.end != nil })
	if l.end.Kind == session.Final {
		return l
	}
	return l.c.get(l.frames[0].ID)
}

// call opens a session whose tools are known and makes a call that is not answered.
func (p *puppets) call(message string) (*client, *link, wire.Message) {
	p.t.Helper()
	c := p.open1()
	if p.asks {
		last := strings.Count(p.tools, "|")
		p.within(5*time.Second, "its tools are known", func() bool { return len(p.nth(1).heard("tools/list")) > last })
	}
	l := c.post(message)
	m := p.nth(1).hears(`"slow"`)
	l.until("the event that primes", func() bool { return len(l.frames) > 0 })
	return c, l, m
}

// once fails unless a request was answered once, with this.
func once(t *testing.T, text, want string) {
	t.Helper()
	if n := strings.Count(text, `"id":7,`); n != 1 || !strings.Contains(text, want) {
		t.Errorf("answered %d times, want once with %s; got\n%s", n, want, text)
	}
}

func TestLostCallIsRunAgainWhereItMay(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    session.Reexecute
		tools   string
		message string
		again   bool
	}{
		{"not opted in", session.ReexecuteNever, readOnly, call(`7`, "slow"), false},
		{"read-only", session.ReexecuteReadOnly, readOnly, call(`7`, "slow"), true},
		{"idempotent, and that is too much", session.ReexecuteReadOnly, idempotent, call(`7`, "slow"), false},
		{"idempotent", session.ReexecuteIdempotent, idempotent, call(`7`, "slow"), true},
		{"read-only, which is more than asked", session.ReexecuteIdempotent, readOnly, call(`7`, "slow"), true},
		{"destructive", session.ReexecuteIdempotent, destructive, call(`7`, "slow"), false},
		{"no annotations", session.ReexecuteIdempotent, `{"name":"slow"}`, call(`7`, "slow"), false},
		{"hints that are no booleans", session.ReexecuteIdempotent, `{"name":"slow","annotations":{"readOnlyHint":"true","idempotentHint":1}}`, call(`7`, "slow"), false},
		{"another tool's annotations", session.ReexecuteIdempotent, `{"name":"slower","annotations":{"readOnlyHint":true}}`, call(`7`, "slow"), false},
		{"listed twice, and differently", session.ReexecuteIdempotent, readOnly + "," + destructive, call(`7`, "slow"), false},
		{"on the last page", session.ReexecuteIdempotent, `{"name":"a"}|{"name":"b"}|` + readOnly, call(`7`, "slow"), true},
		{"no list", session.ReexecuteIdempotent, "error", call(`7`, "slow"), false},
		{"another method", session.ReexecuteIdempotent, readOnly, `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"slow"}}`, false},
		{"a task", session.ReexecuteIdempotent, readOnly, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","task":{}}}`, false},
		{"two names", session.ReexecuteIdempotent, readOnly, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","name":"other"}}`, false},
		{"too large to keep", session.ReexecuteIdempotent, readOnly, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","pad":"` + strings.Repeat("x", 1<<20) + `"}}`, false},
	} {
		for cause, lose := range losses {
			t.Run(tc.name+", "+cause, func(t *testing.T) {
				p := newPuppets(t, tc.tools, func(s *session.Server) { s.Reexecute = tc.mode })
				p.asks = tc.mode != session.ReexecuteNever
				c, l, first := p.call(tc.message)
				lose(p, c, p.nth(1))
				if !tc.again {
					once(t, l.rest().wait().text(), fmt.Sprintf(`"reason":%q`, cause))
					next := c.post(call(`8`, "next"))
					m := p.nth(2).hears(`"next"`)
					p.nth(2).answer(m, `{}`)
					next.wait()
					if len(p.nth(2).heard(`"slow"`)) > 0 {
						t.Error("it was run again all the same")
					}
					return
				}
				if cause != "exited" {
					l = l.rest() // its client comes back; so does the session
				}
				m := p.nth(2).hears(`"slow"`)
				if string(m.WithID(first.ID()).WithParam(wire.TokenOfRequest, first.Param(wire.TokenOfRequest)).Bytes()) != first.String() {
					t.Errorf("run again as %s, was %s", m, first)
				}
				p.nth(1).answer(first, `{"by":1}`) // too late
				p.nth(2).answer(m, `{"by":2}`)
				once(t, l.wait().text(), `"result":{"by":2}`)
			})
		}
	}
}

func TestCallThatIsLostTwiceIsAnswered(t *testing.T) {
	for first, lose := range losses {
		for second, loseAgain := range losses {
			t.Run(first+", then "+second, func(t *testing.T) {
				p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
				p.asks = true
				c, l, _ := p.call(call(`7`, "slow"))
				lose(p, c, p.nth(1))
				if first != "exited" {
					l = l.rest() // its client comes back; so does the session
					l.until("the stream is there again", func() bool { return len(l.frames) > 0 })
				}
				p.nth(2).hears(`"slow"`)
				loseAgain(p, c, p.nth(2))
				got := l.rest().wait().text()
				once(t, got, fmt.Sprintf(`"reason":%q`, second))
				if !strings.Contains(got, `"started":true`) {
					t.Errorf("nothing says that it may have been executed: %s", got)
				}
				next := c.post(call(`8`, "next"))
				m := p.nth(3).hears(`"next"`)
				p.nth(3).answer(m, `{}`)
				next.wait()
				if len(p.nth(3).heard(`"slow"`)) > 0 {
					t.Error("it was run a third time")
				}
			})
		}
	}
}

// What the next generation says about the tool counts: it may be another release.
func TestTheNextGenerationMustAllowTheRepetition(t *testing.T) {
	for name, tools := range map[string]string{"destructive now": destructive, "gone": "", "no list": "error"} {
		t.Run(name, func(t *testing.T) {
			p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
			p.asks = true
			_, l, _ := p.call(call(`7`, "slow"))
			p.pmu.Lock()
			p.tools = tools
			p.pmu.Unlock()
			p.nth(1).Exited(errors.New("signal: killed"))
			once(t, l.wait().text(), `"reason":"exited","retryable":true,"started":true`)
			if len(p.nth(2).heard(`"slow"`)) > 0 {
				t.Error("it was run again all the same")
			}
		})
	}
}

func TestChangedToolIsNotRepeated(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
	c := p.open1()
	r := p.nth(1)
	r.hears("tools/list")
	p.pmu.Lock()
	p.tools = "silence" // what it says now is not yet known
	p.pmu.Unlock()
	_ = r.Send(t.Context(), wire.NewNotification("notifications/tools/list_changed", nil), "")
	p.within(time.Second, "it is asked again", func() bool { return len(r.heard("tools/list")) == 2 })
	l := c.post(call(`7`, "slow"))
	r.hears(`"slow"`)
	p.pmu.Lock()
	p.tools = readOnly
	p.pmu.Unlock()
	r.Exited(errors.New("signal: killed"))
	once(t, l.wait().text(), `"reason":"exited"`)
}

// Who opts in while a server is up has it asked when its list has changed.
func TestOptingInLaterAsksWhenTheListHasChanged(t *testing.T) {
	p := newPuppets(t, readOnly, nil)
	p.open1()
	r := p.nth(1)
	if err := p.svc.Configure([]session.Server{{Name: "model", Plugin: mcp.PluginFunc(p.make), Reexecute: session.ReexecuteReadOnly}}); err != nil {
		t.Fatal(err)
	}
	_ = r.Send(t.Context(), wire.NewNotification("notifications/tools/list_changed", nil), "")
	r.hears("tools/list")
}

// A call that is run again has its ceiling, and so has one whose generation does not
// say whether it may be.
func TestRepetitionHasADeadline(t *testing.T) {
	for _, tools := range []string{readOnly, "silence"} {
		const ceiling = 600 * time.Millisecond
		p := newPuppets(t, readOnly, func(s *session.Server) {
			s.Reexecute, s.RunningCeiling = session.ReexecuteReadOnly, ceiling
		})
		p.asks = true
		_, l, _ := p.call(call(`7`, "slow"))
		p.pmu.Lock()
		p.tools = tools
		p.pmu.Unlock()
		time.Sleep(ceiling / 2)
		p.nth(1).Exited(errors.New("signal: killed"))
		once(t, l.wait().text(), `"reason":"deadline"`)
	}
}

func TestProgressOfBothRunsIsTheClients(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
	p.asks = true
	_, l, m := p.call(call(`7`, "slow"))
	report := func(r *puppet, m wire.Message, n int) {
		_ = r.Send(t.Context(), wire.NewNotification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, m.Param(wire.TokenOfRequest), n)), "")
	}
	report(p.nth(1), m, 1)
	p.nth(1).Exited(errors.New("signal: killed"))
	m = p.nth(2).hears(`"slow"`)
	report(p.nth(2), m, 2)
	p.nth(2).answer(m, `{}`)
	got := l.wait().text()
	once(t, got, `"result"`)
	for _, want := range []string{`{"progressToken":"tok","progress":1}`, `{"progressToken":"tok","progress":2}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestRepetitionCanBeCancelled(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
	p.asks = true
	c, l, _ := p.call(call(`7`, "slow"))
	p.nth(1).Exited(errors.New("signal: killed"))
	m := p.nth(2).hears(`"slow"`)
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).wait()
	if got := p.nth(2).hears("notifications/cancelled"); got.ParamString("requestId") != "" && string(got.Param("requestId")) != string(m.ID()) {
		t.Errorf("the runtime was told %s", got)
	}
	if got := l.wait().text(); strings.Contains(got, `"id":7`) {
		t.Errorf("answered: %s", got)
	}
}

// A runtime that can't be built answers the call, and does not say that it never ran.
func TestRepetitionWithoutARuntimeIsLost(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute, s.BuildTimeout = session.ReexecuteReadOnly, 200*time.Millisecond })
	p.asks = true
	_, l, _ := p.call(call(`7`, "slow"))
	p.pmu.Lock()
	p.deaf = true
	p.pmu.Unlock()
	p.nth(1).Exited(errors.New("signal: killed"))
	once(t, l.wait().text(), `"code":-32010`)
	if !strings.Contains(l.text(), `"started":true`) {
		t.Errorf("got %s", l.text())
	}
}

// Nothing is repeated while what lost it can still act on the world (rule k).
func TestRepetitionWaitsUntilTheOldRuntimeIsReapedRuleK(t *testing.T) {
	for cause, lose := range losses {
		t.Run(cause, func(t *testing.T) {
			p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
			p.asks = true
			c, l, _ := p.call(call(`7`, "slow"))
			p.pmu.Lock()
			p.slow = 300 * time.Millisecond
			p.pmu.Unlock()
			lose(p, c, p.nth(1))
			g := c.get(l.frames[0].ID) // wakes the session
			m := p.nth(2).hears(`"slow"`)
			p.nth(2).answer(m, `{}`)
			g.wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.most > 1 {
				t.Errorf("%d runtimes of one session at once", p.most)
			}
		})
	}
}

// Who has not opted in pays nothing: no request of the session's own, no message in the ledger.
func TestWithoutOptingInNothingIsAskedOrKept(t *testing.T) {
	p := newPuppets(t, readOnly, nil)
	c, l, m := p.call(call(`7`, "slow"))
	defer l.wait()
	defer p.nth(1).answer(m, `{}`)
	if n := len(p.nth(1).heard("tools/list")); n > 0 {
		t.Errorf("asked for its tools %d times", n)
	}
	for e := range p.store.List(t.Context(), storage.ID{Class: session.Class, Name: c.id}, storage.Range{Prefix: "q/"}) {
		if strings.Contains(string(e.Value), "kept") {
			t.Errorf("kept: %s", e.Value)
		}
	}
}

// A cold call is kept as well: what an earlier generation said is remembered.
func TestColdCallIsKept(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Reexecute = session.ReexecuteReadOnly })
	c := p.open1()
	p.nth(1).hears("tools/list")
	p.reboot()
	p.pmu.Lock()
	p.deaf = true // the call waits for the handshake
	p.pmu.Unlock()
	l := c.post(call(`7`, "slow"))
	p.nth(2).hears("initialize")
	l.until("the event that primes", func() bool { return len(l.frames) > 0 })
	p.pmu.Lock()
	p.deaf = false
	p.pmu.Unlock()
	losses["memory_limit"](p, c, p.nth(2))
	l = l.rest()
	m := p.nth(3).hears(`"slow"`)
	p.nth(3).answer(m, `{}`)
	once(t, l.wait().text(), `"result"`)
}
