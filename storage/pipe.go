package storage

import (
	"sync"

	"github.com/kalpahost/kalpa/internal/run"
)

// pipe takes groups from the goroutine that applies them to the one that waits for
// the disk.
type pipe struct {
	room, ready run.Signal

	mu     sync.Mutex
	groups []*group
	window int // as many as it holds
	closed bool
}

// put waits while the pipe is full.
func (p *pipe) put(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.groups) >= p.window {
		run.WaitWithout(&p.mu, p.room)
	}
	p.groups = append(p.groups, g)
	p.ready.Set()
}

// close says that nothing will be put any more.
func (p *pipe) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ready.Set()
}

// take waits for a group; nil when none will come.
func (p *pipe) take() *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.groups) == 0 {
		if p.closed {
			return nil
		}
		run.WaitWithout(&p.mu, p.ready)
	}
	g := p.groups[0]
	p.groups = append(p.groups[:0], p.groups[1:]...)
	p.room.Set()
	return g
}
