package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// job is a load: each session calls a tool and waits for the answer, and again.
type job struct {
	tool      string // add or incr
	sessions  int
	warmup, d time.Duration
}

// sample is what one turn of a load has measured.
type sample struct {
	rate float64         // good answers a second
	took []time.Duration // sorted
	bad  int64
	// first is what was wrong with the first answer that was bad.
	first error
}

// drive opens the sessions of a job, lets them call, and closes the connections.
func drive(endpoint string, j job) (s sample, err error) {
	clients := make([]*client, j.sessions)
	errs := make([]error, j.sessions)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { clients[i], errs[i] = open(endpoint) })
	}
	wg.Wait()
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for _, err := range errs {
		if err != nil {
			return s, fmt.Errorf("opening a session: %w", err)
		}
	}
	begin := time.Now().Add(j.warmup)
	end := begin.Add(j.d)
	took := make([][]time.Duration, j.sessions)
	var bad badness
	for i, c := range clients {
		wg.Go(func() { took[i] = j.run(c, i, begin, end, &bad) })
	}
	wg.Wait()
	s.took = slices.Concat(took...)
	slices.Sort(s.took)
	s.rate = float64(len(s.took)) / j.d.Seconds()
	s.bad, s.first = bad.n.Load(), bad.first
	return s, nil
}

// turn drives the job at a server.
func (j job) turn(s *server, _ int) (sample, error) { return drive(s.endpoint, j) }

// run is one session's part. It returns how long each call took that began and
// ended within the measured time.
func (j job) run(c *client, session int, begin, end time.Time, bad *badness) (took []time.Duration) {
	took = make([]time.Duration, 0, 1<<12)
	for n := 1; ; n++ {
		arguments, want := j.question(session, n)
		asked := time.Now()
		if asked.After(end) {
			return took
		}
		err := c.call(j.tool, arguments, want)
		answered := time.Now()
		switch {
		case err != nil:
			bad.add(err)
			if c.conn == nil {
				time.Sleep(10 * time.Millisecond) // do not storm a server that is gone
			}
		case !asked.Before(begin) && !answered.After(end):
			took = append(took, answered.Sub(asked))
		}
	}
}

// question is the n-th call of a session, and the answer to it.
func (j job) question(session, n int) (arguments, want string) {
	if j.tool == "incr" {
		return `{}`, fmt.Sprint(n)
	}
	return fmt.Sprintf(`{"a":%d,"b":%d}`, session, n), fmt.Sprint(session + n)
}

// badness counts what is bad and keeps the first of it.
type badness struct {
	n     atomic.Int64
	once  sync.Once
	first error
}

func (b *badness) add(err error) {
	b.n.Add(1)
	b.once.Do(func() { b.first = err })
}
