package run

import (
	"slices"
	"sync"
)

// Pool is a Runner that keeps the goroutines it has started for what is to run next.
// Most of what a host starts ends within microseconds, and a new goroutine spends as
// much on growing its stack. What runs for long, or never ends, costs the pool nothing:
// there is always another goroutine.
//
// What runs on one should leave it as it found it: a thread that it has locked stays
// locked.
type Pool struct {
	Runner // of signals, and of the ends of contexts

	mu     sync.Mutex
	most   int
	idle   []chan func() // of goroutines that have nothing to do; the last was busy last
	unused int           // how many of them nothing was given to since the last Trim
}

// NewPool makes a pool that keeps no goroutines yet: see Keep.
func NewPool() *Pool { return &Pool{Runner: Real} }

// Go runs f on a goroutine that nothing else runs on meanwhile.
func (p *Pool) Go(f func()) {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		go p.work(f)
		return
	}
	next := p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.unused = min(p.unused, n-1)
	p.mu.Unlock()
	next <- f
}

// Keep has the pool keep at most so many goroutines that have nothing to do. With 0, as
// at first and when its owner ends, it keeps none: those that are busy end when they
// have done what they do. It runs what it is given in any case.
func (p *Pool) Keep(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
	p.drop(len(p.idle) - most)
}

// Trim lets those go that have had nothing to do since it was called last: its owner
// calls it now and then, and at rest the pool has no goroutines.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(p.unused)
	p.unused = len(p.idle)
}

// drop lets so many go. Called with the lock.
func (p *Pool) drop(n int) {
	n = max(n, 0)
	for _, next := range p.idle[:n] {
		close(next)
	}
	p.idle = slices.Delete(p.idle, 0, n) // those that were busy last stay
	p.unused = min(p.unused, len(p.idle))
}

// work is the life of a goroutine: it ends when there are enough others, or with what it
// runs, if that ends it.
func (p *Pool) work(f func()) {
	next := make(chan func(), 1) // Go does not wait for it
	for f != nil {
		f()
		f = nil // it must not keep what that holds
		if p.rests(next) {
			f = <-next
		}
	}
}

// rests notes that a goroutine has nothing to do. False: it is not needed.
func (p *Pool) rests(next chan func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.most {
		return false
	}
	p.idle = append(p.idle, next)
	return true
}
