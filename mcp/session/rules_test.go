package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// The rules of the ledger, in a whole session. Those that one step of the machine
// shows are in ledger_test.go.

// brake is a store that holds batches back, before they are written, while it is
// told to; what is held is given up when the brake is released.
type brake struct {
	storage.Store
	mu   sync.Mutex
	on   bool
	held []func()
}

func (b *brake) Submit(batch *storage.Batch, done func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on {
		b.held = append(b.held, func() { b.Store.Submit(batch, done) })
		return
	}
	b.Store.Submit(batch, done)
}

func (b *brake) set(on bool) {
	b.mu.Lock()
	b.on = on
	held := b.held
	b.held = nil
	b.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (b *brake) holds() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

// braked gives the puppets' world a brake.
func braked(p *puppets) *brake {
	p.shutdown()
	b := &brake{Store: p.store}
	p.store = b
	p.boot()
	return b
}

var unprimed = session.Caller{Server: "model", Version: "2025-06-18"} // its clients know no event that primes

// sent is a POST, to be sent again.
type sent struct {
	*session.Post
	c *client
}

func (c *client) begin(message string) (*link, sent) {
	c.w.t.Helper()
	m, err := wire.Parse([]byte(message))
	if err != nil {
		c.w.t.Fatal(err)
	}
	p := &session.Post{Socket: session.NewSocket(0), Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{m}}
	return c.send(p, p.Socket), sent{p, c}
}

// attach passes the exchange on, as a front does whose socket has broken.
func (s sent) attach(after string) *link {
	s.c.w.t.Helper()
	sock := session.NewSocket(0)
	return s.c.send(&session.Attach{Socket: sock, Post: *s.Post, After: after}, sock)
}

func (l *link) opens() *link {
	l.w.t.Helper()
	return l.until("the opening", func() bool { return l.opening != nil })
}

// silent checks that nothing more comes for a while, which is longer than a GET
// leaves to the front of a POST.
func (l *link) silent(of string) {
	l.w.t.Helper()
	time.Sleep(400 * time.Millisecond)
	if l.until("", func() bool { return true }); strings.Contains(l.text(), of) {
		l.w.t.Errorf("%q came over a stream that must not carry it:\n%s", of, l.text())
	}
}

func (c *client) oid() storage.ID { return storage.ID{Class: session.Class, Name: c.id} }

func (c *client) reset(cause actor.Cause) { c.w.host.Reset(c.oid(), cause, nil) }

// rows are the keys that are stored under a prefix.
func (c *client) rows(prefix string) (keys []string) {
	c.w.t.Helper()
	for e, err := range c.w.store.List(c.w.t.Context(), c.oid(), storage.Range{Prefix: prefix}) {
		if err != nil {
			c.w.t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func progress(m wire.Message, n int) wire.Message {
	return wire.NewNotification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, m.Param(wire.TokenOfRequest), n))
}

// (a) Every frame waits for its commit, notifications too.
func TestFramesWaitForTheirCommitRuleA(t *testing.T) {
	p := newPuppets(t, "", nil)
	b := braked(p)
	c := p.open1()
	l := c.post(call("1", "x"))
	r := p.nth(1)
	m := r.hears("tools/call")
	l.until("the prime", func() bool { return len(l.frames) == 1 })
	b.set(true)
	_ = r.Send(t.Context(), progress(m, 1), m.ID())
	p.within(time.Second, "its commit is under way", func() bool { return b.holds() == 1 })
	l.silent("progress")
	r.answer(m, `{"ok":1}`)
	p.within(time.Second, "its commit is under way", func() bool { return b.holds() == 2 })
	l.silent(`"ok"`)
	b.set(false)
	if l.wait(); len(l.frames) != 3 {
		t.Fatalf("%d frames:\n%s", len(l.frames), l.text())
	}
}

// (a) An id that was given to an event is given to no other, not even when the
// event was lost with its incarnation.
func TestEventIDsAreNeverReusedRuleA(t *testing.T) {
	p := newPuppets(t, "", nil)
	b := braked(p)
	c := p.open1()
	l, post := c.begin(call("1", "x"))
	r := p.nth(1)
	m := r.hears("tools/call")
	_ = r.Send(t.Context(), progress(m, 1), m.ID())
	l.has(`"progress":1`)
	b.set(true)
	_ = r.Send(t.Context(), progress(m, 2), m.ID()) // it has an id, and is not stored
	p.within(time.Second, "its commit is under way", func() bool { return b.holds() == 1 })
	c.reset(actor.Aborted)
	b.set(false)
	before, err := session.ParseEventID(l.frames[len(l.frames)-1].ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		g := post.attach(before.String()).wait()
		if g.opening.Refusal != nil || len(g.frames) != 1 {
			t.Fatalf("opening %+v, %d frames", g.opening, len(g.frames))
		}
		after, err := session.ParseEventID(g.frames[0].ID)
		if err != nil || !before.Less(after) || after.Epoch == before.Epoch {
			t.Fatalf("%v follows %v, of an incarnation that had given out the id after it", after, before)
		}
	}
}

// (b) Clients use one id, and one progress token, twice at once.
func TestSameIDAtOnceIsAnsweredOnEachStreamRuleB(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	r := p.nth(1)
	var links []*link
	var at []wire.Message
	for i := range 3 {
		links = append(links, c.post(call("1", fmt.Sprint("tool", i))))
		at = append(at, r.hears(fmt.Sprint("tool", i)))
	}
	ids := map[wire.ID]bool{}
	for _, m := range at {
		ids[m.ID()] = true
	}
	if len(ids) != 3 {
		t.Fatalf("the runtime was given the ids %v", ids)
	}
	for i, m := range slices.Backward(at) {
		_ = r.Send(t.Context(), progress(m, 100+i), m.ID())
		r.answer(m, fmt.Sprintf(`{"n":%d}`, 200+i))
	}
	for i, l := range links {
		got := l.wait().text()
		for j := range links {
			for _, part := range []string{fmt.Sprintf(`{"progressToken":"tok","progress":%d}`, 100+j), fmt.Sprintf(`"id":1,"result":{"n":%d}`, 200+j)} {
				if strings.Contains(got, part) != (i == j) {
					t.Errorf("stream %d has %s: %v:\n%s", i, part, i != j, got)
				}
			}
		}
	}
}

// (b) What a runtime says of its own requests is rewritten the other way: the id
// that it takes back, and the token under which the client reports progress. A
// token of a runtime that is gone reaches no other.
func TestRuntimesOwnIDsAndTokensAreRewrittenRuleB(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	l := c.post(call("1", "x"))
	r := p.nth(1)
	m := r.hears("tools/call")
	_ = r.Send(t.Context(), wire.NewRequest("1", "sampling/createMessage", []byte(`{"_meta":{"progressToken":1}}`)), m.ID())
	l.has("sampling/createMessage")
	ask, err := wire.Parse(l.frames[len(l.frames)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	token := string(ask.Param(wire.TokenOfRequest))
	if ask.ID() == "1" || token == "1" {
		t.Errorf("the client was given the runtime's own id or token, which the next runtime may use too: %s", ask)
	}
	report := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":5}}`
	c.post(report).wait()
	if got := r.hears("notifications/progress"); string(got.Param(wire.TokenOfProgress)) != "1" {
		t.Errorf("the runtime was told of progress as %s", got)
	}
	_ = r.Send(t.Context(), wire.NewRequest("2", "sampling/takenBack", nil), m.ID())
	l.has("sampling/takenBack")
	taken, err := wire.Parse(l.frames[len(l.frames)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Send(t.Context(), wire.NewNotification("notifications/cancelled", []byte(`{"requestId":2}`)), m.ID())
	l.has("notifications/cancelled")
	if got := l.frames[len(l.frames)-1].Data; !strings.Contains(string(got), `"requestId":`+string(taken.ID())) {
		t.Errorf("the client was told %s", got)
	}
	r.Exited(errors.New("gone"))
	l.wait()
	l = c.post(call("2", "y"))
	next := p.nth(2)
	m = next.hears("tools/call")
	_ = next.Send(t.Context(), wire.NewRequest("1", "sampling/createMessage", []byte(`{"_meta":{"progressToken":1}}`)), m.ID())
	l.has("sampling/createMessage")
	c.post(report).wait()
	c.post(`{"jsonrpc":"2.0","id":` + string(ask.ID()) + `,"result":{}}`).wait()
	c.post(`{"jsonrpc":"2.0","method":"notifications/later"}`).wait()
	next.hears("notifications/later")
	if got := append(next.heard("notifications/progress"), next.heard(`"result":{}`)...); len(got) > 0 {
		t.Errorf("what was meant for a runtime that is gone reached the next: %v", got)
	}
}

// (e) A POST is admitted once, by its stream's id, however often it is passed on.
func TestAdmissionIsIdempotentRuleE(t *testing.T) {
	for _, tc := range []struct {
		name string
		who  session.Caller
		// before is what happens to the POST before it is passed on; it returns the last
		// event that its front has written.
		before func(c *client, p *puppets, l *link, post sent) (after string)
		runs   int    // how often it is executed in all
		want   string // what the client is told in the end; empty for nothing
	}{
		{"it is under way", caller, func(_ *client, p *puppets, l *link, _ sent) string {
			p.nth(1).hears("tools/call")
			return l.has("").frames[0].ID
		}, 1, `"done"`},
		{"it was lost", caller, func(c *client, p *puppets, l *link, _ sent) string {
			p.nth(1).hears("tools/call")
			c.reset(actor.MemoryLimit)
			return ""
		}, 1, `"reason":"memory_limit"`},
		{"it was lost, and a GET was told", unprimed, func(c *client, p *puppets, l *link, _ sent) string {
			p.nth(1).hears("tools/call")
			c.reset(actor.MemoryLimit)
			c.get("").has(`"reason":"memory_limit"`)
			return ""
		}, 1, ""},
		{"it was lost, and a GET was told before another reset", unprimed, func(c *client, p *puppets, l *link, _ sent) string {
			p.nth(1).hears("tools/call")
			c.reset(actor.MemoryLimit)
			c.get("").has(`"reason":"memory_limit"`)
			c.reset(actor.MemoryLimit)
			return ""
		}, 1, ""},
		{"it was cancelled", unprimed, func(c *client, p *puppets, l *link, _ sent) string {
			p.nth(1).hears("tools/call")
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).wait()
			l.wait()
			c.reset(actor.MemoryLimit)
			return ""
		}, 1, ""},
		{"it was delivered to its end", caller, func(c *client, p *puppets, l *link, _ sent) string {
			r := p.nth(1)
			r.answer(r.hears("tools/call"), `{"done":true}`)
			l.wait()
			c.post(call(`"other"`, "ignored"))
			r.hears("ignored") // so its batch has carried what was confirmed
			c.reset(actor.MemoryLimit)
			return l.frames[len(l.frames)-1].ID
		}, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPuppets(t, "", nil)
			p.version = tc.who.Version
			c := p.open1()
			m, _ := wire.Parse([]byte(call("1", "x")))
			post := sent{&session.Post{Socket: session.NewSocket(0), Caller: tc.who, Stream: session.NewStream(), Messages: []wire.Message{m}}, c}
			l := c.send(post.Post, post.Socket)
			after := tc.before(c, p, l, post)
			g := post.attach(after)
			if tc.want == `"done"` {
				r := p.nth(1)
				r.answer(r.hears("tools/call"), `{"done":true}`)
			}
			g.wait()
			if g.end.Kind != session.Final || tc.want != "" && !strings.Contains(g.text(), tc.want) || tc.want == "" && strings.Contains(g.text(), `"id":1`) {
				t.Errorf("passed on, it ended %+v with:\n%s", g.end, g.text())
			}
			runs := 0
			p.pmu.Lock()
			all := p.all
			p.pmu.Unlock()
			for _, r := range all {
				runs += len(r.heard(`"name":"x"`))
			}
			if runs != tc.runs {
				t.Errorf("it was executed %d times", runs)
			}
		})
	}
}

// (e) A POST that a reset has kept from being admitted is admitted once more.
func TestPostThatWasNotAdmittedIsAdmittedOnceMoreRuleE(t *testing.T) {
	p := newPuppets(t, "", nil)
	b := braked(p)
	c := p.open1()
	p.nth(1)
	b.set(true)
	l, post := c.begin(call("1", "x"))
	p.within(time.Second, "its commit is under way", func() bool { return b.holds() == 1 })
	c.reset(actor.CPULimit)
	b.set(false) // and is refused
	if l.wait(); l.end.Kind != session.Broken || l.opening != nil || len(l.frames) > 0 {
		t.Fatalf("before it was admitted, something was said: %+v", l)
	}
	g := post.attach("")
	r := p.nth(2)
	r.answer(r.hears("tools/call"), `{"done":true}`)
	if g.wait(); !strings.Contains(g.text(), `"id":1,"result":{"done":true}`) {
		t.Fatalf("got:\n%s", g.text())
	}
}

// (h) A client that resumes from the mark of the front's last resort knows that
// what it was owed is lost.
func TestMarkOfTheLastResortDischargesSilentlyRuleH(t *testing.T) {
	for name, reset := range map[string]bool{"by the same incarnation": false, "by the next": true} {
		t.Run(name, func(t *testing.T) {
			p := newPuppets(t, "", nil)
			c := p.open1()
			l := c.post(call("1", "x"))
			r := p.nth(1)
			m := r.hears("tools/call")
			_ = r.Send(t.Context(), progress(m, 1), m.ID())
			l.has(`"progress":1`)
			l.gone()
			if reset {
				c.reset(actor.CPULimit)
			}
			last, err := session.ParseEventID(l.frames[len(l.frames)-1].ID)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				g := c.get(last.Told()).wait()
				if g.opening.Refusal != nil || g.opening.Streaming || len(g.frames) > 0 || g.end.Kind != session.Final {
					t.Fatalf("opening %+v, end %+v, frames:\n%s", g.opening, g.end, g.text())
				}
			}
			if rows := c.rows("q/"); len(rows) > 0 {
				t.Errorf("still owed: %v", rows)
			}
			r.answer(m, `{"late":true}`)
			fresh := c.get("")
			fresh.opens().silent(`"id":1`)
		})
	}
}

// (i) started: false is a proof: the runtime has not been given the request.
func TestNotStartedIsAProofRuleI(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	l := c.post(call("1", "resident"))
	p.nth(1).hears("resident")
	c.reset(actor.MemoryLimit)
	if l.wait(); l.end.Kind != session.Broken {
		t.Fatalf("ended %+v", l.end)
	}
	if got := c.get(l.frames[0].ID).wait().text(); !strings.Contains(got, `"started":true`) {
		t.Errorf("a request that the runtime has seen: %s", got)
	}
	p.pmu.Lock()
	p.deaf = true // so that it never is ready
	p.pmu.Unlock()
	l = c.post(call("2", "cold"))
	l.until("the prime", func() bool { return len(l.frames) == 1 })
	p.nth(2).hears("initialize")
	c.reset(actor.MemoryLimit)
	l.wait()
	if got := c.get(l.frames[0].ID).wait().text(); !strings.Contains(got, `"started":false`) {
		t.Errorf("a request that no runtime has seen: %s", got)
	}
	if n := len(p.nth(2).heard("cold")); n > 0 {
		t.Errorf("the runtime has seen it after all")
	}
}

// (k) Nothing is built before what was there is reaped; a client is told of its
// loss long before.
func TestNothingIsBuiltBeforeTheOldIsReapedRuleK(t *testing.T) {
	for name, end := range map[string]func(c *client, r *puppet){
		"it was reset":     func(c *client, _ *puppet) { c.reset(actor.MemoryLimit) },
		"the child exited": func(_ *client, r *puppet) { r.Exited(errors.New("gone")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPuppets(t, "", nil)
			p.slow = 400 * time.Millisecond
			c := p.open1()
			l, post := c.begin(call("1", "x"))
			r := p.nth(1)
			r.hears("tools/call")
			end(c, r)
			begun := time.Now()
			if l.wait(); l.end.Kind == session.Broken {
				l = post.attach(l.frames[len(l.frames)-1].ID).wait()
			}
			if !strings.Contains(l.text(), "-32010") || time.Since(begun) > 300*time.Millisecond {
				t.Errorf("after %v the client was told:\n%s", time.Since(begun), l.text())
			}
			l = c.post(call("2", "y"))
			next := p.nth(2)
			next.answer(next.hears("tools/call"), `{}`)
			l.wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.most != 1 {
				t.Errorf("%d runtimes were there at once", p.most)
			}
		})
	}
}

// (k) A host that stops stores what its runtimes owed as lost before it has ended.
func TestShutdownStoresWhatIsLostRuleK(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	l := c.post(call("1", "x"))
	p.nth(1).hears("tools/call")
	l.until("the prime", func() bool { return len(l.frames) == 1 })
	l.gone()
	p.shutdown()
	if rows := c.rows("q/"); len(rows) > 0 {
		t.Errorf("still owed when the host has ended: %v", rows)
	}
	p.boot()
	if got := c.get(l.frames[0].ID).wait().text(); !strings.Contains(got, `"reason":"shutdown"`) || strings.Count(got, `"id":1`) != 1 {
		t.Errorf("the client was told:\n%s", got)
	}
}

// (l) A fresh GET does not answer for a stream that is attached, nor for an id that
// a live request has.
func TestFreshGetAnswersForTheDeadOnlyRuleL(t *testing.T) {
	t.Run("attached", func(t *testing.T) {
		p := newPuppets(t, "", nil)
		c := p.open1()
		l, post := c.begin(call("1", "x"))
		p.nth(1).hears("tools/call")
		c.reset(actor.CPULimit)
		l.wait()
		again := post.attach(l.frames[0].ID)
		again.mute = true // nothing of it is confirmed
		again.wait()
		c.get("").opens().silent(`"id":1`)
		again.has("-32010")
	})
	t.Run("a live request has the same id", func(t *testing.T) {
		p := newPuppets(t, "", nil)
		p.version = unprimed.Version
		c := p.open1()
		c.postAs(unprimed, false, call("1", "dead"))
		p.nth(1).hears("dead")
		c.reset(actor.CPULimit)
		live := c.postAs(unprimed, false, call("1", "live"))
		r := p.nth(2)
		m := r.hears("live")
		c.get("").opens().silent("-32010")
		r.answer(m, `{"alive":true}`)
		if live.wait(); !strings.Contains(live.text(), `"id":1,"result":{"alive":true}`) {
			t.Fatalf("the live request got:\n%s", live.text())
		}
		c.get("").has(`"reason":"cpu_limit"`)
	})
}

// (m) What is sent to a session that does not exist activates no object.
func TestUnknownSessionActivatesNothingRuleM(t *testing.T) {
	w := newWorld(t, nil)
	id := session.NewID(time.Now())
	m, err := wire.Parse([]byte(call("1", "echo")))
	if err != nil {
		t.Fatal(err)
	}
	sock := session.NewSocket(0)
	post := session.Post{Socket: sock, Caller: caller, Stream: session.NewStream(), Messages: []wire.Message{m}}
	for _, e := range []session.Event{
		&post,
		&session.Get{Socket: sock, Caller: caller, Stream: session.NewStream()},
		&session.Get{Socket: sock, Caller: caller, Stream: session.NewStream(), After: "pabc.1.1"},
		&session.Attach{Socket: sock, Post: post},
		&session.Delete{Socket: sock, Caller: caller},
		&session.Flushed{Socket: sock, Event: "pabc.1.1"},
		&session.Gone{Socket: sock},
	} {
		if err := w.svc.Send(t.Context(), id, e); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%T: %v", e, err)
		}
		if w.host.Active(storage.ID{Class: session.Class, Name: id}) {
			t.Fatalf("%T activated an object", e)
		}
	}
}

// (n) A session that nobody uses ends by its alarm, and leaves nothing.
func TestUnusedSessionEndsRuleN(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.Lifetime = 500 * time.Millisecond })
	c := w.open1()
	g := c.get("")
	g.opens()
	w.within(5*time.Second, "nothing is left", func() bool {
		a, err := w.store.Alarm(t.Context(), c.oid())
		return err == nil && a.At.IsZero() && len(c.rows("")) == 0
	})
	if n := w.svc.Residents(); n != 0 {
		t.Errorf("%d runtimes are left", n)
	}
}
