package actor

import (
	"errors"
	"iter"
	"strings"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// ErrScheduled: the object's alarm is derived from its schedule, and can't be set.
var ErrScheduled = errors.New("the object uses its schedule, which sets the alarm")

// What begins with a zero byte is the host's, in an object's rows: see
// [alarm.Prefix].
const firstOwn = "\x01"

var (
	errReserved  = errors.New("keys that begin with a zero byte are reserved")
	errDestroyed = errors.New("the object has been destroyed")
)

func reserved(key string) bool { return strings.HasPrefix(key, "\x00") }

// own narrows a range to the object's own rows.
func own(r storage.Range) storage.Range {
	switch {
	case r.After == "":
		r.Start = max(r.Start, firstOwn)
	case r.After < firstOwn:
		r.Start, r.After = firstOwn, ""
	}
	return r
}

// scheduleRows is a turn as a schedule sees it.
type scheduleRows struct{ *Turn }

func (r scheduleRows) List(of storage.Range) iter.Seq2[storage.Entry, error] { return r.list(of) }

// Schedule is the object's schedule. From its first use in an incarnation on, the
// alarm is derived as each turn ends: see [alarm.Schedule].
func (t *Turn) Schedule() *alarm.Schedule { return t.inc.schedule() }

func (inc *incarnation) schedule() *alarm.Schedule {
	if inc.keeper == nil {
		inc.keeper = alarm.NewKeeper(alarm.KeeperOptions{
			ID: inc.id, Epoch: inc.epoch, Owner: scheduleOwner{inc}, Fresh: inc.fresh,
			Logger: inc.h.log, Seams: inc.h.o.Seams,
		})
	}
	return inc.keeper.Schedule()
}

// scheduleOwner is an incarnation as its schedule sees it.
type scheduleOwner struct{ inc *incarnation }

func (o scheduleOwner) Turn() (alarm.Rows, error) {
	if err := o.inc.err(); err != nil {
		return nil, err
	}
	if o.inc.running == nil {
		return nil, ErrNoTurn
	}
	return scheduleRows{o.inc.running}, nil
}

func (o scheduleOwner) Known(callback string) bool { return o.inc.hasCallback(callback) }
func (o scheduleOwner) Last() alarm.Reset          { return o.inc.h.breaks.lastRun(o.inc.id) }
func (o scheduleOwner) Released()                  { _ = o.inc.h.post(o.inc, derive{}) } // an incarnation that is over has nothing to derive
func (o scheduleOwner) Count(of alarm.Outcome)     { o.inc.h.meters.scheduleRan(o.inc.id.Class, of) }

// Platform: the error is the platform's, and is likely to be gone next time.
func (scheduleOwner) Platform(err error) bool {
	return causes[CauseOf(err)].class&(transient|retryable|overloaded) != 0
}

// derive sets the alarm to what the schedule makes of it, in this turn's batch.
// It is called for each turn, and last.
func (t *Turn) derive() error {
	inc := t.inc
	if inc.keeper == nil {
		return nil
	}
	was, err := inc.alarmRow()
	if err != nil {
		return err
	}
	is, err := inc.keeper.Derive(was)
	if err != nil {
		return err
	}
	if !was.At.Equal(is.At) || was.Retry != is.Retry {
		t.writeAlarm(is)
	}
	return nil
}

// scheduled reports whether the object's alarm is its schedule's, also when this
// incarnation has not used it yet.
func (t *Turn) scheduled() (bool, error) {
	inc := t.inc
	if inc.keeper != nil || inc.plain {
		return inc.keeper != nil, nil
	}
	for _, err := range t.list(storage.Range{Prefix: alarm.Prefix, Limit: 1}) {
		if err != nil {
			return false, err
		}
		inc.schedule()
		return true, nil
	}
	inc.plain = true
	return false, nil
}

// busy reports that the schedule keeps the incarnation from being evicted. A host
// that shuts down does not wait for it.
func (inc *incarnation) busy() bool {
	return inc.keeper != nil && inc.keeper.Busy() && !inc.h.draining.Load()
}
