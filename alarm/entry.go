package alarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is how a schedule finds its time.
type Kind string

// The kinds of schedules.
const (
	Delay    Kind = "delay"    // once, after a while
	Moment   Kind = "moment"   // once, at a time
	Cron     Kind = "cron"     // again and again, by a cron expression
	Interval Kind = "interval" // again and again, at an interval
)

// Entry is one schedule of an object.
type Entry struct {
	// ID names it within the object.
	ID string `json:"id"`
	// Callback is what it runs.
	Callback string `json:"callback"`
	Kind     Kind   `json:"kind"`
	// Spec is what it was registered with: the delay or interval as a Go duration,
	// the time in RFC 3339, or the cron expression.
	Spec string `json:"spec"`
	// Zone is the time zone of a cron expression; empty means UTC.
	Zone string `json:"zone,omitempty"`
	// Due is the time that the next run is for.
	Due time.Time `json:"due"`
	// Next is when that run begins: Due, or later when it is a retry.
	Next time.Time `json:"next"`
	// Failed counts the runs for Due that have failed.
	Failed int `json:"failed,omitempty"`
	// Strikes counts the runs, in a row, in which the object ran out of memory.
	Strikes int `json:"strikes,omitempty"`
	// Lost counts the runs, in a row, that were cut short by something else.
	Lost int `json:"lost,omitempty"`
	// Running is the run in progress, nil when there is none.
	Running *Running `json:"running,omitempty"`
	Policy  Policy   `json:"policy"`
	// Payload is what the callback is given. List leaves it out.
	Payload []byte `json:"payload,omitempty"`
}

// Running is a run in progress.
type Running struct {
	// Since is when it began.
	Since time.Time `json:"since"`
	// Epoch is the incarnation that runs it.
	Epoch uint64 `json:"epoch"`
	// N is its number in that incarnation.
	N uint64 `json:"n"`
}

// Once reports whether the schedule ends with its first success.
func (e *Entry) Once() bool { return e.Kind == Delay || e.Kind == Moment }

// row is an entry as it is kept. Its payload has a row of its own, so that an
// object's schedules can be held in memory.
type row struct {
	Version int `json:"v"`
	Entry
	// Sum is that of all that the registration said.
	Sum string `json:"sum"`
	// Sized: there is a payload row.
	Sized bool `json:"sized,omitempty"`
	// Wrote is when the row was written, by the wall clock: a later reading that is
	// earlier says that the clock was put back.
	Wrote time.Time `json:"wrote,omitzero"`

	// check is when a row that has been taken up is looked at again; zero: it has
	// not been taken up. In memory only.
	check time.Time
}

const rowVersion = 1

// wake is when the row wants its object to be woken.
func (r *row) wake() time.Time {
	if !r.check.IsZero() {
		return r.check
	}
	return r.Next
}

func (r *row) encode() ([]byte, error) { return json.Marshal(r) }

// decodeRow reads a row.
func decodeRow(id string, b []byte) (*row, error) {
	r := &row{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, err
	}
	r.ID, r.Payload = id, nil // both have places of their own
	switch r.Kind {
	case Delay, Moment, Cron: // an expression is parsed when it is needed: there may be thousands
	case Interval:
		if _, err := parseInterval(r.Spec); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%q is not a kind of schedule", r.Kind)
	}
	switch {
	case r.Version != rowVersion:
		return nil, fmt.Errorf("the row has version %d, and this is version %d", r.Version, rowVersion)
	case r.Callback == "":
		return nil, errors.New("the row names no callback")
	case r.Failed < 0 || r.Strikes < 0 || r.Lost < 0:
		return nil, errors.New("the row has a count below zero")
	}
	r.Due, r.Next = wall(r.Due), wall(r.Next)
	if err := errors.Join(CheckTime(r.Due), CheckTime(r.Next)); err != nil {
		return nil, err // an alarm that is derived from it could not be stored
	}
	return r, r.Policy.validate()
}
