package actor

import (
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

var _ alarm.Rearmer = (*Host)(nil)

// rearm is an event: the wall clock was put back, and the object's alarm is to be
// derived anew.
type rearm struct{ done func(error) }

// Rearm has an object derive its alarm anew: it is how the host serves
// alarm.Dispatcher when the wall clock was put back.
func (h *Host) Rearm(id storage.ID, done func(error)) {
	if err := h.enqueue(id, envelope{event: &rearm{done}, fail: done}); err != nil {
		done(err)
	}
}

// rearm lets the schedule see the clock. An alarm that the object has set itself is
// a time, and stays; but the wait before its retry does not get longer.
func (inc *incarnation) rearm(t *Turn, e *rearm) {
	forget := t.OnBreak(e.done)
	t.After(func() { forget(); e.done(nil) })
	err := func() error {
		if scheduled, err := t.scheduled(); err != nil || scheduled {
			return err // the alarm is derived as the turn ends
		}
		row, err := inc.alarmRow()
		if err != nil || row.Retry == 0 {
			return err
		}
		longest, _ := alarm.Backoff(min(row.Retry, alarm.MaxRetries)-1, 1)
		if latest := t.now.Add(longest); row.At.After(latest) {
			row.At = latest
			t.writeAlarm(row)
		}
		return nil
	}()
	if err != nil {
		inc.breakWith(err)
		return
	}
	t.end()
}
