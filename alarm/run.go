package alarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// maxRunning bounds the runs of one object that are in progress at once. What is
// due beyond that waits for one to end.
const maxRunning = 64

// Run is one run of a schedule's callback.
type Run struct {
	// ID and Callback are those of the schedule.
	ID, Callback string
	// Scheduled is the time that the run is for. It may lie in the past.
	Scheduled time.Time
	// Attempt counts the runs for Scheduled that have failed before this one.
	Attempt int
	// Payload is the schedule's. It is filled in by Begin.
	Payload []byte

	epoch, n uint64
}

// Work is what there is to run: by an alarm, or because a run has made room.
type Work struct {
	// Destroy: the object is condemned. It is torn down, then Destroyed is called,
	// and nothing else is run.
	Destroy bool
	// Runs have been marked as running. Each begins with Begin, in a turn of its
	// own, when this turn is durable: so a run that brings the process down is known
	// to the next one.
	Runs []Run
	// Alarm: a source is due. The owner's handler runs, and then AlarmRan is called.
	Alarm bool
}

// Wake says what there is to run at an alarm, and takes it as begun. retry is that
// of the alarm's row.
func (k *Keeper) Wake(retry int) (Work, error) {
	s := &k.s
	rows, err := s.load()
	if err != nil {
		return Work{}, err
	}
	if !s.table.Destroy.IsZero() {
		return Work{Destroy: s.tear(rows)}, nil
	}
	now := rows.Now().Round(0)
	s.alive.woken(now)
	s.recheck(rows, now)
	runs := append(s.room(rows, now), s.take(rows, now)...)
	return Work{Runs: runs, Alarm: s.sources.due(rows.Now(), retry)}, nil
}

// recheck looks at what has been taken up: a run that has outlasted its limit is
// given up.
func (s *Schedule) recheck(rows Rows, now time.Time) {
	for _, r := range s.table.due(now) {
		switch {
		case r.check.IsZero():
		case r.Running != nil && !now.Before(r.Running.Since.Add(r.Policy.Limit)):
			if cancel := s.cancels[r.Running.N]; cancel != nil {
				cancel(ErrHung)
			}
			s.release(r.Running.N)
			s.failed(rows, r, now, ErrHung)
		default:
			s.table.set(r, func(r *row) { r.check = r.nextCheck(now) })
		}
	}
}

// nextCheck is when a row that has been taken up is looked at again.
func (r *row) nextCheck(now time.Time) time.Time {
	check := now.Add(Heartbeat)
	if r.Running != nil {
		if end := r.Running.Since.Add(r.Policy.Limit); end.Before(check) {
			check = end
		}
	}
	return wall(check)
}

// take marks what is due as running. What there is no room for is taken up too:
// it begins when a run ends, and if the object crashes, within a heartbeat.
func (s *Schedule) take(rows Rows, now time.Time) (begin []Run) {
	for _, r := range s.table.due(now) { // what is running wants to be checked later
		if len(s.cancels) >= maxRunning {
			s.table.set(r, func(r *row) { r.check = r.nextCheck(now) })
			s.waiting = append(s.waiting, r.ID)
			continue
		}
		begin = append(begin, s.begin(rows, r, now))
	}
	return begin
}

// begin marks a row as running.
func (s *Schedule) begin(rows Rows, r *row, now time.Time) Run {
	s.runs++
	n := s.runs
	if s.cancels == nil {
		s.cancels = map[uint64]context.CancelCauseFunc{}
	}
	s.cancels[n] = nil // until it has a context
	s.update(rows, r, func(r *row) {
		r.Running = &Running{Since: wall(now), Epoch: s.o.Epoch, N: n}
		r.check = r.nextCheck(now)
	})
	return Run{ID: r.ID, Callback: r.Callback, Scheduled: r.Due, Attempt: r.Failed, epoch: s.o.Epoch, n: n}
}

// running is the row of a run that is still in progress, or nil.
func (s *Schedule) running(run Run) *row {
	r := s.table.get(run.ID)
	if run.epoch != s.o.Epoch || r == nil || r.Running == nil || r.Running.N != run.n || r.Running.Epoch != run.epoch {
		return nil
	}
	return r
}

func (s *Schedule) release(n uint64) { delete(s.cancels, n) }

// Begin readies a run: its context, which ends when the run has outlasted its
// limit, and its payload. The context is nil when there is nothing to run any
// more; Ran is called all the same.
func (k *Keeper) Begin(parent context.Context, run Run) (context.Context, Run, error) {
	s := &k.s
	rows, err := s.load()
	if err != nil {
		return nil, run, err
	}
	r := s.running(run)
	if r == nil {
		return nil, run, nil
	}
	payload, err := s.payload(rows, r)
	if err != nil && !errors.Is(err, ErrPayloadGone) {
		return nil, run, err
	}
	if err = cmp.Or(err, s.runnable(r)); err != nil {
		s.retire(rows, r, err)
		return nil, run, nil
	}
	ctx, cancel := context.WithCancelCause(parent)
	s.cancels[run.n] = cancel
	run.Payload = payload
	return ctx, run, nil
}

