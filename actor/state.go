package actor

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// State is an object's own side of the host: its storage, its alarm, and the
// baton that makes it single-threaded. Its methods belong to the object's code:
// they fail with ErrNoTurn when another goroutine calls them.
type State struct {
	id     storage.ID
	epoch  uint64
	life   context.Context
	post   func(any) error
	charge func(int64) (func(), error)
	abort  func(error)
	err    func() error
	// schedule is that of the incarnation.
	schedule func() *alarm.Schedule

	turn    *Turn // of the holder of the baton
	task    *task // the holder; nil in the constructor
	waiting int   // tasks that have begun and not ended
	back    run.Signal
}

// ErrNoTurn: a method of State was called by who does not hold the baton.
var ErrNoTurn = errors.New("not in a turn of the object: only its own code may use its State, and not while it awaits")

// ID names the object.
func (s *State) ID() storage.ID { return s.id }

// Epoch is the incarnation's number.
func (s *State) Epoch() uint64 { return s.epoch }

func (s *State) holder() (*Turn, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	if s.turn == nil {
		return nil, ErrNoTurn
	}
	return s.turn, nil
}

// Get reads a value; nil when the key is not there.
func (s *State) Get(key string) ([]byte, error) {
	t, err := s.holder()
	if err != nil {
		return nil, err
	}
	if reserved(key) {
		return nil, nil
	}
	return t.Get(key)
}

// List reads rows. The loop must not await.
func (s *State) List(r storage.Range) iter.Seq2[storage.Entry, error] {
	t, err := s.holder()
	if err != nil {
		return func(yield func(storage.Entry, error) bool) { yield(storage.Entry{}, err) }
	}
	return t.List(r)
}

// Put writes a value. Writes with no await in between are one commit.
func (s *State) Put(key string, value []byte) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if reserved(key) {
		return &Error{Op: "put", ID: s.id, Epoch: s.epoch, Err: errReserved, Hint: "let the key begin with another byte"}
	}
	t.Put(key, append([]byte{}, value...))
	return nil
}

// Delete deletes a value.
func (s *State) Delete(key string) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if reserved(key) {
		return &Error{Op: "delete", ID: s.id, Epoch: s.epoch, Err: errReserved, Hint: "let the key begin with another byte"}
	}
	t.Delete(key)
	return nil
}

// DeleteAll deletes every value, every schedule and the alarm.
func (s *State) DeleteAll() error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	t.Clear()
	return nil
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
		return &Error{Op: "set alarm", ID: s.id, Epoch: s.epoch, Err: alarm.CheckTime(at), Hint: "use DeleteAlarm to have none"}
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

// Alarm is when the alarm is due; zero when there is none, or while it runs.
func (s *State) Alarm() (time.Time, error) {
	t, err := s.holder()
	if err != nil {
		return time.Time{}, err
	}
	return t.Alarm()
}

// Schedule is the object's schedule. From its first use on the alarm is derived:
// see [alarm.Schedule].
func (s *State) Schedule() *alarm.Schedule { return s.schedule() }

// Charge accounts for memory that the object keeps, in bytes. What does not fit
// on the isolate's heap resets the isolate.
func (s *State) Charge(bytes int64) (release func(), err error) { return s.charge(bytes) }

// Abort resets the object: what this turn wrote is dropped.
func (s *State) Abort(reason error) { s.abort(reason) }

// Await gives the baton back while f runs, and takes it again: other events of
// the object may run meanwhile. f must not use the State. It begins when
// everything written so far is durable, so that what it tells others is true.
// In the constructor nothing else runs, and f runs at once.
func (s *State) Await(ctx context.Context, f func(context.Context) error) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if s.task == nil {
		return f(ctx)
	}
	me := s.task
	defer t.OnBreak(func(error) { me.wake.Set() })()
	t.After(me.wake.Set) // when what was written is durable
	s.turn, s.task = nil, nil
	if !me.giveBack(s.back) {
		return s.err()
	}
	me.wake.Wait()
	if gone := s.err(); gone != nil {
		return gone
	}
	err = f(ctx)
	if gone := s.post(resume{me}); gone != nil {
		return gone
	}
	me.wake.Wait()
	if gone := s.err(); gone != nil {
		return gone
	}
	return err
}
