package sim

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/run"
)

// Process is a program that runs in the simulated world: everything in it that
// happens at all happens as an event of its own. It is what the real code takes
// for the clock, for the goroutines it starts and for the dispatcher of its
// actors. It can be killed at any event, as by kill -9, and paused, as by SIGSTOP.
type Process struct {
	s       *Scheduler
	dead    bool
	paused  bool
	held    []event // what has become ready while it is paused
	waiting []*waiter
	wrong   time.Duration // how far its wall clock is off
	// OnKill is an event of the world's that follows the end of the process.
	OnKill func()
}

var (
	_ clock.Clock = (*Process)(nil)
	_ run.Runner  = (*Process)(nil)
)

// NewProcess starts a process in which nothing happens yet.
func (s *Scheduler) NewProcess() *Process { return &Process{s: s} }

// Kill ends the process at once: nothing of it happens any more. When an event of
// its own calls it, it does not return.
func (p *Process) Kill() {
	if p.dead {
		return
	}
	p.dead, p.held = true, nil
	if p.OnKill != nil {
		p.s.Do(p.OnKill)
	}
	for _, w := range p.waiting {
		w.killed, w.w.ended = true, make(chan struct{})
		w.wake <- struct{}{}
		<-w.w.ended
	}
	p.waiting = nil
	if p.s.process == p {
		p.s.current.quits = true
		runtime.Goexit()
	}
}

// Dead reports that the process has been killed.
func (p *Process) Dead() bool { return p.dead }

// Pause stops the process until Resume: what becomes ready meanwhile waits.
func (p *Process) Pause() { p.paused = true }

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.paused = false
	p.s.ready = append(p.s.ready, p.held...)
	p.held = nil
}

// Jump sets the process's wall clock forward or back. Its timers don't notice.
func (p *Process) Jump(by time.Duration) { p.wrong += by }

// Now is the wall clock's reading, with a monotonic part.
func (p *Process) Now() time.Time { return reading(p.s.now, p.wrong) }

// AfterFunc implements clock.Clock.
func (p *Process) AfterFunc(d time.Duration, f func()) clock.Timer { return p.s.after(p, d, f) }

// Go makes f an event of the process.
func (p *Process) Go(f func()) {
	if !p.dead {
		p.s.ready = append(p.s.ready, event{p: p, f: f})
	}
}

// Signal implements run.Runner.
func (p *Process) Signal() run.Signal { return &signal{p: p} }

// Yield implements run.Runner. What is ready has its turn when this event waits or ends.
func (p *Process) Yield() {}

// AfterDone implements run.Runner. Of contexts that are not the world's own nothing
// is heard: who waits for one of those hears of the same in another way.
func (p *Process) AfterDone(ctx context.Context, f func()) (stop func() bool) {
	if c, ours := ctx.(*Context); ours {
		return c.AfterFunc(func() { p.Go(f) })
	}
	return func() bool { return true }
}

// Sleep lets d pass, in the middle of an event of the process.
func (p *Process) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	awake := p.Signal()
	p.AfterFunc(d, awake.Set)
	awake.Wait()
}

// signal is one that an event of the process waits for.
type signal struct {
	p      *Process
	set    bool
	waiter *waiter
}

func (s *signal) Set() {
	switch {
	case s.p.dead:
	case s.waiter == nil:
		s.set = true
	default:
		w := s.waiter
		s.waiter = nil
		s.p.s.ready = append(s.p.s.ready, event{p: s.p, w: w})
	}
}

func (s *signal) Wait() {
	if s.p.dead {
		runtime.Goexit()
	}
	if s.set {
		s.set = false
		return
	}
	w := &waiter{}
	s.waiter = w
	s.p.waiting = append(s.p.waiting, w)
	s.p.s.wait(w)
	if w.killed {
		runtime.Goexit()
	}
	s.p.waiting = slices.DeleteFunc(s.p.waiting, func(o *waiter) bool { return o == w })
}

// Context ends when the world says so, and tells of it in events.
type Context struct {
	context.Context
	done  chan struct{}
	err   error
	funcs map[int]func()
	next  int

	deadline time.Time // zero: none
}

// NewContext returns a context that Cancel ends.
func NewContext() *Context {
	return &Context{Context: context.Background(), done: make(chan struct{}), funcs: map[int]func(){}}
}

// Cancel ends the context with an error.
func (c *Context) Cancel(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	for i := range c.next {
		if f := c.funcs[i]; f != nil {
			f()
		}
	}
	c.funcs = nil
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *Context) Err() error { return c.err }

// AfterFunc is how package context, too, hears of the end.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	if c.err != nil {
		f()
		return func() bool { return false }
	}
	n := c.next
	c.next++
	c.funcs[n] = f
	return func() bool {
		_, there := c.funcs[n]
		delete(c.funcs, n)
		return there
	}
}

// Schedule makes the process a dispatcher of its actors.
func (p *Process) Schedule(f func()) { p.Go(f) }

// Throughput has a mailbox handle one message in each event, so that whatever can come
// between two messages does.
func (p *Process) Throughput() int { return 1 }
