package actor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/storage"
)

// Holder is an object that takes a part of its isolate's heap.
type Holder struct {
	ID    storage.ID
	Bytes int64 // charged
	// Abandoned: the object was reset, and a turn of it that overran goes on.
	Abandoned bool
}

// Holders are the objects that take most of an isolate's heap, the largest first, and at
// most so many; n is below Isolates. It looks at each object in the isolate's memory once
// and keeps no more than it returns.
func (h *Host) Holders(n, most int) []Holder {
	i := h.isolates[n]
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.holders(most)
}

// holders is called with the lock.
func (i *isolate) holders(most int) []Holder {
	top := make([]Holder, 0, min(most, len(i.members)+len(i.abandoned)))
	before := func(a, b Holder) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), byID(a.ID, b.ID)) }
	see := func(inc *incarnation, abandoned bool) {
		one := Holder{inc.id, base + inc.charged, abandoned}
		if len(top) == most {
			if most == 0 || before(top[most-1], one) < 0 {
				return
			}
			top = top[:most-1]
		}
		at, _ := slices.BinarySearchFunc(top, one, before)
		top = slices.Insert(top, at, one)
	}
	// In any order: they are put in theirs.
	for inc := range i.members {
		see(inc, false)
	}
	// In any order: so are they.
	for inc := range i.abandoned {
		see(inc, true)
	}
	return top
}

// named is who holds most, in words. Called with the lock.
func (i *isolate) named() string {
	var all []string
	for _, one := range i.holders(3) {
		all = append(all, fmt.Sprintf("%s (%d bytes)", one.ID, one.Bytes))
	}
	return strings.Join(all, ", ")
}
