package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/actor/actortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// somebody is a client in a room.
type somebody struct {
	*testing.T
	*websocket.Conn
}

func join(t *testing.T, h *actortest.Host, name string) somebody {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), h.URL+"/objects/room/lobby/socket?name="+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return somebody{t, c}
}

func (s somebody) says(text string) {
	s.Helper()
	if err := s.Write(s.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.Error(err)
	}
}

func (s somebody) hears(all ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	for _, want := range all {
		_, b, err := s.Read(ctx)
		got := string(b)
		var l line
		if json.Unmarshal(b, &l) == nil {
			got = l.Who + ": " + l.Text
		}
		if got != want || err != nil {
			s.Errorf("heard %q, %v, want %q", got, err, want)
		}
	}
}

func TestARoom(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, rooms.Serve())
	ann := join(t, h, "ann")
	ann.hears("ann: came in")
	bob := join(t, h, "bob")
	bob.hears("ann: came in", "bob: came in")
	ann.says("hello")
	bob.hears("ann: hello")
	ann.hears("bob: came in", "ann: hello")
	bob.says("ping")
	bob.hears("pong")
	_ = bob.Close(websocket.StatusNormalClosure, "")
	ann.hears("bob: left")

	// A reset closes the WebSocket and says so; the client comes back to the history.
	h.Reset(rooms.ID("lobby"), actor.MemoryLimit, nil)
	if _, _, err := ann.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("a reset: %v", err)
	}
	join(t, h, "ann").hears("ann: came in", "bob: came in", "ann: hello", "bob: left", "ann: came in")
}

func TestTheHistoryIsBounded(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, rooms.Serve())
	ann := join(t, h, "ann")
	ann.hears("ann: came in")
	var last []string
	for i := range history {
		text := fmt.Sprint(i)
		ann.says(text)
		ann.hears("ann: " + text)
		last = append(last, "ann: "+text)
	}
	join(t, h, "bob").hears(append(last, "bob: came in")...)
}

func TestThePage(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, rooms.Serve())
	for path, want := range map[string]string{"": "200 <!doctype html>", "socket": "426 accept WebSocket room/lobby", "other": "404 404 page not found"} {
		res, err := http.Get(h.URL + "/objects/room/lobby/" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, b); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.60q, want %q", path, got, want)
		}
	}
}

// What one member does keeps nobody out: whoever comes gets the history, however much
// others have tried to say.
func TestNobodyCanMakeTheHistoryTooLong(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	h := actortest.Start(t, rooms.Serve())
	ann := join(t, h, "ann")
	ann.SetReadLimit(1 << 20)
	ann.hears("ann: came in")
	for range history {
		ann.says(strings.Repeat("<", maxLine))
		ann.hears("ann: " + strings.Repeat("<", maxLine))
	}
	ann.says(strings.Repeat("<", maxLine+1)) // is not said
	ann.says("that was it")
	ann.hears("ann: that was it")
	bob := join(t, h, strings.Repeat("b", maxName))
	bob.SetReadLimit(1 << 20)
	for range history - 1 {
		bob.hears("ann: " + strings.Repeat("<", maxLine))
	}
	bob.hears("ann: that was it", strings.Repeat("b", maxName)+": came in")
	_, res, err := websocket.Dial(t.Context(), h.URL+"/objects/room/lobby/socket?name="+strings.Repeat("b", maxName+1), nil)
	if err == nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("a name that is too long: %v %v", res, err)
	}
}
