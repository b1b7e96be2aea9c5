package actor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
	"unsafe"

	"github.com/kalpahost/kalpa/storage"
)

// listener is an object that is told of WebSockets.
type listener struct{ heard chan string }

func (l *listener) WebSocketMessage(_ context.Context, _ *WebSocket, m Message) error {
	l.heard <- m.Text()
	return nil
}

func (l *listener) WebSocketClose(context.Context, *WebSocket, Close) error {
	l.heard <- "closed"
	return nil
}

// listening is a host of one listener, and what wakes it.
func listening(t *testing.T) (h *Host, id storage.ID, heard chan string, wake func() *incarnation) {
	t.Helper()
	store := storage.NewMemory()
	t.Cleanup(func() { store.Close() })
	h, err := NewHost(Options{Store: store, Logger: slog.New(slog.DiscardHandler), EvictAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	heard = make(chan string, 9)
	class := Define("listener", func(context.Context, *State) (*listener, error) { return &listener{heard}, nil })
	poke := Method(class, "poke", func(l *listener, _ context.Context, _ struct{}) (struct{}, error) {
		l.heard <- "poked"
		return struct{}{}, nil
	})
	class.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	id = class.ID("a")
	return h, id, heard, func() *incarnation {
		if _, err := poke.Do(t.Context(), h.Stub(id), struct{}{}); err != nil {
			t.Fatal(err)
		}
		return h.dir.incarnation(id)
	}
}

// The code of an incarnation that was reset may still be running when the next one has
// WebSockets of its own: it can't put one among them, nor set how they answer.
func TestAnIncarnationThatIsOverHasNoWebSockets(t *testing.T) {
	h, id, _, wake := listening(t)
	old := wake()
	if _, err := h.sockets.accept(old, nil); err != nil {
		t.Fatal(err)
	}
	h.Reset(id, Aborted, errors.New("a test"))
	for _, name := range []string{"before the next", "beside the next"} {
		if name == "beside the next" {
			if _, err := h.sockets.accept(wake(), nil); err != nil {
				t.Fatal(err)
			}
		}
		before := len(h.sockets.list(id))
		if _, err := h.sockets.accept(old, nil); CauseOf(err) != Aborted {
			t.Errorf("%s: accepted: %v", name, err)
		}
		if h.sockets.answer(old, &autoResponse{"ping", "pong"}) != nil || h.sockets.answers(id) != nil {
			t.Errorf("%s: it has said how they answer", name)
		}
		if after := len(h.sockets.list(id)); after != before {
			t.Errorf("%s: there are %d WebSockets, and were %d", name, after, before)
		}
	}
}

// What a WebSocket has brought is not told to another incarnation than the one whose it
// is: it was closed with that, and its messages and its close come too late.
func TestWhatComesTooLateIsNotTold(t *testing.T) {
	h, id, heard, wake := listening(t)
	c, err := h.sockets.accept(wake(), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-heard
	tell := func() {
		for _, a := range []*arrival{{c: c, m: Message{Data: []byte("hello")}}, {c: c, closed: &Close{Code: 1006}}} {
			c.waiting++
			if err := h.Send(id, a, nil); err != nil {
				t.Fatal(err)
			}
		}
		wake()
	}
	h.Reset(id, Aborted, errors.New("a test"))
	tell()
	if first := <-heard; first != "poked" {
		t.Errorf("the next incarnation is told %q", first)
	}
	// The same arrivals are told where they are due.
	if c, err = h.sockets.accept(h.dir.incarnation(id), nil); err != nil {
		t.Fatal(err)
	}
	tell()
	for _, want := range []string{"hello", "closed", "poked"} {
		if got := <-heard; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// An address is a part of a request's head, which is garbage when it has been answered.
func TestAnObjectInMemoryKeepsNothingOfTheRequestThatHasNamedIt(t *testing.T) {
	h, id, _, wake := listening(t)
	inc := wake()
	if inc.id != id || unsafe.StringData(inc.id.Name) == unsafe.StringData(id.Name) || unsafe.StringData(inc.id.Class) == unsafe.StringData(id.Class) {
		t.Error("its names are those of who has called it")
	}
	for listed := range h.dir.all() {
		if unsafe.StringData(listed.Name) != unsafe.StringData(inc.id.Name) {
			t.Error("it is listed under another name")
		}
	}
}
