package front

import (
	"slices"
	"sync"
)

// turns bounds how many exchanges look for a next incarnation at once. The others
// wait, in order.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*place
}

// place is an exchange's place among those that look.
type place struct {
	t    *turns
	wake func() // called when its turn has come
	has  bool   // it is its turn
}

// ask returns a place, whose turn may have come already.
func (t *turns) ask(wake func()) *place {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &place{t: t, wake: wake, has: t.free > 0}
	if p.has {
		t.free--
	} else {
		t.waiting = append(t.waiting, p)
	}
	return p
}

// came reports whether its turn has come.
func (p *place) came() bool {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.has
}

// leave gives the place up, and the turn to who waits first.
func (p *place) leave() {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !p.has:
		t.waiting = slices.DeleteFunc(t.waiting, func(o *place) bool { return o == p })
	case len(t.waiting) == 0:
		t.free++
	default:
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		next.has = true
		next.wake()
	}
}
