package front

import (
	"bufio"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// holding serves with a hold of a minute. The sockets are those of streams on which
// nothing has been said; flushed gets what is confirmed.
func holding(t *testing.T) (s *served, sockets chan *session.Socket, flushed chan string) {
	sockets, flushed = make(chan *session.Socket, 1), make(chan string, 10)
	return serve(t, Options{Hold: time.Minute}, func(_ string, e session.Event) error {
		switch e := e.(type) {
		case *session.Post:
			opened(e.Socket)
			sockets <- e.Socket
		case *session.Flushed:
			flushed <- e.Event
		}
		return nil
	}), sockets, flushed
}

// A quick answer is one piece with the head, and of a known length: one write, and no
// chunks.
func TestAQuickAnswerIsOnePiece(t *testing.T) {
	s, sockets, flushed := holding(t)
	go func() {
		sock := <-sockets
		pushed(sock, "pa.1.1", "1", pong)
		time.Sleep(20 * time.Millisecond) // the answer and the end need not come together
		final(sock)
	}()
	w := s.post(ping)
	const want = "id: pa.1.1\nevent: message\ndata: " + pong + "\n\n"
	if got := read(t, w); got != want || w.ContentLength != int64(len(want)) {
		t.Errorf("%d bytes announced of %q", w.ContentLength, got)
	}
	if got := <-flushed; got != "pa.1.1" || len(flushed) > 0 {
		t.Errorf("%s was confirmed, and %d more", got, len(flushed))
	}
}

// When nothing is said in time, the client is told that its request is accepted.
func TestTheHeadIsHeldForAWhileOnly(t *testing.T) {
	s, sockets, flushed := holding(t)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				s.clock.Advance(time.Minute / 10)
			}
		}
	}()
	w := s.post(ping)
	close(done)
	sock := <-sockets
	if len(flushed) > 0 {
		t.Errorf("%s was confirmed", <-flushed)
	}
	pushed(sock, "pa.1.1", "1", pong)
	final(sock)
	if got := read(t, w); got != "id: pa.1.1\nevent: message\ndata: "+pong+"\n\n" {
		t.Errorf("got %q", got)
	}
}

// What a session says before its answer is not held: neither a message nor an id from
// which the client can resume.
func TestWhatIsSaidIsNotHeld(t *testing.T) {
	for data, want := range map[string]string{note: "id: pa.1.0\nevent: message\ndata: " + note + "\n", "": "id: pa.1.0\ndata: \n"} {
		s, sockets, flushed := holding(t)
		go func() { pushed(<-sockets, "pa.1.0", "", data) }()
		w := s.post(ping)
		defer w.Body.Close()
		if got := block(t, bufio.NewReader(w.Body)); got != want {
			t.Errorf("got %q", got)
		}
		if got := <-flushed; got != "pa.1.0" {
			t.Errorf("%s was confirmed", got)
		}
	}
}
