package actor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/alarm"
)

// callback runs on the object's goroutine.
type callback[T any] func(obj *T, ctx context.Context, payload []byte) error

// Job is a callback of a class, to be scheduled by its objects: in and at a time,
// by cron, at an interval. Its methods belong to the object's own code.
type Job[P any] struct{ name string }

// Callback adds a callback to a class, for its objects' schedules to run. Payloads
// are kept as JSON. It panics when the name is taken.
//
// An error of f fails the run, which is tried again by the schedule's own policy,
// unless it wraps alarm.ErrUnrunnable: then, as when a payload does not decode as a P,
// the schedule is set aside.
// Inside f, the schedule and the object's rows can be used as in a method; what f
// writes after its last await lands in the commit that says that the run is done.
func Callback[T, P any](c *Class[T], name string, f func(obj *T, ctx context.Context, payload P) error) Job[P] {
	if _, taken := c.callbacks[name]; taken {
		panic(fmt.Sprintf("actor: class %q has two callbacks %q", c.name, name))
	}
	c.callbacks[name] = func(obj *T, ctx context.Context, b []byte) error {
		var p P
		if err := json.Unmarshal(b, &p); err != nil {
			return fmt.Errorf("%w: the payload of %s does not decode: %w", alarm.ErrUnrunnable, name, err)
		}
		return f(obj, ctx, p)
	}
	return Job[P]{name}
}

// Name is the callback's, as alarm.Entry has it.
func (j Job[P]) Name() string { return j.name }

// In runs the job once, d from now. See [alarm.Schedule.In].
func (j Job[P]) In(s *State, d time.Duration, payload P, o ...alarm.Option) (alarm.Entry, error) {
	b, err := j.encode(s, payload)
	if err != nil {
		return alarm.Entry{}, err
	}
	return s.Schedule().In(d, j.name, b, o...)
}

// At runs the job once, at a time. See [alarm.Schedule.At].
func (j Job[P]) At(s *State, at time.Time, payload P, o ...alarm.Option) (alarm.Entry, error) {
	b, err := j.encode(s, payload)
	if err != nil {
		return alarm.Entry{}, err
	}
	return s.Schedule().At(at, j.name, b, o...)
}

// Cron runs the job by a cron expression. See [alarm.Schedule.Cron].
func (j Job[P]) Cron(s *State, spec string, payload P, o ...alarm.Option) (alarm.Entry, error) {
	b, err := j.encode(s, payload)
	if err != nil {
		return alarm.Entry{}, err
	}
	return s.Schedule().Cron(spec, j.name, b, o...)
}

// Every runs the job at an interval. See [alarm.Schedule.Every].
func (j Job[P]) Every(s *State, d time.Duration, payload P, o ...alarm.Option) (alarm.Entry, error) {
	b, err := j.encode(s, payload)
	if err != nil {
		return alarm.Entry{}, err
	}
	return s.Schedule().Every(d, j.name, b, o...)
}

func (j Job[P]) encode(s *State, payload P) ([]byte, error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return nil, &Error{Op: "schedule", ID: s.inc.id, Err: fmt.Errorf("the payload of %s does not encode: %w", j.name, err)}
	}
	return b, nil
}
