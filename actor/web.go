package actor

import (
	"cmp"
	"fmt"
	"time"
)

// Web bounds what objects take in and give out over HTTP and WebSockets. The zero
// value of each field means its default.
type Web struct {
	// MaxBody bounds the body of a request, in bytes. The host reads it before the
	// object gets the request. Default: 1 MiB.
	MaxBody int64
	// MaxBodies bounds the bodies of all requests that the host holds at a time, in
	// bytes. Default: 64 MiB.
	MaxBodies int64
	// MaxUnsent bounds what waits for one client to take it, in bytes: of a response,
	// whose object awaits at a Write that does not fit, or of a WebSocket, which is
	// closed. Default: 1 MiB.
	MaxUnsent int
	// MaxMessage bounds one message of a WebSocket, in bytes; a client that sends a
	// larger one is closed. When as many bytes of its messages wait for the object, or
	// 16 messages, its connection is not read on. Default: 1 MiB, that of the platform.
	MaxMessage int
	// MaxWebSockets bounds the WebSockets of one object. Default: 32,768, that of the
	// platform.
	MaxWebSockets int
	// Patience is how long a client may take to send the body of a request, or to take
	// what is sent to it, before it is cut off. Default: 30 s.
	Patience time.Duration
	// OriginChecked says that whoever passes requests to the host has seen to it that
	// no page of a foreign origin opens WebSockets. Otherwise those are refused.
	OriginChecked bool
}

func (w *Web) defaults() error {
	if w.MaxBody < 0 || w.MaxBodies < 0 || w.MaxUnsent < 0 || w.MaxMessage < 0 || w.MaxWebSockets < 0 || w.Patience < 0 {
		return fmt.Errorf("actor: what bounds Options.Web must not be negative, got %+v", *w)
	}
	w.MaxBody = cmp.Or(w.MaxBody, 1<<20)
	w.MaxBodies = cmp.Or(w.MaxBodies, 64<<20)
	w.MaxUnsent = cmp.Or(w.MaxUnsent, 1<<20)
	w.MaxMessage = cmp.Or(w.MaxMessage, 1<<20)
	w.MaxWebSockets = cmp.Or(w.MaxWebSockets, 32768)
	w.Patience = cmp.Or(w.Patience, 30*time.Second)
	return nil
}

// incoming is an event that comes in over the network, and knows how the object's
// code takes it: in a task.
type incoming interface {
	enter(t *Turn, obj any, s *State)
}

// out lets f run when everything that the turn has written is durable; in a
// transaction, also what that will write. It is how answers and frames leave: in
// order, and ahead of what was given to After.
func (t *Turn) out(f func()) { t.outs = append(t.outs, f) }

// flush lets out what is out so far, and the turn goes on. What it has written is a
// commit of its own then; in a transaction nothing leaves.
func (s *State) flush(t *Turn) {
	switch {
	case s.nested > 0:
	case t.batch != nil:
		t.end()
		t.again()
	default:
		t.outside()
		t.leave()
	}
}

// outside has what is out leave with the rest.
func (t *Turn) outside() {
	if len(t.outs) > 0 {
		t.after = append(t.outs, t.after...)
		t.outs, t.leaving = nil, nil
	}
}
