package alarm

import (
	"errors"
	"fmt"
	"time"
)

// MaxStrikes is how many runs in a row may run the object out of memory before
// the schedule is taken for the reason.
const MaxStrikes = 3

var (
	errPoison   = fmt.Errorf("its runs have run the object out of memory %d times in a row", MaxStrikes)
	errPanicked = errors.New("its run panicked")
)

// Reset is what the host remembers of an incarnation that was reset.
type Reset struct {
	// Epoch is its number; 0 when nothing is remembered: another process has ended
	// with it.
	Epoch uint64
	// Schedule is the one whose callback the object was running at that moment.
	// Empty: none, or it was awaiting.
	Schedule string
	// Own: it was this object's own doing. Memory: the isolate ran out of memory, and
	// it was this object's demand that did not fit. Panic: the object's code panicked.
	Own, Memory, Panic bool
}

// strikeWait is the back-off after strikes in a row: 30 s for each, 300 at most.
func strikeWait(strikes int) time.Duration {
	return min(300*time.Second, time.Duration(strikes)*30*time.Second)
}

// lostWait is that after runs that were cut short by no fault that is known to be
// theirs: at once would be within milliseconds.
func lostWait(lost int) time.Duration {
	if lost <= 1 {
		return time.Second
	}
	return strikeWait(lost - 1)
}

// settle deals with the runs that earlier incarnations have left unfinished. None
// costs an attempt, but for a panic, which is the callback's own failure.
func (s *Schedule) settle(rows Rows) {
	last := s.o.Owner.Last()
	now := rows.Now().Round(0)
	var unfinished []*row
	for _, r := range s.table.ordered {
		if r.Running != nil && r.Running.Epoch != s.o.Epoch {
			unfinished = append(unfinished, r)
		}
	}
	for _, r := range unfinished {
		known := last.Epoch == r.Running.Epoch
		suspect := known && last.Own && (last.Schedule == r.ID || last.Schedule == "")
		culprit := suspect && (last.Schedule == r.ID || len(unfinished) == 1)
		switch {
		case culprit && last.Memory:
			s.strike(rows, r, now)
		case culprit && last.Panic:
			s.failed(rows, r, now, errPanicked)
		case known && !suspect:
			// The reset was not about this run. It is run again as soon as can be.
			s.count(CutShort)
			s.update(rows, r, func(r *row) { r.Running = nil })
		default:
			s.lost(rows, r, now)
		}
	}
}

func (s *Schedule) strike(rows Rows, r *row, now time.Time) {
	s.count(CutShort)
	strikes := r.Strikes + 1
	if strikes >= MaxStrikes {
		s.retire(rows, r, errPoison)
		return
	}
	s.update(rows, r, func(r *row) {
		r.Running, r.Strikes, r.Next = nil, strikes, wall(now.Add(strikeWait(strikes)))
	})
	s.o.Logger.Error("a schedule has run its object out of memory", "object", s.o.ID.String(), "schedule", r.ID, "callback", r.Callback,
		"strikes", strikes, "of", MaxStrikes, "again", r.Next)
}

func (s *Schedule) lost(rows Rows, r *row, now time.Time) {
	s.count(CutShort)
	s.update(rows, r, func(r *row) {
		r.Lost++
		r.Running, r.Next = nil, wall(now.Add(lostWait(r.Lost)))
	})
	s.o.Logger.Warn("a run was cut short", "object", s.o.ID.String(), "schedule", r.ID, "callback", r.Callback, "times", r.Lost, "again", r.Next)
}
