package actor

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// isolate is the group of incarnations that share a heap and are reset together.
type isolate struct {
	h *Host
	n int

	mu      sync.Mutex
	members map[*incarnation]struct{}
	heap    int64            // bytes charged
	classes map[string]int64 // members by class
	// abandoned are incarnations that are members no more, and in which a turn that
	// overran goes on: what they have charged is still held.
	abandoned map[*incarnation]struct{}

	waiters   []*waiter     // charges that wait for memory, oldest first
	round     *round        // of reclamation; nil: none is under way
	nextRound time.Duration // when the soft limit may ask for another, since the host began

	// unwritten are the bytes of batches that are not yet durable: the cache of what
	// is written.
	unwritten atomic.Int64
}

// base is what an incarnation itself is charged, in bytes: about what a small
// one was measured to keep.
const base = 2 << 10

func newIsolate(h *Host, n int) *isolate {
	return &isolate{h: h, n: n, members: map[*incarnation]struct{}{}, classes: map[string]int64{}, abandoned: map[*incarnation]struct{}{}}
}

func (h *Host) isolateOf(id storage.ID) *isolate {
	return h.isolates[fnv(id)%uint64(len(h.isolates))]
}

// fnv is a hash that is the same in every process, so that an object keeps its
// isolate and the simulator its history.
func fnv(id storage.ID) uint64 {
	x := uint64(14695981039346656037)
	for _, s := range [...]string{id.Class, "\x00", id.Name} {
		for i := range len(s) {
			x = (x ^ uint64(s[i])) * 1099511628211
		}
	}
	return x
}

func (i *isolate) add(inc *incarnation) {
	i.mu.Lock()
	i.members[inc] = struct{}{}
	i.classes[inc.id.Class]++
	i.heap += base
	i.mu.Unlock()
	i.relieve()
}

// remove ends an incarnation's membership and gives back all that it charged.
func (i *isolate) remove(inc *incarnation) {
	i.mu.Lock()
	if i.leave(inc) {
		i.heap -= base + inc.charged
		i.answer(inc)
		inc.charged = 0
		i.grant()
	}
	i.mu.Unlock()
	i.goOn()
}

// leave ends an incarnation's membership; its charges that wait fail. Called with the
// lock.
func (i *isolate) leave(inc *incarnation) bool {
	if _, ok := i.members[inc]; !ok {
		return false
	}
	delete(i.members, inc)
	i.classes[inc.id.Class]--
	i.waiters = slices.DeleteFunc(i.waiters, func(w *waiter) bool {
		if w.inc == inc {
			w.wake.Set()
		}
		return w.inc == inc
	})
	return true
}

// abandon is remove for an incarnation in which a turn goes on: it keeps its
// charge until ended.
func (i *isolate) abandon(inc *incarnation) {
	i.mu.Lock()
	if i.leave(inc) {
		i.abandoned[inc] = struct{}{}
		if i.round != nil {
			delete(i.round.asked, inc) // it gives nothing
		}
		i.grant() // what it has waited for, others may have
	}
	i.mu.Unlock()
	i.goOn()
}

// ended is told that the turn of an abandoned incarnation has ended.
func (i *isolate) ended(inc *incarnation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.abandoned[inc]; ok {
		delete(i.abandoned, inc)
		i.heap -= base + inc.charged
		inc.charged = 0
		i.grant()
	}
}

// cache makes room for a batch that is about to be submitted. What does not fit
// resets the isolate.
func (i *isolate) cache(inc *incarnation, n int64) error {
	held := i.unwritten.Add(n)
	if held <= i.h.o.CacheLimit {
		return nil
	}
	i.unwritten.Add(-n)
	i.reset(CacheOverflow, fmt.Errorf("isolate %d holds %d of %d bytes that are not yet written, and %s has written %d more",
		i.n, held-n, i.h.o.CacheLimit, inc.id, n))
	return inc.err()
}

