package alarm

import (
	"slices"
	"strings"
	"time"
)

// Table is what [Recompute] knows of an object's schedules. It keeps them in the
// order in which they want to be woken.
type Table struct {
	// Destroy is when a pending destroy tears the object down; zero: none.
	Destroy time.Time

	ordered []*row
	byID    map[string]*row
}

// first is the earliest time that a schedule wants.
func (t *Table) first() (at time.Time, ok bool) {
	if len(t.ordered) == 0 {
		return at, false
	}
	return t.ordered[0].wake(), true
}

func (t *Table) len() int { return len(t.ordered) }

func (t *Table) get(id string) *row { return t.byID[id] }

func order(a, b *row) int {
	if c := a.wake().Compare(b.wake()); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

// set puts a row where it belongs; change, if not nil, is applied on the way.
// A row in the table must not be changed otherwise.
func (t *Table) set(r *row, change func(*row)) {
	t.remove(r.ID)
	if change != nil {
		change(r)
	}
	if t.byID == nil {
		t.byID = map[string]*row{}
	}
	t.byID[r.ID] = r
	i, _ := slices.BinarySearchFunc(t.ordered, r, order)
	t.ordered = slices.Insert(t.ordered, i, r)
}

func (t *Table) remove(id string) {
	old := t.byID[id]
	if old == nil {
		return
	}
	delete(t.byID, id)
	if i, ok := slices.BinarySearchFunc(t.ordered, old, order); ok {
		t.ordered = slices.Delete(t.ordered, i, i+1)
	}
}

// due lists the rows that want to be woken at now or before.
func (t *Table) due(now time.Time) []*row {
	n := 0
	for n < len(t.ordered) && !t.ordered[n].wake().After(now) {
		n++
	}
	return slices.Clone(t.ordered[:n])
}
