package alarm

import (
	"container/heap"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// deferral is an object whose alarm could not be run, until it is tried again.
type deferral struct {
	due      storage.Due
	failures int
	rearm    bool
	wait     time.Duration
	until    time.Time
	index    int // in the heap
}

// deferrals are the objects that back off: up to a bound one by one, beyond it
// as one spill.
type deferrals struct {
	bound int
	heap  deferralHeap
	byID  map[storage.ID]*deferral
	spill spill
}

func newDeferrals(bound int) deferrals {
	return deferrals{bound: bound, byID: make(map[storage.ID]*deferral)}
}

func (d *deferrals) has(id storage.ID) bool { return d.byID[id] != nil }

// add reports false when the bound is reached.
func (d *deferrals) add(e deferral) bool {
	if len(d.heap) >= d.bound {
		return false
	}
	heap.Push(&d.heap, &e)
	d.byID[e.due.ID] = &e
	return true
}

func (d *deferrals) drop(id storage.ID) {
	if e := d.byID[id]; e != nil {
		heap.Remove(&d.heap, e.index)
		delete(d.byID, id)
	}
}

// takeDue takes out the one that has waited enough.
func (d *deferrals) takeDue(now time.Time) (*deferral, bool) {
	if len(d.heap) == 0 || d.heap[0].until.After(now) {
		return nil, false
	}
	e := d.heap[0]
	d.drop(e.due.ID)
	return e, true
}

// earliest is when the first of them has waited enough, or the spill has.
func (d *deferrals) earliest() (time.Time, bool) {
	switch {
	case len(d.heap) == 0:
		return d.spill.until, d.spill.on
	case d.spill.on && d.spill.until.Before(d.heap[0].until):
		return d.spill.until, true
	default:
		return d.heap[0].until, true
	}
}

// rebase makes sure that nothing waits longer from now than it was to wait at
// all: the clock has gone back.
func (d *deferrals) rebase(now time.Time) {
	for _, e := range d.heap {
		e.until = soonest(e.until, now.Add(e.wait))
	}
	heap.Init(&d.heap)
	d.spill.until = soonest(d.spill.until, now.Add(d.spill.wait))
	d.spill.ended = soonest(d.spill.ended, now)
}

func soonest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// spill stands for the rows that there was no room to remember one by one: those
// from low to high. They stay in storage, where they are, and nothing in that
// part of the index is looked at until their common back-off is over; then the
// index is read again from low on. What is set in the meantime at such an old
// time waits with them; what is set at a later time does not.
type spill struct {
	on        bool
	low, high storage.Cursor
	until     time.Time
	wait      time.Duration
	overflows int       // in a row
	ended     time.Time // when the one before ended
}

// add puts the row at a position into the spill.
func (s *spill) add(position storage.Cursor, now time.Time) {
	if !s.on {
		if now.Sub(s.ended) > 2*s.wait {
			s.overflows = 0 // that one went well
		}
		s.wait = BackoffUncounted(s.overflows, 0)
		s.overflows++
		s.on, s.until = true, now.Add(s.wait)
		s.low, s.high = storage.Cursor{At: position.At}, position
		return
	}
	if before(s.high, position) {
		s.high = position
	}
	s.reach(storage.Cursor{At: position.At})
}

// reach makes the spill begin at a position, if it begins later.
func (s *spill) reach(to storage.Cursor) {
	if before(to, s.low) {
		s.low = to
	}
}

// covers reports whether the row at a position is left alone for now, and sees
// to it that it won't be forgotten.
func (s *spill) covers(position storage.Cursor) bool {
	if !s.on || before(s.high, position) {
		return false
	}
	s.reach(storage.Cursor{At: position.At})
	return true
}

// end returns from where the index is to be read again, once it is time.
func (s *spill) end(now time.Time) (from storage.Cursor, ended bool) {
	if !s.on || s.until.After(now) {
		return storage.Cursor{}, false
	}
	s.on, s.ended = false, now
	return s.low, true
}

// deferralHeap has the one that is due first at its top.
type deferralHeap []*deferral

func (h deferralHeap) Len() int           { return len(h) }
func (h deferralHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

func (h deferralHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *deferralHeap) Push(x any) {
	e := x.(*deferral)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *deferralHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
