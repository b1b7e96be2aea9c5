package sim

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"

	"github.com/kalpahost/kalpa/internal/clock"
)

// Scheduler runs events one at a time, in the order of their virtual time; which
// of those that are ready at the same time comes next is drawn from a seed. It is
// a clock.Clock. Events are added by the event that runs, or before Run.
type Scheduler struct {
	mu    sync.Mutex
	rand  *rand.Rand
	now   time.Time
	ready []func() // due now, in the order in which they became so
	later timers
	seq   uint64
	steps uint64
}

var _ clock.Clock = (*Scheduler)(nil)

// NewScheduler returns a scheduler whose clock stands at start.
func NewScheduler(seed uint64, start time.Time) *Scheduler {
	return &Scheduler{rand: rand.New(rand.NewPCG(seed, 0)), now: start}
}

// Now is the virtual time.
func (s *Scheduler) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Steps is the number of events that have run.
func (s *Scheduler) Steps() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// Go makes f ready now.
func (s *Scheduler) Go(f func()) {
	s.mu.Lock()
	s.ready = append(s.ready, f)
	s.mu.Unlock()
}

// AfterFunc makes f ready when d has passed.
func (s *Scheduler) AfterFunc(d time.Duration, f func()) clock.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	t := &timer{s: s, at: s.now.Add(max(d, 0)), seq: s.seq, f: f}
	heap.Push(&s.later, t)
	return t
}

// Run runs events until nothing is left or the virtual time would pass until.
func (s *Scheduler) Run(until time.Time) {
	for {
		s.mu.Lock()
		for len(s.later) > 0 && !s.later[0].at.After(s.now) {
			s.due()
		}
		if len(s.ready) == 0 {
			if len(s.later) == 0 || s.later[0].at.After(until) {
				s.now = until
				s.mu.Unlock()
				return
			}
			s.now = s.later[0].at
			s.mu.Unlock()
			continue
		}
		i := s.rand.IntN(len(s.ready))
		f := s.ready[i]
		s.ready = append(s.ready[:i], s.ready[i+1:]...)
		s.steps++
		s.mu.Unlock()
		f()
	}
}

// due makes the earliest timer's function ready. Called with the lock.
func (s *Scheduler) due() {
	t := heap.Pop(&s.later).(*timer)
	s.ready = append(s.ready, t.f)
	t.f = nil
}

// Dispatcher runs protoactor's mailboxes on the scheduler.
func (s *Scheduler) Dispatcher() pa.Dispatcher { return dispatcher{s} }

type dispatcher struct{ s *Scheduler }

func (d dispatcher) Schedule(f func()) { d.s.Go(f) }

// Throughput is how many messages a mailbox handles before protoactor yields; a
// mailbox that is scheduled here is drained in one event.
func (d dispatcher) Throughput() int { return 1 << 30 }

// timer is an armed AfterFunc.
type timer struct {
	s   *Scheduler
	at  time.Time
	seq uint64 // so that no two timers are equal
	f   func() // nil once it is ready or stopped
	pos int
}

func (t *timer) Stop() bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
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
