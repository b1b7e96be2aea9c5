package run_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/kalpahost/kalpa/internal/run"
)

// TestPoolRunsAtOnce: whatever runs already, what is new does not wait for it, and a
// goroutine is nobody else's meanwhile.
func TestPoolRunsAtOnce(t *testing.T) {
	p := run.NewPool()
	p.Keep(2)
	defer p.Keep(0)
	const together = 10
	for range 100 {
		var all sync.WaitGroup
		var met sync.WaitGroup
		met.Add(together)
		for range together {
			all.Add(1)
			p.Go(func() {
				defer all.Done()
				met.Done()
				met.Wait() // for all the others
			})
		}
		all.Wait()
	}
}

// TestPoolUsesGoroutinesAgain, and the one that was busy last first.
func TestPoolUsesGoroutinesAgain(t *testing.T) {
	p := run.NewPool()
	p.Keep(1)
	defer p.Keep(0)
	before := runtime.NumGoroutine()
	for range 1000 {
		done := make(chan struct{})
		p.Go(func() { close(done) })
		<-done
	}
	// One that has just run something may not have come to rest yet, and another is
	// started: but of those at most one is kept.
	for runtime.NumGoroutine() > before+1 {
		runtime.Gosched()
	}
}

// TestPoolOutlivesWhatItRuns: what ends its goroutine costs the pool that one.
func TestPoolOutlivesWhatItRuns(t *testing.T) {
	p := run.NewPool()
	p.Keep(4)
	defer p.Keep(0)
	for range 20 {
		gone, there := make(chan struct{}), make(chan struct{})
		p.Go(func() {
			defer close(gone)
			runtime.Goexit()
		})
		p.Go(func() { close(there) })
		<-gone
		<-there
	}
}

// TestPoolThatKeepsNoneRuns: the leak test of this package sees to it that nothing is
// left.
func TestPoolThatKeepsNoneRuns(t *testing.T) {
	p := run.NewPool()
	p.Keep(4)
	hold := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		p.Go(func() { defer all.Done(); <-hold })
	}
	p.Keep(0)
	late := make(chan struct{})
	p.Go(func() { close(late) })
	<-late
	close(hold)
	all.Wait()
}

// TestPoolTrims what has not been needed since the last time, and no more.
func TestPoolTrims(t *testing.T) {
	p := run.NewPool()
	p.Keep(8)
	defer p.Keep(0)
	before := runtime.NumGoroutine()
	together := func(n int) {
		var all, met sync.WaitGroup
		met.Add(n)
		for range n {
			all.Add(1)
			p.Go(func() { met.Done(); met.Wait(); all.Done() })
		}
		all.Wait()
	}
	left := func(n int) {
		t.Helper()
		for p.Idle() != n || runtime.NumGoroutine() != before+n { // they may still be coming to rest
			runtime.Gosched()
		}
	}
	together(6)
	left(6)
	p.Trim()
	left(6) // there was no time before it in which they were not needed
	together(4)
	left(6)
	p.Trim()
	left(4)
	p.Trim()
	left(0)
}
