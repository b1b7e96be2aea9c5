package actor

import (
	"sync"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// gate is an incarnation's output gate: what leaves the object waits here behind
// the batches it rests on (I2). It also remembers the batches under way, since
// the object must read its own writes before the store has applied them.
type gate struct {
	mu       sync.Mutex
	sealed   uint64 // number of the last batch submitted
	durable  uint64 // number of the last batch confirmed
	pending  []*storage.Batch
	dirty    int64      // bytes of the batches under way
	room     run.Signal // of a write that waits for fewer of them; nil: none does
	waiting  []output
	draining bool
	broken   bool
	frozen   bool // nothing leaves until the incarnation is reset
}

type output struct {
	behind uint64
	leave  func()
}

// seal numbers a batch of a size that is about to be submitted.
func (g *gate) seal(b *storage.Batch, size int64) {
	g.mu.Lock()
	g.sealed++
	g.dirty += size
	g.pending = append(g.pending, b)
	g.mu.Unlock()
}

// pass lets outputs leave, in order, as soon as every batch sealed before is
// durable.
func (g *gate) pass(leave []func()) {
	if len(leave) == 0 {
		return
	}
	g.mu.Lock()
	if !g.draining && len(g.waiting) == 0 && g.sealed == g.durable {
		leave = g.through(leave) // there is nothing to wait for
	}
	for _, f := range leave {
		g.waiting = append(g.waiting, output{g.sealed, f})
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
	g.dirty -= size
	if g.room != nil {
		g.room.Set()
	}
	if len(g.pending) > 0 {
		g.pending[0] = nil
		g.pending = g.pending[1:]
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
	for !g.broken && !g.frozen && len(g.waiting) > 0 && g.waiting[0].behind <= g.durable {
		f := g.waiting[0].leave
		g.waiting[0].leave = nil
		g.waiting = g.waiting[1:]
		g.mu.Unlock()
		f()
		g.mu.Lock()
	}
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	g.draining = false
	g.mu.Unlock()
}

// below reports that less than a number of bytes is under way. Where it is more, room
// is set when it has become less, or the gate is shut.
func (g *gate) below(limit int64, room run.Signal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room = nil; g.dirty < limit || g.broken {
		return true
	}
	g.room = room
	return false
}

// shut drops what waits; nothing leaves any more.
func (g *gate) shut() {
	g.mu.Lock()
	g.broken, g.waiting, g.pending = true, nil, nil
	if g.room != nil {
		g.room.Set()
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
	return g.sealed == g.durable && len(g.waiting) == 0 && !g.draining && !g.frozen
}

// unapplied returns the batches that the store may not have applied yet, oldest
// first.
func (g *gate) unapplied() []*storage.Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		return nil
	}
	return append([]*storage.Batch(nil), g.pending...)
}
