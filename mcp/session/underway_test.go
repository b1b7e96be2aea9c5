package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// waiting is how many requests are under way on the server, by the gauge.
func (o *observed) waiting() int64 { return o.figures("kalpa.mcp.requests.waiting")["server=model"] }

// comesTo waits until so many are.
func (o *observed) comesTo(n int64) {
	o.t.Helper()
	o.within(10*time.Second, fmt.Sprintf("%d requests wait", n), func() bool { return o.waiting() == n })
}

// full fails unless a POST is refused because the server has enough to do.
func (o *observed) full(l *link) {
	o.t.Helper()
	l.wait()
	if no := l.opening.Refusal; no == nil || no.Status != 503 || !strings.Contains(no.Body.String(), `2 requests wait for an answer from the server \"model\"`) || !strings.Contains(no.Body.String(), "send it again") {
		o.t.Errorf("beyond the limit: %+v, frames %s", l.opening, l.text())
	}
}

// The requests of a server are bounded over all its sessions (I12). One too many is
// refused, counted and not executed; those under way go on, and so does what needs no
// answer. An answer makes room.
func TestRequestsAreBoundedByServer(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.MaxRequests = 2 })
	if got := o.figures("kalpa.mcp.requests.waiting"); len(got) != 1 || o.waiting() != 0 {
		t.Errorf("before anything was asked: %v", got)
	}
	a, b := o.open1(), o.open1()
	one, two := o.hang(a, 1), o.hang(a, 2)
	o.full(b.post(call(`3`, "echo")))
	o.full(a.post(call(`4`, "echo")))
	if o.saw(`"echo"`) != 0 {
		t.Error("a refused call was executed")
	}
	if got := o.figures("kalpa.mcp.refusals"); len(got) != 1 || got["limit=max_requests,server=model"] != 2 {
		t.Errorf("the refusals: %v", got)
	}
	if o.waiting() != 2 {
		t.Errorf("%d wait, want 2", o.waiting())
	}
	a.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).wait()
	one.wait()
	if got := b.post(call(`5`, "echo")).wait().text(); !strings.Contains(got, `"id":5,"result"`) {
		t.Errorf("with room again: %s", got)
	}
	if two.sock.Take().End != nil {
		t.Error("a request that was under way has ended")
	}
	o.comesTo(1)
}

// What counts is whether a request is under way, and not whether its client is there.
func TestRequestsCountWithoutTheirClient(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.MaxRequests = 2 })
	a, b := o.open1(), o.open1()
	for i := range 2 {
		o.hang(a, i+1).gone()
	}
	o.full(b.post(call(`3`, "echo")))
	// What a reset has ended is not under way any more, whoever hears of it.
	o.host.Reset(storage.ID{Class: session.Class, Name: a.id}, actor.MemoryLimit, nil)
	o.comesTo(0)
	if got := b.post(call(`4`, "echo")).wait().text(); !strings.Contains(got, `"id":4,"result"`) {
		t.Errorf("after the reset: %s", got)
	}
	o.comesTo(0)
}

// An initialize is a request as well. One that is refused leaves no session behind.
func TestARefusedInitializeLeavesNoSession(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.MaxRequests, s.MaxSessions = 2, 3 })
	a := o.open1()
	one, _ := o.hang(a, 1), o.hang(a, 2)
	for range 5 { // more often than there may be sessions
		c := &client{o.world, session.NewID(time.Now())}
		o.full(c.postAs(caller, true, initialize))
		row, err := o.store.Get(t.Context(), storage.ID{Class: session.Class, Name: c.id}, "meta")
		if err != nil || row != nil {
			t.Errorf("it has left %s, %v", row, err)
		}
	}
	a.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).wait()
	one.wait()
	o.open1()
}

// Lowering the limit ends none of those that are beyond it.
func TestLoweringTheLimitEndsNothing(t *testing.T) {
	o := newObserved(t, func(s *session.Server) { s.MaxRequests = 3 })
	a := o.open1()
	one := o.hang(a, 1)
	o.hang(a, 2)
	srv := session.Server{Name: "model", Plugin: mcp.PluginFunc(o.build), MaxRequests: 1}
	if err := o.svc.Configure([]session.Server{srv}); err != nil {
		t.Fatal(err)
	}
	o.full(a.post(call(`3`, "echo")))
	if outcome := a.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`).wait().opening; outcome.Refusal != nil {
		t.Errorf("a notification is refused: %s", outcome.Refusal.Body)
	}
	if one.sock.Take().End != nil || o.waiting() != 2 {
		t.Errorf("of two that were under way %d are", o.waiting())
	}
}
