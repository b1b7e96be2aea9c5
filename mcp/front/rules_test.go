package front

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// The rules of the ledger, as a front keeps them.

// (e) No byte goes out before the session has confirmed that it has the request: not
// the status either, which would promise an answer. Until then a reset leaves the
// client as it was, and the request is passed on under the same stream.
func TestNothingIsSentBeforeAdmissionRuleE(t *testing.T) {
	events := make(chan session.Event, 4)
	s := serve(t, Options{}, func(_ string, e session.Event) error {
		events <- e
		return nil
	})
	answered := make(chan *http.Response, 1)
	go func() { answered <- s.post(ping) }()
	silent := func(when string) {
		t.Helper()
		select {
		case w := <-answered:
			t.Fatalf("%s: status %d was sent", when, w.StatusCode)
		case <-time.After(50 * time.Millisecond):
		}
	}
	post := (<-events).(*session.Post)
	silent("sent to the session")
	post.Socket.End(session.End{Kind: session.Broken, Err: &actor.Error{Cause: actor.MemoryLimit}})
	attach := (<-events).(*session.Attach)
	silent("reset")
	if attach.Post.Stream != post.Stream || len(attach.Post.Messages) != 1 || attach.After != "" {
		t.Errorf("passed on as %+v", attach)
	}
	opened(attach.Socket)
	w := <-answered
	pushed(attach.Socket, "p.2.1", "1", pong)
	final(attach.Socket)
	if b, err := io.ReadAll(w.Body); err != nil || strings.Count(string(b), pong) != 1 {
		t.Errorf("%v: %s", err, b)
	}
}

// (c, h) What the front answers because nobody else does carries the id of the last
// event that the client has, with a mark by which the session knows.
func TestLastResortCarriesItsMarkRuleH(t *testing.T) {
	sockets := make(chan *session.Socket, 4)
	s := serve(t, Options{}, func(_ string, e session.Event) error {
		switch e := e.(type) {
		case *session.Post:
			sockets <- e.Socket
		case *session.Attach:
			sockets <- e.Socket
		}
		return nil
	})
	go func() {
		sock := <-sockets
		opened(sock)
		pushed(sock, "p.1.0", "", "")
		sock.End(session.End{Kind: session.Broken, Err: &actor.Error{Cause: actor.CPULimit}})
		<-sockets // and no word of the next incarnation
		for range 100 {
			s.clock.Advance(20 * time.Millisecond)
			time.Sleep(time.Millisecond)
		}
	}()
	w := s.post(ping)
	var id, last string
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if v, is := strings.CutPrefix(lines.Text(), "id: "); is {
			id = v
		} else if v, is := strings.CutPrefix(lines.Text(), "data: "); is {
			last = v
		}
	}
	e, err := session.ParseEventID(id)
	if err != nil || !session.IsTold(id) || e != (session.EventID{Stream: "p", Epoch: 1}) {
		t.Errorf("the last id is %q", id)
	}
	if !strings.Contains(last, `"id":1,"error":{"code":-32010`) || !strings.Contains(last, `"reason":"cpu_limit"`) {
		t.Errorf("the last event is %s", last)
	}
	if n := s.Stats().LastResorts; n != 1 {
		t.Errorf("%d last resorts are counted", n)
	}
}
