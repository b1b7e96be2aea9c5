package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// history is how many lines a room remembers. All of them wait for somebody who comes
// in, and more than 1 MiB must not: so they are bounded, in bytes. JSON may make six
// of one.
const (
	history = 100
	maxLine = 1 << 10
	maxName = 100
)

//go:embed page.html
var page []byte

// room is an object. The host holds its WebSockets: nobody pays for the memory of a
// room in which nobody speaks, however many are in it.
type room struct {
	state *actor.State
	next  int // the number of the next line
}

// line is what the room tells: who came, went or said something.
type line struct {
	Who  string    `json:"who"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// member is what the room keeps with a WebSocket, also while it is out of memory.
type member struct {
	Name string `json:"name"`
}

var rooms = actor.Define("room", func(_ context.Context, s *actor.State) (*room, error) {
	r := &room{state: s}
	for e, err := range s.List(storage.Range{Prefix: "line/", Reverse: true, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(e.Key, "line/%d", &r.next); err != nil {
			return nil, err
		}
		r.next++
	}
	// Answered by the host, without waking the room.
	return r, s.SetAutoResponse("ping", "pong")
})

// ServeHTTP has the page, and at socket?name=NAME the WebSocket that it opens.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	case "/socket":
		if err := r.join(w, req); errors.Is(err, actor.ErrWebSocket) {
			http.Error(w, err.Error(), http.StatusUpgradeRequired)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	default:
		http.NotFound(w, req)
	}
}

func (r *room) join(w http.ResponseWriter, req *http.Request) error {
	name := req.FormValue("name")
	if name == "" {
		name = "somebody"
	}
	if len(name) > maxName {
		http.Error(w, "That name is too long.", http.StatusBadRequest)
		return nil
	}
	ws, err := r.state.AcceptWebSocket(w, req)
	if err != nil {
		return err
	}
	if err := ws.Attach(member{name}); err != nil {
		return err
	}
	for e, err := range r.state.List(storage.Range{Prefix: "line/"}) {
		if err != nil {
			return err
		}
		if err := ws.Send(string(e.Value)); err != nil {
			return err
		}
	}
	return r.tell(name, "came in")
}

// WebSocketMessage is called for what a member says. It may be what wakes the room.
func (r *room) WebSocketMessage(_ context.Context, ws *actor.WebSocket, m actor.Message) error {
	if len(m.Data) > maxLine {
		return fmt.Errorf("a line of %d bytes is not said", len(m.Data)) // is logged
	}
	return r.say(ws, m.Text())
}

// WebSocketClose is called when a member has left.
func (r *room) WebSocketClose(_ context.Context, ws *actor.WebSocket, _ actor.Close) error {
	return r.say(ws, "left")
}

func (r *room) say(ws *actor.WebSocket, text string) error {
	var m member
	if _, err := ws.Attachment(&m); err != nil {
		return err
	}
	return r.tell(m.Name, text)
}

// tell remembers a line and sends it to everybody. It leaves when it is durable: no one
// has read what a crash makes unsaid.
func (r *room) tell(who, text string) error {
	b, err := json.Marshal(line{who, text, time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := r.state.Put(key(r.next), b); err != nil {
		return err
	}
	if old := r.next - history; old >= 0 {
		if err := r.state.Delete(key(old)); err != nil {
			return err
		}
	}
	r.next++
	all, err := r.state.WebSockets()
	if err != nil {
		return err
	}
	for _, ws := range all {
		_ = ws.Send(string(b)) // one that has closed, or is too slow, is about to leave
	}
	return nil
}

func key(n int) string { return fmt.Sprintf("line/%016d", n) }