// charge accounts for memory. What does not fit waits where reclaiming can help, or
// resets the isolate, whoever filled it: the error names the victim, and the largest
// holders. A waiter is what the charge has yet to wait for.
func (i *isolate) charge(inc *incarnation, n int64) (*waiter, error) {
	i.mu.Lock()
	if _, ok := i.members[inc]; !ok {
		i.mu.Unlock()
		return nil, inc.err()
	}
	if i.fits(n) && len(i.waiters) == 0 {
		i.take(inc, n)
		i.mu.Unlock()
		i.relieve()
		return nil, nil
	}
	if i.reclaims() && i.enough(inc, n) {
		w := &waiter{inc: inc, bytes: n, since: i.h.o.Clock.Now(), wake: i.h.o.Runner.Signal()}
		i.waiters = append(i.waiters, w)
		i.mu.Unlock()
		i.reclaim()
		return w, nil
	}
	err := i.full(inc, n, "")
	i.mu.Unlock()
	return nil, i.overflow(inc, err)
}

// fits: there is room for n bytes, however many those are. Called with the lock.
func (i *isolate) fits(n int64) bool { return n <= i.h.o.HeapLimit-i.heap }

// take is called with the lock.
func (i *isolate) take(inc *incarnation, n int64) {
	i.heap += n
	inc.charged += n
}

// full says that a charge does not fit, and who holds what. Called with the lock.
func (i *isolate) full(inc *incarnation, n int64, why string) error {
	if why != "" {
		why = "; " + why
	}
	return fmt.Errorf("isolate %d holds %d of %d bytes and %s asked for %d more%s; the largest holders: %s",
		i.n, i.heap, i.h.o.HeapLimit, inc.id, n, why, i.named())
}

// overflow resets the isolate for a charge that does not fit.
func (i *isolate) overflow(victim *incarnation, reason error) error {
	victim.asked.Store(true)
	i.reset(MemoryLimit, reason)
	return victim.err()
}

func (i *isolate) discharge(inc *incarnation, n int64) {
	i.mu.Lock()
	if _, ok := i.members[inc]; ok {
		i.take(inc, -n)
		i.grant()
	}
	i.mu.Unlock()
}

// reset breaks every member, and returns how many that were.
func (i *isolate) reset(c Cause, reason error) int {
	i.mu.Lock()
	all := slices.SortedFunc(maps.Keys(i.members), func(a, b *incarnation) int {
		return byID(a.id, b.id)
	})
	i.mu.Unlock()
	i.h.log.Warn("isolate reset", "isolate", i.n, "cause", c.String(), "objects", len(all), "reason", reason)
	// All at once: who hears of it finds no neighbour alive that is about to go.
	type condemned struct {
		*incarnation
		left []*socket
	}
	broken := make([]condemned, 0, len(all))
	for _, inc := range all {
		if left, ok := inc.condemn(&Error{Op: "run", ID: inc.id, Epoch: inc.epoch, Cause: c, Err: reason}); ok {
			broken = append(broken, condemned{inc, left})
		}
	}
	for _, one := range broken {
		one.bury(one.left)
	}
	i.h.watcher.isolateReset(i.n, c, len(broken), reason)
	return len(broken)
}

// Isolate is what an isolate holds at a moment.
type Isolate struct {
	Objects         map[string]int64 // those in memory, by class
	Heap, HeapLimit int64            // what is charged, and what may be, in bytes
	// SoftLimit is where reclaiming begins; negative: it does not.
	SoftLimit int64
}

// Isolate looks at an isolate; n is below Isolates.
func (h *Host) Isolate(n int) Isolate {
	i := h.isolates[n]
	i.mu.Lock()
	defer i.mu.Unlock()
	return Isolate{maps.Clone(i.classes), i.heap, h.o.HeapLimit, h.o.SoftLimit}
}

// Heap is what is charged on an isolate's heap, in bytes.
func (h *Host) Heap(isolate int) int64 {
	i := h.isolates[isolate]
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.heap
}
