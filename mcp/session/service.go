package session

import (
	"context"
	"errors"
)

// Sessions is what a front needs of the sessions behind it.
type Sessions interface {
	// Send passes an event to a session, activating it when it is at rest. The
	// answer comes on the event's socket. Send fails with ErrUnknown when there is
	// no such session (an event with Create makes it), and with the host's error when
	// the session can't take the event: overloaded, or shutting down. It never blocks
	// for long.
	Send(ctx context.Context, id string, e Event) error
}

// ErrUnknown: no session has this id, or it has ended.
var ErrUnknown = errors.New("no such session")
