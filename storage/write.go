package storage

import "time"

// Write is an admitted batch: what a backend has to store, in the order Clear,
// Deletes, Puts, and then the alarm and the fence row.
type Write struct {
	*Batch
	// Fence asks for the object's fence row to be set to the batch's epoch.
	Fence bool
	// Was is the object's alarm before the batch, Is after it; both are normal,
	// and zero for none. Was is what has to leave the index.
	Was, Is Alarm

	incarnation *Incarnation
}

// AlarmRow reports whether the alarm row has to be written: it changed, or a
// Clear has removed it.
func (w *Write) AlarmRow() bool { return !w.Is.At.IsZero() && (w.Clear || !w.Was.same(w.Is)) }

// DropAlarmRow reports whether the alarm row has to be deleted, apart from a
// Clear that does it anyway.
func (w *Write) DropAlarmRow() bool {
	return !w.Clear && w.Is.At.IsZero() && !w.Was.At.IsZero()
}

// IndexEntry reports whether the alarm's index entry has to be written.
func (w *Write) IndexEntry() bool { return !w.Is.At.IsZero() && !w.Was.same(w.Is) }

// DropIndexEntry reports whether the index entry of Was has to be deleted.
func (w *Write) DropIndexEntry() bool { return !w.Was.At.IsZero() && !w.Was.At.Equal(w.Is.At) }

// AlarmSet is the time that the observer hears of, if the batch sets an alarm.
func (w *Write) AlarmSet() (at time.Time, ok bool) {
	return w.Is.At, w.Alarm != nil && !w.Is.At.IsZero()
}

// Backend is what a Committer writes to: an ordered store with atomic groups.
type Backend interface {
	// NextBoot makes the next boot number durable and returns it. It is called
	// once before the first claim, and again if a boot's counter is used up.
	NextBoot() (uint32, error)
	// Head reads the epoch of an object's fence row (0: none) and its alarm row.
	// It sees every group that has been applied.
	Head(id ID) (epoch uint64, alarm Alarm, err error)
	// NewGroup begins an empty group.
	NewGroup() Group
}

// Group is a set of writes that lands as one. Add and Apply are called by one
// goroutine, Wait by another; groups are applied and waited for in order.
type Group interface {
	// Add appends a write. It keeps no reference to the batch after Apply. Of a
	// write that clears an object, it may read the rows: whatever was written to
	// the object before has been applied.
	Add(w Write)
	// Apply makes the group visible and begins to make it durable.
	Apply() error
	// Wait returns when the group is durable. The group is not used afterwards.
	// An error of Apply or Wait is final for the store.
	Wait() error
}
