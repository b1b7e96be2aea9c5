package actor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// The watchdog looks at each incarnation about once a second, on the sweep's
// timer, and breaks those in which one thing has been going on for too long. It
// counts its looks instead of asking the clock, so that a clock that is set, or a
// machine that slept, resets nobody; and it costs a turn two atomic additions.

// looks are a second apart: see the sweep.
const look = sweepTick * sweepParts

// Limits of the platform whose semantics these are, beside Options.TurnLimit.
const (
	criticalLimit = 30 * time.Second
	storageLimit  = 30 * time.Second
	alarmLimit    = 15 * time.Minute
)

// stall is what the watchdog remembers of something that begins and ends again and
// again.
type stall struct {
	seen  uint32
	looks uint32
}

// lasts tells for how long the same has been going on, as far as was seen. n counts
// the begins and the ends: it is odd while something is going on.
func (s *stall) lasts(n uint32) time.Duration {
	if n != s.seen || n%2 == 0 {
		s.seen, s.looks = n, 0
		return 0
	}
	s.looks++
	return time.Duration(s.looks) * look
}

// stalls are those of an incarnation that is not at rest.
type stalls struct{ turn, read, commit, critical, alarm, teardown stall }

// overdue says what has outlasted its limit, nil for nothing. Called with the
// shard's lock.
func (inc *incarnation) overdue() *Error {
	turns, criticals, alarms, teardowns := inc.turns.Load(), inc.criticals.Load(), inc.alarms.Load(), inc.teardowns.Load()
	still := turns%2 == 0 && criticals%2 == 0 && alarms%2 == 0 && teardowns%2 == 0
	if still && turns == inc.seen && inc.stalls == nil {
		return nil // it rests, and has since the last look
	}
	commits := inc.gate.commits()
	inc.seen = turns
	if inc.stalls == nil {
		inc.stalls = &stalls{}
	}
	s := inc.stalls
	turn, read, commit := s.turn.lasts(turns), s.read.lasts(inc.reads.Load()), s.commit.lasts(commits)
	critical, handler, teardown := s.critical.lasts(criticals), s.alarm.lasts(alarms), s.teardown.lasts(teardowns)
	if still && commits%2 == 0 {
		inc.stalls = nil // from the next look on it rests
	}
	e := &Error{ID: inc.id, Epoch: inc.epoch}
	limit := inc.h.o.TurnLimit
	switch {
	case commit >= storageLimit:
		e.Op, e.Cause, e.Err = "commit", StorageTimeout, fmt.Errorf("it has not been confirmed for %v", commit)
	case read >= storageLimit:
		e.Op, e.Cause, e.Err = "read", StorageTimeout, fmt.Errorf("it has not been answered for %v", read)
	case critical >= criticalLimit && criticals == 1:
		e.Op, e.Cause, e.Err = "start", CriticalTimeout, fmt.Errorf("the constructor has been running for %v", critical)
	case critical >= criticalLimit:
		e.Op, e.Cause, e.Err = "critical section", CriticalTimeout, fmt.Errorf("it has been running for %v", critical)
	case criticals != 1 && limit > 0 && turn >= limit:
		e.Op, e.Cause, e.Err = "run", CPULimit, fmt.Errorf("one turn has been running for %v, and %v is the limit", turn, limit)
		e.Hint = "let the object's code wait in State.Await"
	case handler >= alarmLimit:
		e.Op, e.Cause, e.Err = "alarm", Aborted, fmt.Errorf("its handler has been running for %v, and %v is the limit", handler, alarmLimit)
		e.Hint = "let it do a part, and set the alarm for the rest"
	case teardown >= alarmLimit:
		e.Op, e.Cause, e.Err = "destroy", Aborted, fmt.Errorf("it has been running for %v, and %v is the limit", teardown, alarmLimit)
	default:
		return nil
	}
	e.own = e.Cause != StorageTimeout
	return e
}

// watch breaks what is overdue in a shard of the directory.
func (h *Host) watch(s *shard) {
	type late struct {
		inc *incarnation
		e   *Error
	}
	var all []late
	s.mu.Lock()
	var stuck []storage.ID
	for id, en := range s.entries {
		if en.inc == nil {
			if en.claiming {
				en.looks++
			}
			if time.Duration(en.looks)*look >= storageLimit {
				stuck = append(stuck, id)
			}
			continue
		}
		if e := en.inc.overdue(); e != nil {
			all = append(all, late{en.inc, e})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(stuck, byID)
	for _, id := range stuck {
		e := &Error{Op: "start", ID: id, Cause: StorageTimeout, Err: fmt.Errorf("it has not been claimed for %v", storageLimit)}
		h.log.Error("object could not be started", "object", id.String(), "error", e)
		h.abandon(id, e)
	}
	slices.SortFunc(all, func(a, b late) int { return cmp.Compare(a.inc.epoch, b.inc.epoch) })
	for _, l := range all {
		h.log.Error("object overran and is reset", "object", l.inc.id.String(), "epoch", l.inc.epoch, "cause", l.e.Cause.String(), "error", l.e)
		l.inc.overran.Store(true)
		l.inc.breakWith(l.e)
	}
}

// turned counts a turn that has ended. What one that overran has charged is given back.
func (inc *incarnation) turned() {
	inc.turns.Add(1)
	if inc.overran.Load() {
		inc.isolate.ended(inc)
	}
}

// Abandoned is the number of turns that overran and have not ended: their objects
// have been reset, their memory is still charged, and their goroutines can't be
// stopped. A host on which it grows should be restarted.
func (h *Host) Abandoned() int {
	n := 0
	for _, i := range h.isolates {
		i.mu.Lock()
		n += len(i.abandoned)
		i.mu.Unlock()
	}
	return n
}
