package actor

import (
	"time"

	"github.com/kalpahost/kalpa/alarm"
)

// Machine is the strict kind of object: each event is handled in one turn, which
// never waits for anything but the object's own storage. All methods but Idle
// are called in turns.
type Machine interface {
	// Start is the first turn of an incarnation; events wait until it has ended. An
	// error resets the object: the constructor failed.
	Start(t *Turn) error
	// Handle handles one event. A panic resets the object.
	Handle(t *Turn, event any)
	// Alarm runs the alarm. done must be called, in this turn or a later one, with
	// that turn: the alarm's row is completed with its batch, or set to the next retry
	// when err is not nil. What has been set anew meanwhile stays.
	Alarm(t *Turn, info alarm.Info, done func(t *Turn, err error))
	// Idle reports whether the incarnation keeps nothing in memory that storage does
	// not have. Only then is it evicted. It is called between turns, and when it has
	// said no, not before another turn has been.
	Idle() bool
}

// Drain is the event by which a host that shuts down asks an object to come to
// rest before Deadline (zero: no deadline).
type Drain struct{ Deadline time.Time }
