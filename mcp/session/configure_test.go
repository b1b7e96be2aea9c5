package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// tryAs asks for a session, and says whether there was room.
func (w *world) tryAs(subject string) error {
	w.t.Helper()
	m, err := wire.Parse([]byte(initialize))
	if err != nil {
		w.t.Fatal(err)
	}
	sock := session.NewSocket(0)
	who := caller
	who.Principal = mcp.Principal{Subject: subject}
	p := &session.Post{Socket: sock, Caller: who, Stream: session.NewStream(), Create: true, Messages: []wire.Message{m}}
	id := session.NewID(time.Now())
	if err := w.svc.Send(w.t.Context(), id, p); err != nil {
		return err
	}
	l := &link{w: w, c: &client{w, id}, sock: sock}
	l.wait()
	return nil
}

// A server, and each caller of it that has a name, may have so many sessions, and no
// more after a restart; a session that has ended makes room.
func TestSessionsAreBoundedByServerAndByCaller(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.MaxSessions, s.MaxPerCaller = 5, 2 })
	for range 2 {
		if err := w.tryAs("ada"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.tryAs("ada"); !errors.Is(err, session.ErrTooMany) || !strings.Contains(err.Error(), "you have 2") {
		t.Errorf("ada's third: %v", err)
	}
	if err := w.tryAs("bob"); err != nil {
		t.Errorf("bob's first: %v", err)
	}
	nameless := w.open1()
	if err := w.tryAs(""); err != nil {
		t.Errorf("one without a name: %v", err)
	}
	if err := w.tryAs("eve"); !errors.Is(err, session.ErrTooMany) || !strings.Contains(err.Error(), "has 5") {
		t.Errorf("the sixth of the server: %v", err)
	}

	w.reboot()
	if err := session.Count(w.svc); err != nil {
		t.Fatal(err)
	}
	if err := w.tryAs("ada"); !errors.Is(err, session.ErrTooMany) {
		t.Errorf("ada's third, after a restart: %v", err)
	}
	sock := session.NewSocket(0)
	nameless.send(&session.Delete{Socket: sock, Caller: caller}, sock).wait()
	w.within(30*time.Second, "room after the end of one", func() bool { return w.tryAs("eve") == nil })
}

// What is configured while sessions are open holds from then on: limits at once, what
// runs from the next runtime on; a server that is gone is refused, and there again when
// it is back. Sessions outlive all of it.
func TestAServerIsConfiguredWhileItsSessionsAreOpen(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	server := func(change func(*session.Server)) []session.Server {
		s := session.Server{Name: "model", Plugin: mcp.PluginFunc(w.build)}
		if change != nil {
			change(&s)
		}
		return []session.Server{s}
	}
	configure := func(servers []session.Server) {
		t.Helper()
		if err := w.svc.Configure(servers); err != nil {
			t.Fatal(err)
		}
	}
	configure(nil)
	l := c.post(call("1", "echo"))
	if l.wait(); l.opening.Refusal == nil || l.opening.Refusal.Status != 503 {
		t.Errorf("a server that is gone: %+v", l.opening)
	}
	configure(server(nil))
	c.post(call("2", "echo")).wait().has(`"id":2,"result"`)
	if err := w.svc.Configure(server(func(s *session.Server) { s.MaxOwed = -1 })); err == nil {
		t.Error("what is wrong is taken")
	}
	built, _ := w.runtimes()
	configure(server(func(s *session.Server) { s.IdleTimeout = time.Millisecond }))
	c.post(call("3", "echo")).wait().has(`"id":3,"result"`)
	w.within(30*time.Second, "the end of the idle runtime", func() bool { _, open := w.runtimes(); return open == 0 })
	failed := errors.New("the new one")
	configure(server(func(s *session.Server) {
		s.Plugin = mcp.PluginFunc(func(context.Context, mcp.Session) (mcp.Runtime, error) { return nil, failed })
	}))
	c.post(call("4", "echo")).wait().has("the new one")
	configure(server(nil))
	c.post(call("5", "echo")).wait().has(`"id":5,"result"`)
	if again, _ := w.runtimes(); again != built+1 {
		t.Errorf("%d runtimes were built, want %d", again, built+1)
	}
}
