package pebble

import (
	"math"
	"sync"
	"sync/atomic"
)

// gate lets reads in until it is closed, and lets close wait for them: the
// engine panics when it is read after it was closed. A read may hold the gate
// while it waits for another one, which a read-write lock would turn into a
// deadlock with a waiting writer.
type gate struct {
	inside *atomic.Int64 // plus closedGate once it is closed
	idle   chan struct{}
	once   *sync.Once
}

const closedGate = math.MinInt64 / 2

func newGate() gate {
	return gate{new(atomic.Int64), make(chan struct{}), new(sync.Once)}
}

// enter reports false when the gate is closed; otherwise leave must follow.
func (g *gate) enter() bool {
	if g.inside.Add(1) < 0 {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	if g.inside.Add(-1) == closedGate {
		g.once.Do(func() { close(g.idle) })
	}
}

// close returns when all have left that entered.
func (g *gate) close() {
	if g.inside.Add(closedGate) == closedGate {
		g.once.Do(func() { close(g.idle) })
	}
	<-g.idle
}
