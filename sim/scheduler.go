package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Scheduler lets the events of a simulated world happen one at a time, in the
// order of their virtual time; which of those that are ready at the same moment
// comes next is drawn from the seed. An event may wait in its middle for another
// one: see [Process].
//
// Whatever happens in a simulated world happens in one of its events, so that
// nothing in it needs a lock.
type Scheduler struct {
	seed  uint64
	rand  *rand.Rand // of the order of events
	now   time.Time  // never goes back: clocks that are wrong are the processes'
	until time.Time
	ready []event // due now
	later timers
	seq   uint64
	steps uint64
	// trace is a hash of all that was drawn, in order; onStep is told it at each step.
	trace  uint64
	onStep func(step, hash uint64)

	// The loop belongs to one goroutine at a time. An event that waits keeps its
	// goroutine, with its stack, and another goroutine takes the loop over.
	current *worker
	process *Process  // whose event happens
	loop    chan bool // the loop is handed over; false: nothing will be any more
	idle    int       // goroutines that wait for the loop
	stopped bool
	failed  error
	over    chan struct{} // Run waits for it
}

// event is something that is ready to happen.
type event struct {
	p *Process // whose it is; nil: the world's
	f func()
	w *waiter // instead of f: an event that has waited goes on
}

// worker is a goroutine of the scheduler's.
type worker struct {
	ended chan struct{} // closed when it is over; not nil once it is killed while it waits
	quits bool          // it ends in the middle of its event, and has the loop
}

// waiter is an event that waits in its middle.
type waiter struct {
	p      *Process
	w      *worker
	wake   chan struct{}
	killed bool
}

// NewScheduler returns a scheduler whose clock stands at start.
func NewScheduler(seed uint64, start time.Time) *Scheduler {
	s := &Scheduler{seed: seed, now: start, loop: make(chan bool), over: make(chan struct{})}
	s.rand = s.Rand("schedule")
	return s
}

// Rand begins the stream of random numbers of a name. A draw from one stream shifts
// nothing in another.
func (s *Scheduler) Rand(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return rand.New(rand.NewPCG(s.seed, h.Sum64())) //nolint:gosec // it has to be repeatable
}

// Now is the virtual time.
func (s *Scheduler) Now() time.Time { return s.now }

// Steps is the number of events that have happened.
func (s *Scheduler) Steps() uint64 { return s.steps }

// Do makes an event of the world's own ready.
func (s *Scheduler) Do(f func()) { s.ready = append(s.ready, event{f: f}) }

// After makes an event of the world's own ready when d has passed.
func (s *Scheduler) After(d time.Duration, f func()) { s.after(nil, d, f) }

func (s *Scheduler) after(p *Process, d time.Duration, f func()) *timer {
	s.seq++
	t := &timer{s: s, at: s.now.Add(max(d, 0)), seq: s.seq, event: event{p: p, f: f}}
	heap.Push(&s.later, t)
	return t
}

// Run lets events happen until nothing is left, the virtual time would pass until,
// or Stop is called. The error is that of an event that panicked. It must not be
// called in an event.
func (s *Scheduler) Run(until time.Time) error {
	s.until, s.stopped = until, false
	s.handOver()
	<-s.over
	return s.failed
}

// Stop makes Run return after the event that happens now.
func (s *Scheduler) Stop() { s.stopped = true }

// Close lets the goroutines of the scheduler go. Events that still wait keep theirs
// until their process is killed, so that comes first.
func (s *Scheduler) Close() {
	for ; s.idle > 0; s.idle-- {
		s.loop <- false
	}
}

// handOver gives the loop to a goroutine that has nothing to do.
func (s *Scheduler) handOver() {
	if s.idle == 0 {
		go s.work()
		return
	}
	s.idle--
	s.loop <- true
}

func (s *Scheduler) work() {
	w := &worker{}
	defer func() {
		if r := recover(); r != nil {
			s.failed = fmt.Errorf("step %d, %v: %v\n%s", s.steps, s.now.Format(time.RFC3339Nano), r, debug.Stack())
			s.over <- struct{}{}
		}
		if w.quits {
			s.handOver()
		}
		if w.ended != nil {
			close(w.ended)
		}
	}()
	for mine := true; mine; mine = <-s.loop {
		s.current = w
		s.turn()
	}
}

// turn runs the loop until it goes to another goroutine or there is no more to do.
func (s *Scheduler) turn() {
	for {
		e, ok := s.next()
		s.idle++ // from here on, unless there is something to do
		if !ok {
			s.process = nil
			s.over <- struct{}{}
			return
		}
		if e.w != nil {
			s.current, s.process = e.w.w, e.p
			e.w.wake <- struct{}{}
			return
		}
		s.idle--
		s.process = e.p
		e.f()
	}
}

// next draws the next event.
func (s *Scheduler) next() (e event, ok bool) {
	for !s.stopped {
		for len(s.later) > 0 && !s.later[0].at.After(s.now) {
			t := heap.Pop(&s.later).(*timer)
			s.ready = append(s.ready, t.event)
			t.f = nil
		}
		if len(s.ready) == 0 {
			if len(s.later) == 0 || s.later[0].at.After(s.until) {
				s.now = s.until
				return e, false
			}
			s.now = s.later[0].at
			continue
		}
		i := s.rand.IntN(len(s.ready))
		e, s.ready[i] = s.ready[i], s.ready[len(s.ready)-1]
		s.ready[len(s.ready)-1] = event{}
		s.ready = s.ready[:len(s.ready)-1]
		switch {
		case e.p == nil:
		case e.p.dead:
			continue
		case e.p.paused:
			e.p.held = append(e.p.held, e)
			continue
		}
		s.steps++
		// Two runs that do not do the same differ in what is ready, and when.
		s.trace = (s.trace ^ uint64(s.now.UnixNano()) ^ uint64(i)<<48 ^ uint64(len(s.ready))<<56) * 0x100000001b3
		if s.onStep != nil {
			s.onStep(s.steps, s.trace)
		}
		return e, true
	}
	return e, false
}

// wait keeps the event that happens waiting until w is resumed.
func (s *Scheduler) wait(w *waiter) {
	w.p, w.w, w.wake = s.process, s.current, make(chan struct{})
	s.handOver()
	<-w.wake
}

// timer is an armed After.
type timer struct {
	s   *Scheduler
	at  time.Time
	seq uint64 // so that no two timers are equal
	event
	pos int
}

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	if t.f == nil {
		return false
	}
	t.f = nil
	heap.Remove(&t.s.later, t.pos)
	return true
}

type timers []*timer

func (q timers) Len() int { return len(q) }
func (q timers) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].seq < q[j].seq
}
func (q timers) Swap(i, j int) { q[i], q[j] = q[j], q[i]; q[i].pos, q[j].pos = i, j }
func (q *timers) Push(x any)   { t := x.(*timer); t.pos = len(*q); *q = append(*q, t) }
func (q *timers) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return t
}
