package oracle

import (
	"context"
	"sync"
)

// Points are where objects wait for the driver, as they would for a network.
type Points struct {
	mu      sync.Mutex
	by      map[string]*point
	changed chan struct{}
	closed  chan struct{}
	once    sync.Once
}

type point struct {
	reached  int
	released chan struct{}
	open     bool
}

// NewPoints are none that anybody has reached.
func NewPoints() *Points {
	return &Points{by: map[string]*point{}, changed: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (p *Points) point(name string) *point {
	if p.by[name] == nil {
		p.by[name] = &point{released: make(chan struct{})}
	}
	return p.by[name]
}

// Wait waits at a point until it is released, for good.
func (p *Points) Wait(ctx context.Context, name string) error {
	p.mu.Lock()
	at := p.point(name)
	at.reached++
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
	select {
	case <-at.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return context.Canceled
	}
}

// Reached is how many have come to a point.
func (p *Points) Reached(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.point(name).reached
}

// Changed tells that somebody has come to a point.
func (p *Points) Changed() <-chan struct{} { return p.changed }

// Release lets all go on that wait at a point, now and later.
func (p *Points) Release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.point(name); !at.open {
		at.open = true
		close(at.released)
	}
}

// Close ends all waits.
func (p *Points) Close() { p.once.Do(func() { close(p.closed) }) }
