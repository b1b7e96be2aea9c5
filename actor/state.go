package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// State is an object's own side of the host: its storage, its alarm, and the
// baton that makes it single-threaded. Its methods belong to the object's code:
// they fail with ErrNoTurn when another goroutine calls them.
type State struct {
	inc *incarnation

	turn *Turn // of the holder of the baton
	task *task // the holder
	// nested counts the transactions that the holder is in, one in the other.
	nested     int32
	waiting    int32   // tasks that have begun and not ended
	background int32   // those of them that WaitUntil has begun
	once       []*call // those of them that have an identity
}

// ErrNoTurn: a method of State was called by who does not hold the baton.
var ErrNoTurn = errors.New("not in a turn of the object: only its own code may use its State, and not while it awaits")

// ID names the object.
func (s *State) ID() storage.ID { return s.inc.id }

// Epoch is the incarnation's number.
func (s *State) Epoch() uint64 { return s.inc.epoch }

func (s *State) holder() (*Turn, error) {
	if err := s.inc.err(); err != nil {
		return nil, err
	}
	if s.turn == nil {
		return nil, ErrNoTurn
	}
	return s.turn, nil
}

// fail is the error of an operation that is refused and has changed nothing.
func (s *State) fail(op string, err error, hint string) error {
	return &Error{Op: op, ID: s.inc.id, Epoch: s.inc.epoch, Err: err, Hint: hint}
}

// SetAlarm sets the object's one alarm. A time in the past means now. One that no
// alarm can have, before 1970 or after 9999, is refused with an *Error that wraps
// alarm.ErrTime, and nothing changes. It fails with ErrScheduled once Schedule is
// used.
func (s *State) SetAlarm(at time.Time) error {
	t, err := s.holder()
	switch {
	case err != nil:
		return err
	case at.IsZero():
		return s.fail("set alarm", alarm.CheckTime(at), "use DeleteAlarm to have none")
	}
	return t.SetAlarm(at)
}

// DeleteAlarm deletes the alarm.
func (s *State) DeleteAlarm() error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	return t.SetAlarm(time.Time{})
}

// Alarm is the time that the alarm was set to, also while a retry is due; zero when
// there is none, or while it runs.
func (s *State) Alarm() (time.Time, error) {
	t, err := s.holder()
	if err != nil {
		return time.Time{}, err
	}
	return t.Alarm()
}

// Schedule is the object's schedule. From its first use on the alarm is derived:
// see [alarm.Schedule].
func (s *State) Schedule() *alarm.Schedule { return s.inc.schedule() }

// Charge accounts for memory that the object keeps, in bytes. What does not fit on
// the isolate's heap waits, as in an Await, where the isolate has enough that it can
// reclaim: objects that rest, and runtimes that nobody needs. Otherwise the isolate is
// reset. What is not released is given back when the incarnation ends.
func (s *State) Charge(bytes int64) (release func(), err error) {
	if _, err := s.holder(); err != nil {
		return nil, err
	}
	if bytes < 0 {
		return nil, s.fail("charge", fmt.Errorf("%d bytes are negative", bytes), "release gives a charge back")
	}
	w, err := s.inc.isolate.charge(s.inc, bytes)
	if w != nil {
		err = s.Await(&s.inc.life, func(ctx context.Context) error { return s.inc.isolate.wait(ctx, w) })
	}
	if err != nil {
		return nil, err
	}
	return s.inc.releases(bytes), nil
}

// Abort resets the object: what this turn wrote is dropped.
func (s *State) Abort(reason error) {
	s.inc.abort("run", reason)
}

// WaitUntil begins background work: an event of the object's own that nobody waits
// for. Like any other it runs in turns and may use the State; the object is not
// evicted before it has ended, and it dies with the incarnation: from a reset on
// its context has ended and nothing that it does to the State is written. An error
// of f is logged. Work that has to survive a reset belongs into a schedule.
func (s *State) WaitUntil(f func(ctx context.Context) error) error {
	if _, err := s.holder(); err != nil {
		return err
	}
	if int(s.background) >= s.inc.h.o.MaxQueued {
		return &Error{Op: "wait until", ID: s.inc.id, Epoch: s.inc.epoch, Cause: Overload, Hint: "let some of the work that has begun come to its end"}
	}
	s.background++
	return s.inc.h.post(s.inc, background{f})
}

// background is the event of WaitUntil.
type background struct {
	f func(context.Context) error
}
