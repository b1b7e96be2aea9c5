package alarm

import (
	"errors"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Bounds of a Schedule.
const (
	// MaxSchedules bounds the schedules of one object.
	MaxSchedules = 10_000
	// MaxPayload bounds a schedule's payload, in bytes: that of a value on the
	// platform whose semantics these are.
	MaxPayload = 128 << 10
	// MaxID bounds a schedule's ID, in bytes.
	MaxID = 256
	// MaxSetAside bounds the schedules of one object that are kept because they can't
	// be run. There is room for all, should the code lose a callback.
	MaxSetAside = MaxSchedules
)

// What is wrong with a schedule that is refused. A refusal changes nothing.
var (
	// ErrTime: a time that is not after the beginning of 1970, or after 9999.
	ErrTime = errors.New("not a time for an alarm")
	// ErrInterval: an interval below MinInterval or above MaxInterval.
	ErrInterval = errors.New("not an interval for a schedule")
	// ErrCron: a cron expression that does not parse, or never matches.
	ErrCron = errors.New("not a cron expression that can be run")
	// ErrZone: a time zone that is not known here.
	ErrZone = errors.New("no such time zone")
	// ErrCallback: the object has no callback of that name.
	ErrCallback = errors.New("no such callback")
	// ErrPayload: a payload that is too large.
	ErrPayload = errors.New("the payload is too large")
	// ErrPayloadGone: a schedule whose payload is not in storage any more.
	ErrPayloadGone = errors.New("the schedule's payload is gone")
	// ErrID: an ID that can't name a schedule.
	ErrID = errors.New("not an ID for a schedule")
	// ErrPolicy: a number of attempts, a wait or a limit that makes no sense.
	ErrPolicy = errors.New("not a policy for a schedule")
	// ErrTooMany: the object has MaxSchedules schedules.
	ErrTooMany = errors.New("the object has too many schedules")
	// ErrCondemned: the object is about to be destroyed.
	ErrCondemned = errors.New("the object is condemned")
)

// CheckTime refuses times that no alarm can have, with an error that wraps
// ErrTime. They include all that is not a time at all: what comes of a sum that
// has overflowed, or of a number that is not finite.
func CheckTime(at time.Time) error {
	if at.Before(first) || at.After(never) {
		return fmt.Errorf("%w: %v; they lie between 1970 and 9999", ErrTime, at.Round(0))
	}
	return nil
}

// ErrUnrunnable: a run fails with an error that wraps it when no other attempt could
// go better. Its schedule is set aside at once: see [Schedule.SetAside].
var ErrUnrunnable = errors.New("the schedule can't be run")

// ErrHung is why the context of a run ends that has outlasted its limit.
var ErrHung = errors.New("the run has outlasted its limit and was given up")

// Error says which operation of a schedule was refused, of which object, why,
// and what to do about it.
type Error struct {
	Op string // "in", "at", "cron", "every", ...
	ID storage.ID
	// Err wraps one of the sentinels above, or is a failure of storage.
	Err  error
	Hint string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("schedule %s %s: %v", e.Op, e.ID, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
