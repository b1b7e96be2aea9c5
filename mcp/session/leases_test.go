package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// pass lets time go by.
func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

// asksPerson has the runtime ask a person in the middle of a call, and returns the
// question's id as the client sees it.
func (b *bench) asksPerson(call int64) wire.ID {
	b.do(fromRuntime{gen: b.rt.gen, msg: wire.NewRequest("1", "elicitation/create", []byte(`{}`)), about: numberID(call)})
	return b.approvals[len(b.approvals)-1].ID
}

func (b *bench) reply(id wire.ID, action string) string {
	sock := NewSocket(0)
	m := wire.NewResult(id, fmt.Appendf(nil, `{"action":%q}`, action))
	b.do(&Post{Socket: sock, Caller: Caller{Server: "model"}, Stream: "r" + string(id), Messages: []wire.Message{m}})
	for _, e := range b.out.effects {
		if o, is := e.(openSocket); is {
			return o.opening.Outcome
		}
	}
	return ""
}

// A request or a reply counts as activity, and so does the end of one, however it
// comes about: the idle time begins when nothing is at work any more.
func TestIdleTimeBeginsWhenTheLastWorkEnds(t *testing.T) {
	for name, end := range map[string]func(b *bench, call int64){
		"an answer": func(b *bench, call int64) { b.answer(b.rt.gen, call, `{}`) },
		"a cancellation": func(b *bench, _ int64) {
			b.post("cancel", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		},
		"the ceiling": func(b *bench, _ int64) { b.do(ring{}) },
	} {
		b := newBench(t)
		b.call("s1", "1")
		b.pass(b.cfg.RunningCeiling)
		end(b, b.rt.next)
		if b.rt.phase != ready || len(b.live) != 0 {
			t.Errorf("%s: the phase is %v, %d requests are open", name, b.rt.phase, len(b.live))
		}
		if at := decide(b.look(), b.now); at.do != wait || !at.at.Equal(b.now.Add(b.cfg.IdleTimeout)) {
			t.Errorf("%s: the policy wants %+v, want to wait for %v", name, at, b.cfg.IdleTimeout)
		}
	}
	// A start that takes longer than the idle time-out must not end in a disposal.
	b := newBench(t)
	b.cfg.IdleTimeout = time.Second
	b = &bench{T: t, state: newState("slow", 8, &Service{log: b.log, servers: b.servers}), now: b.now}
	b.post("init", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	b.pass(5 * time.Second)
	b.ready()
	if at := decide(b.look(), b.now); at.do != wait {
		t.Errorf("a runtime that was slow to start is to be %+v as soon as it is there", at)
	}
}

// Within an incarnation leases are measured on a clock that does not jump.
func TestLeasesAreMonotonic(t *testing.T) {
	b := newBench(t)
	b.now = time.Now()
	b.call("s1", "1")
	running := b.look().leases
	b.asksPerson(b.rt.next)
	all := append(running, b.look().leases...)
	for _, l := range all {
		if !strings.Contains(l.until.String(), " m=") {
			t.Errorf("a lease ends at %v, which follows the wall clock", l.until)
		}
	}
	if n := len(all); n != 3 {
		t.Errorf("%d leases", n)
	}
}

// Questions one after the other wait for the paused ceiling in all.
func TestPausedCeilingBoundsAllQuestionsOfARequest(t *testing.T) {
	b := newBench(t)
	b.cfg.ApprovalTimeout, b.cfg.PausedCeiling = 2*time.Second, 5*time.Second
	b.call("s1", "1")
	call := b.rt.next
	for range 2 {
		id := b.asksPerson(call)
		b.pass(1900 * time.Millisecond)
		b.reply(id, "accept")
	}
	began := b.now
	b.asksPerson(call)
	v := decide(b.look(), b.now)
	if left := v.at.Sub(began); left > 1300*time.Millisecond || left < time.Second {
		t.Errorf("after two questions of 1.9 s the third may wait %v, want about 1.2 s", left)
	}
	b.pass(1500 * time.Millisecond)
	if v := decide(b.look(), b.now); v.do != expire {
		t.Errorf("the policy wants %+v", v)
	}
}

func TestAnswersAreToldWhatBecameOfTheQuestion(t *testing.T) {
	b := newBench(t)
	b.cfg.MaxHeld = 2
	b.do(fromRuntime{gen: b.rt.gen, msg: wire.NewRequest("1", "elicitation/create", []byte(`{}`))}) // of no call, and nobody listens
	id := b.approvals[0].ID
	for range b.cfg.MaxHeld + 1 {
		b.do(fromRuntime{gen: b.rt.gen, msg: wire.NewNotification("notifications/message", []byte(`{}`))})
	}
	if got := b.reply(id, "accept"); got != OutcomeUndelivered {
		t.Errorf("the answer to a question that no stream had room for is told %q", got)
	}
	if got := b.reply(`"kalpa-1-1"`, "accept"); got != OutcomeUnknown {
		t.Errorf("the answer to a question that nobody remembers is told %q", got)
	}
	b.call("s1", "1")
	id = b.asksPerson(b.rt.next)
	if got := b.reply(id, strings.Repeat("x", 1<<20)); got != "error" {
		t.Errorf("an action that is none is recorded as %.80q", got)
	}
}

func TestUnusedSessionEndsItsStreams(t *testing.T) {
	b := newBench(t)
	sock := NewSocket(0)
	b.do(&Get{Socket: sock, Caller: Caller{Server: "model"}, Stream: "g1"})
	b.pass(b.cfg.Lifetime + time.Second)
	b.do(ring{})
	if b.has(ends(sock)) < 0 || len(b.sockets) != 0 {
		t.Error("the stream of a session whose lifetime is over stays open")
	}
	if !slices.ContainsFunc(b.out.effects, func(e effect) bool { _, is := e.(closeRuntime); return is }) {
		t.Error("its runtime stays")
	}
}

// A session whose alarm goes off while its server is not hosted has another one: it ends in
// its time once the server is back, also if nobody ever uses it again.
func TestSessionOfAServerThatComesBackEnds(t *testing.T) {
	b := newBench(t)
	b.do(built{gen: b.rt.gen, err: errors.New("it ends")}) // no runtime is left
	hosted := b.servers.all()
	b.servers.servers.Store(&map[string]*Server{})
	b.cfg = nil // as it is read from storage
	for range 40 {
		at := earliest(b.idleDeadline(b.now), b.keepDeadline(b.now))
		if at.IsZero() || at.After(b.now.Add(24*time.Hour)) {
			t.Fatalf("without its server the session looks again at %v, and it is %v", at, b.now)
		}
		b.now = at
		if b.do(ring{}); !b.alive() {
			t.Fatal("without its server the session has ended")
		}
	}
	b.servers.servers.Store(&hosted)
	b.do(ring{})
	if b.alive() {
		t.Error("its server is back, and a session whose lifetime is over goes on")
	}
}
