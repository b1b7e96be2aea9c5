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

var errReserved = errors.New("keys that begin with a zero byte are reserved")

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

// derive is the event by which the alarm is derived when nothing else happens.
type derive struct{}

// Schedule is the object's schedule. From its first use in an incarnation on, the
// alarm is derived as each turn ends: see [alarm.Schedule].
func (t *Turn) Schedule() *alarm.Schedule { return t.inc.schedule() }

func (inc *incarnation) schedule() *alarm.Schedule {
	if inc.keeper == nil {
		inc.keeper = alarm.NewKeeper(alarm.KeeperOptions{
			ID: inc.id, Epoch: inc.epoch,
			Turn: func() (alarm.Rows, error) {
				if err := inc.err(); err != nil {
					return nil, err
				}
				if inc.running == nil {
					return nil, ErrNoTurn
				}
				return scheduleRows{inc.running}, nil
			},
			Known:    func(string) bool { return false },
			Released: func() { _ = inc.h.post(inc, derive{}) }, // an incarnation that is over has nothing to derive
			Logger:   inc.h.log,
			Seams:    inc.h.o.Seams,
		})
	}
	return inc.keeper.Schedule()
}

// derive sets the alarm to what the schedule makes of it, in this turn's batch.
// It is called for each turn, and last.
func (t *Turn) derive() error {
	inc := t.inc
	if inc.keeper == nil {
		return nil
	}
	is, err := inc.keeper.Derive()
	if err != nil {
		return err
	}
	was, err := inc.alarmRow()
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
func (inc *incarnation) scheduled(t *Turn) (bool, error) {
	if inc.keeper != nil {
		return true, nil
	}
	for _, err := range t.list(storage.Range{Prefix: alarm.Prefix, Limit: 1}) {
		if err != nil {
			return false, err
		}
		inc.schedule()
		return true, nil
	}
	return false, nil
}

// wake is the alarm of an object with a schedule. The alarm itself is done when
// the turn is durable: what it has begun is known to the rows.
func (inc *incarnation) wake(t *Turn, f *fired, info alarm.Info) {
	forget := t.OnBreak(f.done)
	err := inc.guard("alarm", func() error {
		work, err := inc.keeper.Wake(info.Retry)
		if err != nil {
			return err
		}
		if work.Alarm {
			inc.machine.Alarm(t, info, func(_ *Turn, err error) {
				if err := inc.keeper.AlarmRan(err); err != nil {
					inc.breakWith(err)
				}
			})
		}
		return nil
	})
	if err != nil {
		inc.breakWith(err)
		return
	}
	t.After(func() { forget(); f.done(nil) })
	t.end()
}
