package session

import (
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/seams"
)

// sources are the session's deadlines, less what a test takes out of them.
func (s *state) sources(out seams.Session) (idle, keep alarm.Source) {
	idle, keep = s.idleDeadline, s.keepDeadline
	if out.RearmWhileIdle {
		idle = s.rearmed
	}
	if out.NoRelease {
		idle, keep = s.asTaken(idle), s.asTaken(keep)
	}
	return idle, keep
}

// rearmed is the idle deadline of a session that does not look whether there is
// anything to reclaim.
func (s *state) rearmed(now time.Time) time.Time {
	if s.alive() && s.cfg != nil && s.rt.phase == none {
		return s.active.Add(s.cfg.IdleTimeout)
	}
	return s.idleDeadline(now)
}

// asTaken is a source as it is known to an alarm that is derived only when
// something is taken: a runtime, a request sent to it, a question to the client.
// What is given back changes nothing, until the alarm rings.
func (s *state) asTaken(source alarm.Source) alarm.Source {
	type takings struct {
		gen   uint64
		phase phase
		sent  int64
		asked uint64
	}
	var last *takings
	var at time.Time
	return func(now time.Time) time.Time {
		taken := takings{s.rt.gen, s.rt.phase, s.rt.next, s.askNext}
		rings := !at.IsZero() && !at.After(now)
		if last == nil || taken != *last || rings {
			last, at = &taken, source(now)
		}
		return at
	}
}
