package actor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kalpahost/kalpa/storage"
)

// The largest holders are those that sorting all of them would give, abandoned ones
// among them; of those that hold as much, the first by name.
func TestHoldersAreTheLargest(t *testing.T) {
	i := &isolate{members: map[*incarnation]struct{}{}, abandoned: map[*incarnation]struct{}{}}
	var want []Holder
	for n := range 1000 {
		inc := &incarnation{id: storage.ID{Class: "c", Name: fmt.Sprintf("%03d", n)}, charged: int64(n * 7 % 50)}
		in := i.members
		if n%10 == 0 {
			in = i.abandoned
		}
		in[inc] = struct{}{}
		want = append(want, Holder{inc.id, base + inc.charged, n%10 == 0})
	}
	slices.SortStableFunc(want, func(a, b Holder) int { return int(b.Bytes - a.Bytes) }) // by name already
	for _, most := range []int{0, 1, 3, 40, 1000, 5000} {
		if got := i.holders(most); !slices.Equal(got, want[:min(most, len(want))]) {
			t.Errorf("the %d largest: %v", most, got)
		}
	}
	if got, named := i.named(), fmt.Sprintf("%s (%d bytes), ", want[0].ID, want[0].Bytes); len(got) < len(named) || got[:len(named)] != named {
		t.Errorf("in words: %s", got)
	}
}
