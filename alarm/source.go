package alarm

import (
	"log/slog"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// sources are the owner's deadlines. They are code, not rows: each incarnation
// registers its own.
type sources struct {
	id    storage.ID
	log   *slog.Logger
	named []named
	held  []Source // the same, as Reassert consults them

	// hold lifts what wants to be earlier, for a while: the owner's handler is
	// running, has failed, or has left its deadline where it was.
	hold     time.Time
	running  bool
	resumed  bool
	failures int // of the owner's handler, in a row
}

type named struct {
	name   string
	source Source
}

// spin is how far a source is pushed that still wants a time in the past after
// its alarm has run: an alarm must not spin.
const spin = time.Second

// grain is what a deadline by the monotonic clock is rounded up to. The wall clock is
// slewed against that, a little in every second: the alarm of a deadline that stays where
// it is would be another one in every turn, and would be written in every turn.
const grain = time.Millisecond

func (s *sources) add(name string, source Source) {
	for i := range s.named {
		if s.named[i].name == name {
			s.named[i].source = source
			return
		}
	}
	i := len(s.named)
	s.named = append(s.named, named{name, source})
	s.held = append(s.held, func(now time.Time) time.Time {
		asked := s.named[i].source(now)
		at := byWall(asked, now)
		if at.After(now.Round(0)) { // what is due already must not be rounded into the future
			if at = wall(at); hasMonotonic(asked) {
				at = at.Add(grain - 1).Truncate(grain)
			}
		}
		if !at.IsZero() && at.Before(s.hold) {
			return s.hold
		}
		return at
	})
}

// resume takes up the back-off that an earlier incarnation has left in the row.
func (s *sources) resume(was storage.Alarm, now time.Time) {
	if !s.resumed && was.Retry > 0 {
		longest, _ := Backoff(min(was.Retry, MaxRetries)-1, 1)
		s.hold, s.failures = soonest(was.At, now.Add(longest)), was.Retry // the clock may have been put back
	}
	s.resumed = true
}

// due reports whether a source is due and the owner's handler must run. From
// then on it is taken as running, and if the object crashes it runs again within
// a heartbeat.
func (s *sources) due(now time.Time, retry int) bool {
	asked := now
	now = now.Round(0)
	if s.running {
		s.hold = now.Add(Heartbeat)
		return false
	}
	for _, source := range s.held {
		if at := source(asked); !at.IsZero() && !at.After(now) {
			s.running, s.hold = true, now.Add(Heartbeat)
			s.failures = max(s.failures, retry)
			return true
		}
	}
	return false
}

// ran is told what the owner's handler came to.
func (s *sources) ran(now time.Time, err error, condemned bool) {
	asked := now
	now = now.Round(0)
	s.running, s.hold = false, time.Time{}
	if err != nil {
		s.failures++
		wait, _ := Backoff(min(s.failures, MaxRetries)-1, Jitter(s.id, s.failures))
		s.hold = now.Add(wait)
		s.log.Warn("alarm failed", "object", s.id.String(), "failures", s.failures, "again", wait, "error", err)
		return
	}
	s.failures = 0
	if condemned {
		return // nobody asks the sources any more
	}
	for _, n := range s.named {
		if at := byWall(n.source(asked), asked); !at.IsZero() && !at.After(now) {
			s.hold = now.Add(spin)
			s.log.Error("an alarm has run and its source still wants a time in the past", "object", s.id.String(),
				"source", n.name, "wants", at, "now", now)
		}
	}
}

// byWall is a source's time by the wall clock. One with a monotonic reading, such
// as that of the last request and five minutes, is as far from now as it was
// meant to be, however the wall clock has jumped in between.
func byWall(at, now time.Time) time.Time {
	switch {
	case at.IsZero():
		return at
	case !hasMonotonic(at):
		return possible(at)
	}
	return possible(now.Round(0).Add(at.Sub(now)))
}

// hasMonotonic compares values: Equal does not see whether there is such a reading.
func hasMonotonic(t time.Time) bool { return t != t.Round(0) }

// possible is the nearest time to at that an alarm can have: a source may say any.
func possible(at time.Time) time.Time {
	switch {
	case at.Before(first):
		return first
	case at.After(never):
		return never
	}
	return at
}

// wall is a time as storage keeps it: no monotonic reading, and rounded up to
// the resolution of an alarm row, so that none fires early.
func wall(t time.Time) time.Time { return storage.Alarm{At: t}.Normal().At }