// runnable reports why a row can't be run, whoever tries.
func (s *Schedule) runnable(r *row) error {
	if !s.o.Owner.Known(r.Callback) {
		return fmt.Errorf("%w: %q", ErrCallback, r.Callback)
	}
	if r.Kind != Cron {
		return nil
	}
	c, err := parseCron(r.Spec, r.Zone)
	if err != nil {
		return err
	}
	// It has to match what it is due for, or, if the time zone has changed since, some
	// time near it. What never does was not written by a registration.
	if _, ok := c.next(r.Due.AddDate(0, 0, -1)); !ok {
		return fmt.Errorf("%w: %q does not match any time", ErrCron, r.Spec)
	}
	return nil
}

// Ran is told what a run came to, in the turn that it ended in. It returns what
// there is room for now.
func (k *Keeper) Ran(run Run, failed error) ([]Run, error) {
	s := &k.s
	rows, err := s.load()
	if err != nil {
		return nil, err
	}
	now := rows.Now().Round(0)
	if run.epoch == s.o.Epoch {
		if cancel := s.cancels[run.n]; cancel != nil {
			cancel(nil)
		}
		s.release(run.n)
	}
	if r := s.running(run); r != nil { // not given up, cancelled or replaced meanwhile
		switch {
		case failed == nil:
			s.succeeded(rows, r, now)
		case errors.Is(failed, ErrUnrunnable):
			s.retire(rows, r, failed)
		case s.o.Owner.Platform(failed):
			s.lost(rows, r, now)
		default:
			s.failed(rows, r, now, failed)
		}
		s.untake(r)
	}
	return s.room(rows, now), nil
}

// room marks as running what has waited for a run to end.
func (s *Schedule) room(rows Rows, now time.Time) (begin []Run) {
	for len(s.waiting) > 0 && len(s.cancels) < maxRunning {
		r := s.table.get(s.waiting[0])
		s.waiting = s.waiting[1:]
		if r != nil && r.Running == nil && !r.check.IsZero() {
			begin = append(begin, s.begin(rows, r, now))
		}
	}
	return begin
}

// untake: the row waits for its time again.
func (s *Schedule) untake(r *row) {
	if s.table.get(r.ID) == r {
		s.table.set(r, func(r *row) { r.check = time.Time{} })
	}
}

// succeeded: what runs once is done, and only now is its row deleted.
func (s *Schedule) succeeded(rows Rows, r *row, now time.Time) {
	s.count(Succeeded)
	if r.Once() {
		s.drop(rows, r.ID)
		return
	}
	s.advance(rows, r, now)
}

// advance plans the next time of what runs again and again.
func (s *Schedule) advance(rows Rows, r *row, now time.Time) {
	due, err := r.after(now)
	switch {
	case err != nil:
		s.retire(rows, r, err)
	case due.IsZero():
		s.o.Logger.Info("a schedule has come to its end", "object", s.o.ID.String(), "schedule", r.ID, "spec", r.Spec)
		s.drop(rows, r.ID)
	default:
		s.update(rows, r, func(r *row) {
			r.Due, r.Next, r.Failed, r.Strikes, r.Lost, r.Running = due, due, 0, 0, 0, nil
		})
	}
}

// after is the first time after now that a row that runs again is due; zero when
// there is none.
func (r *row) after(now time.Time) (time.Time, error) {
	if r.Kind == Interval {
		d, err := parseInterval(r.Spec)
		if err != nil {
			return time.Time{}, err
		}
		return wall(following(r.Due, d, now)), nil
	}
	c, err := parseCron(r.Spec, r.Zone)
	if err != nil {
		return time.Time{}, err
	}
	if ahead := r.Due.Sub(now); !c.hourly && ahead > 0 && ahead <= cronAgain {
		now = r.Due // the clock was put back during the run: what has run does not run again
	}
	at, _ := c.next(now)
	return at, nil
}

// failed counts a failure in the row: its retries are its own, and the alarm's
// never see it.
func (s *Schedule) failed(rows Rows, r *row, now time.Time, why error) {
	failed := r.Failed + 1
	retry := wall(now.Add(r.Policy.wait(s.o.ID, failed)))
	again := failed < r.Policy.Attempts
	log := s.o.Logger.With("object", s.o.ID.String(), "schedule", r.ID, "callback", r.Callback, "scheduled", r.Due, "attempt", failed)
	if !r.Once() {
		// A retry that would come no earlier than the next time is that.
		if next, err := r.after(now); err != nil || next.IsZero() || !again || !retry.Before(next) {
			s.count(GivenUp)
			log.Error("a run has failed and is not tried again", "error", why)
			s.advance(rows, r, now)
			s.untake(r)
			return
		}
	}
	if !again {
		s.count(GivenUp)
		log.Error("a schedule has failed for the last time and is removed", "error", why)
		s.drop(rows, r.ID)
		return
	}
	s.count(Retried)
	log.Warn("a run has failed", "error", why, "again", retry)
	s.update(rows, r, func(r *row) {
		r.Failed, r.Next, r.Running, r.Strikes, r.Lost, r.check = failed, retry, nil, 0, 0, time.Time{}
	})
}
