package sim

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Campaign runs many seeds of a profile, on all processors.
type Campaign struct {
	Profile     string
	First, Last uint64 // both included
	// Plan is run in place of those that are made of the seeds. Nil: none.
	Plan *Plan
	// Workers is how many seeds are run at once. 0: one on each processor.
	Workers int
	// Verify runs each seed twice, and a difference between the two is an error.
	Verify bool
	// Broken is broken in all of them.
	Broken *Broken
	// Each, if not nil, is told each result, one at a time, in no order. False ends
	// the campaign.
	Each func(*Result) bool
}

// Total is what a campaign came to.
type Total struct {
	Seeds    int
	Requests int
	Answered int
	Lost     int
	Refused  int
	Open     int
	Boots    int
	Steps    uint64
	Virtual  time.Duration // of the first run of each seed
	Real     time.Duration
	Covered  map[string]int
	Faults   map[string]int // of the plans, by kind
	Struck   int            // strikes that have hit
	Torn     int            // groups of writes that crashes took back
	// Failed are the results with a violation, the least seed first to have failed first.
	Failed []*Result
}

// DivergedError is a seed whose two runs were not the same.
type DivergedError struct {
	Plan *Plan
	// Step is the first that differs.
	Step uint64
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s seed %#x: two runs differ from step %d on", e.Plan.Profile, e.Plan.Seed, e.Step)
}

// Run runs the campaign. The error is of a seed that could not be run, or diverged.
func (c Campaign) Run() (*Total, error) {
	began := wall()
	t := &Total{Covered: map[string]int{}, Faults: map[string]int{}}
	var (
		next  atomic.Uint64
		mu    sync.Mutex
		first error
		over  atomic.Bool
		all   sync.WaitGroup
	)
	next.Store(c.First)
	for range cmp.Or(c.Workers, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for !over.Load() {
				seed := next.Add(1) - 1
				if seed > c.Last {
					return
				}
				r, err := c.one(seed)
				mu.Lock()
				if err != nil {
					first = err
					over.Store(true)
				} else if t.add(r); c.Each != nil && !over.Load() && !c.Each(r) {
					over.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Real = wall().Sub(began)
	return t, first
}

// one runs one seed.
func (c Campaign) one(seed uint64) (*Result, error) {
	p := c.Plan
	if p == nil {
		var err error
		if p, err = NewPlan(seed, c.Profile); err != nil {
			return nil, err
		}
	}
	if c.Verify {
		return RunTwice(p, Options{Broken: c.Broken})
	}
	return Run(p, Options{Broken: c.Broken})
}

// traces are what runs are compared in: one hash for each step, and there are many.
var traces = sync.Pool{New: func() any { return new([]uint64) }}

// RunTwice runs a plan twice, and returns what the first run came to. That the second
// one was not the same is a *DivergedError.
func RunTwice(p *Plan, o Options) (*Result, error) {
	var step uint64
	kept := traces.Get().(*[]uint64)
	defer traces.Put(kept)
	hashes := (*kept)[:0]
	defer func() { *kept = hashes }()
	o.Steps = func(_, hash uint64) { hashes = append(hashes, hash) }
	r, err := Run(p, o)
	if err != nil {
		return nil, err
	}
	o.Steps = func(n, hash uint64) {
		if step == 0 && (n > uint64(len(hashes)) || hashes[n-1] != hash) {
			step = n
		}
	}
	again, err := Run(p, o)
	if err != nil {
		return nil, err
	}
	if step == 0 && again.Steps < r.Steps {
		step = again.Steps + 1
	}
	if step != 0 {
		return nil, &DivergedError{p, step}
	}
	return r, nil
}

func (t *Total) add(r *Result) {
	t.Seeds++
	t.Requests += r.Requests
	t.Answered += r.Answered
	t.Lost += r.Lost
	t.Refused += r.Refused
	t.Open += r.Open
	t.Boots += r.Boots
	t.Steps += r.Steps
	t.Virtual += r.Virtual
	t.Torn += r.Torn
	for _, m := range r.Marks {
		switch m.Kind {
		case FaultMark:
			t.Faults[m.What]++
		case StrikeMark:
			t.Struck++
		default:
		}
	}
	for what, n := range r.Covered {
		t.Covered[what] += n
	}
	if r.Violation != nil {
		t.Failed = append(t.Failed, r)
	}
}

func (t *Total) String() string {
	return fmt.Sprintf("%d seeds: %d requests = %d answered + %d lost + %d refused + %d open; %d boots, %d steps; %.0f virtual hours in %v (%.0f:1, %.0f requests/s)",
		t.Seeds, t.Requests, t.Answered, t.Lost, t.Refused, t.Open, t.Boots, t.Steps, t.Virtual.Hours(), t.Real.Round(time.Millisecond),
		t.Virtual.Seconds()/t.Real.Seconds(), float64(t.Requests)/t.Real.Seconds())
}
