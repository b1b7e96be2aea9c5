package alarm

import "time"

// Source is a deadline of the object's owner: when the object has to be woken,
// seen from now; zero when it has not. It is asked at the end of every turn, must
// be cheap, and must not use the turn.
type Source func(now time.Time) time.Time

// Reassert takes the schedule layer's answer and returns the earlier of that and
// what the owner's sources want. It is the whole cure for an alarm that is
// erased by a layer that does not know whose it is: whatever that layer has
// decided, also to delete, the owner's deadlines are asserted again, each time.
func Reassert(a Answer, sources []Source, now time.Time) Answer {
	if a.Owned {
		return a
	}
	for _, s := range sources {
		a = a.orEarlier(s(now))
	}
	return a
}
