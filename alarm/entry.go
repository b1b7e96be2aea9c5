package alarm

import "time"

// Entry is one schedule of an object.
type Entry struct {
	// ID names it within the object.
	ID string
	// Next is when it is due.
	Next time.Time
}

// row is an entry as it is kept.
type row struct {
	Entry
	// check is when a row that has been taken is looked at again; zero: not taken.
	check time.Time
}

// wake is when the row wants its object to be woken.
func (r *row) wake() time.Time {
	if !r.check.IsZero() {
		return r.check
	}
	return r.Next
}
