// Package run is how code that decides starts goroutines and waits in them: by a
// value that is passed in, like the clock. Production uses [Real]; the simulator
// brings a runner of its own, which lets one goroutine run at a time and draws
// from a seed which one. So code that is to be simulated waits for a [Signal],
// and for nothing else.
package run

import (
	"context"
	"runtime"
	"sync"
)

// Runner starts goroutines.
type Runner interface {
	// Go runs f on a goroutine of its own.
	Go(f func())
	// Signal returns a signal that is not set.
	Signal() Signal
	// AfterDone calls f, on a goroutine of its own, when ctx has ended. stop takes
	// that back; false means that f was called or stop was.
	AfterDone(ctx context.Context, f func()) (stop func() bool)
	// Yield lets goroutines that are ready to run go first.
	Yield()
}

// Signal wakes the one goroutine that waits for it. It remembers that it was set,
// once: who wakes looks at everything that it may have been for.
type Signal interface {
	// Set may be called from anywhere. It never blocks.
	Set()
	// Wait returns when the signal is set, and takes that back.
	Wait()
}

// Real is the Go runtime's own.
var Real Runner = real{}

type real struct{}

func (real) Go(f func())    { go f() }
func (real) Signal() Signal { return free.Get().(signal) }
func (real) Yield()         { runtime.Gosched() }

func (real) AfterDone(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, f)
}

type signal chan struct{}

// free are signals that have been given back.
var free = sync.Pool{New: func() any { return make(signal, 1) }}

// Free gives a signal back that nobody sets or waits for any more, to be another's. There
// is no need to.
func Free(s Signal) {
	if s, ok := s.(signal); ok {
		select {
		case <-s:
		default:
		}
		free.Put(s)
	}
}

func (s signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s signal) Wait() { <-s }

// WaitDone waits for s, or for the end of ctx: false. It costs less than AfterDone.
func WaitDone(ctx context.Context, r Runner, s Signal) bool {
	if s, ok := s.(signal); ok {
		select {
		case <-s:
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer r.AfterDone(ctx, s.Set)()
	s.Wait()
	return ctx.Err() == nil
}

// WaitWithout waits for s without holding l, which the caller holds.
func WaitWithout(l sync.Locker, s Signal) {
	l.Unlock()
	defer l.Lock() // also when the goroutine ends in its wait, as in a simulation
	s.Wait()
}
