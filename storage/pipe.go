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
	empty  bool // and who takes waits for more
}

// put waits while the pipe is full.
func (p *pipe) put(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.groups) >= p.window {
		run.WaitWithout(&p.mu, p.room)
	}
	p.groups, p.empty = append(p.groups, g), false
	p.ready.Set()
}

// resting reports that all groups were taken, and that who took them has done with them.
func (p *pipe) resting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.empty
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
		p.empty = true
		run.WaitWithout(&p.mu, p.ready)
	}
	g := p.groups[0]
	p.groups = append(p.groups[:0], p.groups[1:]...)
	p.room.Set()
	return g
}
