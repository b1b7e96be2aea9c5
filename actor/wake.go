package actor

import (
	"context"

	"github.com/kalpahost/kalpa/alarm"
)

// Callbacks is what a Machine implements to have schedules that run something.
type Callbacks interface {
	// HasCallback reports whether there is a callback of that name.
	HasCallback(name string) bool
	// Callback runs one. done must be called, in this turn or a later one, with that
	// turn: what the schedule makes of it lands in its batch. ctx ends when the run
	// has outlasted its limit, which counts as a failure whatever done says later.
	Callback(ctx context.Context, t *Turn, run alarm.Run, done func(t *Turn, err error))
}

// Destroyer is what a Machine implements to do something before its object is
// torn down, when it was condemned with alarm.Schedule.Destroy.
type Destroyer interface {
	// Destroy is called before the object's rows are deleted. done must be called, in
	// this turn or a later one, with that turn. After an error it is called again later.
	Destroy(t *Turn, done func(t *Turn, err error))
}

// Events of an object's schedule.
type (
	// derive makes a turn in which nothing happens but that the alarm is derived.
	derive struct{}
	// begin begins a run that is marked as running.
	begin struct{ run alarm.Run }
)

func (inc *incarnation) hasCallback(name string) bool {
	c, ok := inc.machine.(Callbacks)
	return ok && c.HasCallback(name)
}

// wake is the alarm of an object with a schedule. The alarm itself is done when
// the turn is durable: what it has begun is known to the rows.
func (inc *incarnation) wake(t *Turn, ran func(error), info alarm.Info) {
	t.After(func() { ran(nil) })
	err := inc.guard("alarm", func() error {
		work, err := inc.keeper.Wake(info.Retry)
		if err != nil {
			return err
		}
		if work.Destroy {
			inc.destroy(t)
			return nil
		}
		inc.beginAll(t, work.Runs)
		if work.Alarm {
			ran := func(_ *Turn, err error) {
				outcome := alarm.Succeeded
				if err != nil {
					outcome = alarm.Retried // for as long as a source wants it
				}
				inc.h.meters.alarmRan(inc.id.Class, outcome)
				if err := inc.keeper.AlarmRan(err); err != nil {
					inc.breakWith(err)
				}
			}
			if cut := inc.h.breaks.takeCut(inc.id); cut != nil {
				ran(t, cut) // it has run, and the reset was its failure
				return nil
			}
			inc.runHandler(t, info, ran)
		}
		return nil
	})
	if err != nil {
		inc.breakWith(err)
		return
	}
	t.end()
}

// beginAll has runs begin, each in a turn of its own, when this one is durable.
func (inc *incarnation) beginAll(t *Turn, runs []alarm.Run) {
	for _, run := range runs {
		t.After(func() { _ = inc.h.post(inc, begin{run}) }) // the next incarnation finds the row marked
	}
}

// begin begins a run.
func (inc *incarnation) begin(t *Turn, run alarm.Run) {
	err := inc.guard("run", func() error {
		ctx, run, err := inc.keeper.Begin(&inc.life, run)
		switch {
		case err != nil:
			return err
		case ctx == nil:
			return inc.ran(t, run, nil)
		}
		inc.atRun.Store(&run.ID)
		inc.machine.(Callbacks).Callback(ctx, t, run, func(t *Turn, err error) {
			if err := inc.ran(t, run, err); err != nil {
				inc.breakWith(err)
			}
		})
		return nil
	})
	if err != nil {
		inc.breakWith(err)
		return
	}
	t.end()
	inc.atRun.Store(nil)
}

func (inc *incarnation) ran(t *Turn, run alarm.Run, err error) error {
	next, err := inc.keeper.Ran(run, err)
	if err == nil {
		inc.beginAll(t, next)
	}
	return err
}

// destroy tears a condemned object down. Its incarnation ends with it.
func (inc *incarnation) destroy(t *Turn) {
	done := func(t *Turn, err error) {
		if err := inc.keeper.Destroyed(err); err != nil {
			inc.breakWith(err)
			return
		}
		if err != nil {
			return
		}
		t.Clear()
		inc.torn.Store(true) // no event must write anything after this
		t.After(func() {
			inc.breakWith(&Error{Op: "run", ID: inc.id, Epoch: inc.epoch, Cause: Superseded, Err: errDestroyed})
		})
	}
	if d, ok := inc.machine.(Destroyer); ok {
		inc.teardowns.Add(1)
		d.Destroy(t, func(t *Turn, err error) {
			inc.teardowns.Add(1)
			done(t, err)
		})
		return
	}
	done(t, nil)
}
