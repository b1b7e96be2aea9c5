package actor

import (
	"context"
	"errors"
	"fmt"

	"github.com/kalpahost/kalpa/storage"
)

// MaxDepth is how many calls may wait for one another: an object that calls an
// object that calls an object.
const MaxDepth = 32

var (
	// ErrCycle: the call would wait for itself, since an object that waits for it holds
	// a critical section.
	ErrCycle = errors.New("the call comes back to an object that waits for it in a critical section")
	// ErrTooDeep: more than MaxDepth calls wait for one another.
	ErrTooDeep = fmt.Errorf("more than %d calls wait for one another", MaxDepth)
)

// link is one event of an object in a chain of calls: the code that makes a call
// finds it in its context.
type link struct {
	id    storage.ID
	task  *task
	state *State
	up    *link // whose call it is; nil when it is not an object's
	depth int
}

type linkKey struct{}

func linkOf(ctx context.Context) *link {
	l, _ := ctx.Value(linkKey{}).(*link)
	return l
}

// holder is the State whose baton the caller holds, nil when it holds none.
func (l *link) holder() *State {
	if l == nil || !l.task.turn.open.Load() {
		return nil
	}
	return l.state
}

// admit says whether a call to an object may follow. That of an incarnation that is over
// may not.
func (l *link) admit(id storage.ID) error {
	if l == nil {
		return nil
	}
	if gone := l.state.inc.err(); gone != nil {
		return gone // what its code has written may never be durable
	}
	if l.depth >= MaxDepth {
		return &Error{Op: "call", ID: id, Err: fmt.Errorf("%w: %s", ErrTooDeep, l.path(id)), Hint: "send a message instead of waiting, or let one object do more"}
	}
	for at := l; at != nil; at = at.up {
		if at.id == id && at.task.critical.Load() > 0 {
			return &Error{Op: "call", ID: id, Err: fmt.Errorf("%w: %s", ErrCycle, l.path(id)), Hint: "leave the critical section before calling what calls back"}
		}
	}
	return nil
}

// path names the objects of a chain, those in the middle of a long one left out.
func (l *link) path(to storage.ID) string {
	s := " -> " + to.String()
	const ends = 4
	for at := l; at != nil; at = at.up {
		switch {
		case at.depth > l.depth-ends || at.depth == 1:
			s = at.id.String() + s
			if at.up != nil {
				s = " -> " + s
			}
		case at.depth == l.depth-ends:
			s = "..." + s
			if at.up != nil {
				s = " -> " + s
			}
		}
	}
	return s
}
