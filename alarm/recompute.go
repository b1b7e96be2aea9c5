package alarm

import "time"

// Answer is what an object's one alarm has to be: set to At, or, when At is
// zero, deleted.
type Answer struct {
	At time.Time
	// Owned: it is a pending destroy's, and nobody may bring another time.
	Owned bool
}

// Delete reports that the answer is to delete the alarm.
func (a Answer) Delete() bool { return a.At.IsZero() }

// orEarlier is the answer, or at if that is earlier; a zero at is no time at all.
func (a Answer) orEarlier(at time.Time) Answer {
	if !at.IsZero() && (a.Delete() || at.Before(a.At)) {
		a.At = at
	}
	return a
}

// Recompute is the answer of the schedule layer, from its own sources and from
// nothing else: the earliest of what the table and the keep-alives want, or to
// delete the alarm when they want nothing. It does not ask whether somebody else
// wanted the alarm: that is the trap, and it is left as it is. See [Reassert].
func Recompute(t Table, k KeepAlives, now time.Time) Answer {
	if !t.Destroy.IsZero() {
		return Answer{At: t.Destroy, Owned: true}
	}
	var a Answer
	if at, ok := t.first(); ok {
		a = a.orEarlier(at)
	}
	if k.Count > 0 {
		a = a.orEarlier(k.Beat).orEarlier(now.Add(Heartbeat))
	}
	return a
}
