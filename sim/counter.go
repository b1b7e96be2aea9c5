package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// increment is one that somebody has asked a counter for.
type increment struct {
	sent, done time.Duration // since the start of the world; done only when it was answered
	answer     int           // 0: nothing is known of it
}

// counting is a counter that is incremented: the state is how often, and each answer is
// the number that it came to.
var counting = porcupine.Model{
	Init:  func() any { return 0 },
	Step:  func(state, _, output any) (bool, any) { return output.(int) == state.(int)+1, output },
	Equal: func(a, b any) bool { return a == b },
}

// linearizable: an increment that was acknowledged has happened once, between its
// request and its answer, and one of which nothing is known at most once, at any time
// after its request.
//
// A search that leaves open what has happened to those is exponential in their number,
// and there are many. But each number that nobody has been told was counted for one of
// them, and if any assignment will do, then the one in order: the least number to the
// one that was sent first. So all that happened has an answer, and at each state one
// operation alone can come next.
func linearizable(all []increment) bool {
	var known, unknown []increment
	most := 0
	for _, i := range all {
		if i.answer == 0 {
			unknown = append(unknown, i)
		} else {
			known, most = append(known, i), max(most, i.answer)
		}
	}
	told := make([]bool, most+1)
	for _, i := range known {
		told[i.answer] = true
	}
	slices.SortStableFunc(unknown, func(a, b increment) int { return cmp.Compare(a.sent, b.sent) })
	for n := 1; n <= most; n++ {
		switch {
		case told[n]:
		case len(unknown) == 0:
			return false // it was counted, and nobody has asked for it
		default:
			known = append(known, increment{sent: unknown[0].sent, done: 1 << 62, answer: n})
			unknown = unknown[1:]
		}
	}
	var ops []porcupine.Operation
	for i, op := range known {
		ops = append(ops, porcupine.Operation{ClientId: i, Call: int64(op.sent), Output: op.answer, Return: int64(op.done)})
	}
	return porcupine.CheckOperations(counting, ops)
}
