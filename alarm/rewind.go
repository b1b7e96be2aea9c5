package alarm

import (
	"slices"
	"time"
)

// When the wall clock is put back, what is due after a while (a delay, an
// interval, the wait before a retry, a limit) must not wait for the clock to come
// back to where it was: what is left of the wait stays what it was. What is due
// at a time, is due at that time. A cron expression lies between: an hour that
// comes twice is what it knows from the change of clocks, and it is dealt with
// the same way, up to cronAgain; beyond that the clock was wrong before.
const (
	// backNoticed is by how much the clock has to be put back for anything to be
	// done about it: what is late by less is as late as the look at the clock is.
	backNoticed = time.Second
	// cronAgain is up to where fixed hours that come again are not run again. It is
	// what cron itself has always taken for a correction.
	cronAgain = 3 * time.Hour
)

// putBack is by how much the wall clock was put back between two readings, as
// far as they can tell: exactly if they have a monotonic part; else what it is
// behind.
func putBack(last, now time.Time) time.Duration {
	if last.IsZero() {
		return 0
	}
	return max(now.Sub(last), 0) - now.Round(0).Sub(last.Round(0))
}

// notice is called in each turn, and sees that the clock was put back since the
// one before.
func (s *Schedule) notice(rows Rows) {
	now := rows.Now()
	by := putBack(s.seen, now)
	switch {
	case by >= backNoticed:
		for _, r := range slices.Clone(s.table.ordered) {
			s.rewind(rows, r, by, now.Round(0))
		}
		s.sources.rewind(by)
		if at := s.table.Destroy; !at.IsZero() {
			s.condemn(rows, rewound(at, by, now.Round(0)))
		}
		s.seen = now
	case now.After(s.seen):
		s.seen = now
	}
}

// noticeWritten sees by the rows themselves that the clock was put back: they were
// written in what is the future now.
func (s *Schedule) noticeWritten(rows Rows) {
	now := rows.Now()
	for _, r := range slices.Clone(s.table.ordered) {
		if by := r.Wrote.Sub(now); by >= backNoticed {
			s.rewind(rows, r, by, now.Round(0))
		}
	}
	if latest := now.Round(0).Add(MaxUncounted); s.table.Destroy.After(latest) {
		s.condemn(rows, wall(latest))
	}
	s.seen = now
}

// rewound is a time that is as far from now as it was before.
func rewound(at time.Time, by time.Duration, now time.Time) time.Time {
	if at = at.Add(-by); at.Before(now) {
		at = now
	}
	return wall(at)
}

// rewind moves a row along with a clock that was put back.
func (s *Schedule) rewind(rows Rows, r *row, by time.Duration, now time.Time) {
	s.update(rows, r, func(r *row) {
		if r.Running != nil {
			run := *r.Running
			run.Since = wall(run.Since.Add(-by))
			r.Running = &run
		}
		if !r.check.IsZero() {
			r.check = rewound(r.check, by, now)
		}
		switch retry := r.Next.After(r.Due); {
		case r.Kind == Delay, r.Kind == Interval:
			r.Due, r.Next = rewound(r.Due, by, now), rewound(r.Next, by, now)
		case retry:
			r.Next = rewound(r.Next, by, now)
		case r.Kind == Cron:
			r.rewindCron(by, now)
		}
	})
}

// rewindCron finds the next time again.
func (r *row) rewindCron(by time.Duration, now time.Time) {
	c, err := parseCron(r.Spec, r.Zone)
	if err != nil || !c.hourly && by <= cronAgain {
		return // what does not parse is set aside when it is due
	}
	if at, ok := c.next(now); ok && at.Before(r.Due) {
		r.Due, r.Next = at, at
	}
}

// rewind moves what is held back along with a clock that was put back.
func (s *sources) rewind(by time.Duration) {
	if !s.hold.IsZero() {
		s.hold = s.hold.Add(-by)
	}
}
