package clock

import (
	"sync"
	"time"
)

// Fake is a clock that moves only when told to. Its timers fire, in order of
// their time and then of their arming, on the goroutine that moves it.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
}

type fakeTimer struct {
	c  *Fake
	at time.Time
	f  func()
}

// NewFake returns a clock that stands at t.
func NewFake(t time.Time) *Fake { return &Fake{now: t} }

func (c *Fake) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Fake) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c, c.now.Add(d), f}
	c.timers = append(c.timers, t)
	return t
}

func (t *fakeTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.c.remove(t)
}

func (c *Fake) remove(t *fakeTimer) bool {
	for i, o := range c.timers {
		if o == t {
			c.timers = append(c.timers[:i], c.timers[i+1:]...)
			return true
		}
	}
	return false
}

// Advance moves the clock by d and fires what is due on the way.
func (c *Fake) Advance(d time.Duration) {
	c.mu.Lock()
	target := c.now.Add(d)
	for {
		var next *fakeTimer
		for _, t := range c.timers {
			if !t.at.After(target) && (next == nil || t.at.Before(next.at)) {
				next = t
			}
		}
		if next == nil {
			break
		}
		c.remove(next)
		if next.at.After(c.now) {
			c.now = next.at
		}
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = target
	c.mu.Unlock()
}

// Jump sets the wall clock without firing anything, as an operator or a time
// server would. What is left of an armed timer stays the same, as on a machine.
func (c *Fake) Jump(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := t.Sub(c.now)
	c.now = t
	for _, timer := range c.timers {
		timer.at = timer.at.Add(by)
	}
}

// Next is when the first of the armed timers is due; false if none is armed.
func (c *Fake) Next() (at time.Time, armed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		if !armed || t.at.Before(at) {
			at, armed = t.at, true
		}
	}
	return at, armed
}
