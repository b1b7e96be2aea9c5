package actor

import (
	"slices"
	"sync"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// gate is an incarnation's output gate: what leaves the object waits here behind
// the batches it rests on (I2). It also remembers the batches under way, since
// the object must read its own writes before the store has applied them.
type gate struct {
	mu       sync.Mutex
	sealed   uint64    // number of the last batch submitted
	durable  uint64    // number of the last batch confirmed
	under    *underway // nil: nothing is
	draining bool
	broken   bool
	frozen   bool // nothing leaves until the incarnation is reset
}

// underway is what a gate holds. Most gates hold nothing: their objects rest.
type underway struct {
	pending []*storage.Batch
	dirty   int64      // bytes of them
	room    run.Signal // of a write that waits for fewer of them; nil: none does
	waiting []output

	// The first of each: mostly there is one, and the response that rests on it.
	one [1]*storage.Batch
	two [2]output
}

type output struct {
	behind uint64
	leave  func()
}

// holds is what the gate holds, to be added to. Called with the lock.
func (g *gate) holds() *underway {
	if g.under == nil {
		u := &underway{}
		u.pending, u.waiting = u.one[:0], u.two[:0]
		g.under = u
	}
	return g.under
}

// waits reports that something waits to leave. Called with the lock.
func (g *gate) waits() bool { return g.under != nil && len(g.under.waiting) > 0 }

// rest lets go of what holds nothing. Called with the lock.
func (g *gate) rest() {
	if u := g.under; u != nil && len(u.pending) == 0 && len(u.waiting) == 0 && u.room == nil {
		g.under = nil
	}
}

// seal numbers a batch of a size that is about to be submitted.
func (g *gate) seal(b *storage.Batch, size int64) {
	g.mu.Lock()
	g.sealed++
	u := g.holds()
	u.dirty += size
	u.pending = append(u.pending, b)
	g.mu.Unlock()
}

// pass lets outputs leave, in order, as soon as every batch sealed before is
// durable.
func (g *gate) pass(leave []func()) {
	if len(leave) == 0 {
		return
	}
	g.mu.Lock()
	if !g.draining && !g.waits() && g.sealed == g.durable {
		leave = g.through(leave) // there is nothing to wait for
	}
	if len(leave) > 0 {
		u := g.holds()
		u.waiting = slices.Grow(u.waiting, len(leave))
		for _, f := range leave {
			u.waiting = append(u.waiting, output{g.sealed, f})
		}
	}
	g.drain()
}

// through runs outputs at once, as drain does, and returns what is kept in.
func (g *gate) through(leave []func()) []func() {
	g.draining = true
	for len(leave) > 0 && !g.broken && !g.frozen {
		f := leave[0]
		leave = leave[1:]
		g.mu.Unlock()
		f()
		g.mu.Lock()
	}
	g.draining = false
	return leave
}

// confirmed is told that the oldest batch under way, of that size, is durable.
func (g *gate) confirmed(size int64) {
	g.mu.Lock()
	g.durable++
	if u := g.under; u != nil {
		u.dirty -= size
		if u.room != nil {
			u.room.Set()
		}
		if len(u.pending) > 0 {
			u.pending[0] = nil
			u.pending = u.pending[1:]
		}
	}
	g.drain()
}

// drain runs what may leave. It is called with the lock and gives it back; one
// caller drains at a time, so that outputs leave in order.
func (g *gate) drain() {
	if g.draining {
		g.mu.Unlock()
		return
	}
	g.draining = true
	for !g.broken && !g.frozen && g.waits() && g.under.waiting[0].behind <= g.durable {
		u := g.under
		f := u.waiting[0].leave
		u.waiting[0].leave = nil
		u.waiting = u.waiting[1:]
		g.mu.Unlock()
		f()
		g.mu.Lock()
	}
	g.draining = false
	g.rest()
	g.mu.Unlock()
}

// below reports that less than a number of bytes is under way. Where it is more, room
// is set when it has become less, or the gate is shut.
func (g *gate) below(limit int64, room run.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.under
	if u == nil || g.broken {
		return true
	}
	if u.room = nil; u.dirty < limit {
		return true
	}
	u.room = room
	return false
}

// shut drops what waits; nothing leaves any more.
func (g *gate) shut() {
	g.mu.Lock()
	u := g.under
	g.broken, g.under = true, nil
	if u != nil && u.room != nil {
		u.room.Set()
	}
	g.mu.Unlock()
}

// freeze keeps everything in until the incarnation is reset.
func (g *gate) freeze() {
	g.mu.Lock()
	g.frozen = true
	g.mu.Unlock()
}

// commits counts the ends of commits, twice; it is odd while one is under way.
func (g *gate) commits() uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := uint32(g.durable) //nolint:gosec // what is compared is whether it has changed
	if g.sealed > g.durable {
		return 2*n + 1
	}
	return 2 * n
}

// idle reports that nothing is under way.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sealed == g.durable && !g.waits() && !g.draining && !g.frozen
}

// unapplied returns the batches that the store may not have applied yet, oldest
// first.
func (g *gate) unapplied() []*storage.Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.under == nil || len(g.under.pending) == 0 {
		return nil
	}
	return append([]*storage.Batch(nil), g.under.pending...)
}
