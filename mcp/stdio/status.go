package stdio

import (
	"fmt"
	"slices"
	"time"
)

// A server that ends before it has said anything is likely to do so again. When that
// has happened CrashLimit times in a row, the next starts are further and further
// apart, and what comes in between is refused at once.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// keptExits is how many ends are remembered of a server.
const keptExits = 10

// Exit is how one runtime of a server has ended by itself.
type Exit struct {
	At      time.Time     `json:"at"`
	Session string        `json:"session"`
	Pid     int           `json:"pid"`
	Lived   time.Duration `json:"lived"`
	// Silent: it had said nothing, which counts towards a crash loop.
	Silent bool `json:"silent"`
	// Why says how, and Stderr has the end of what it wrote there.
	Why    string `json:"why"`
	Stderr string `json:"stderr,omitempty"`
}

// Status is how a server fares.
type Status struct {
	// State is "idle" (nothing runs), "running", "crash_loop", or "cannot_start": nothing
	// runs, and Problem says why nothing would.
	State string `json:"state"`
	// Problem is what keeps the server from being started as things are, or did so the last
	// time; empty: nothing that is known.
	Problem string `json:"problem,omitempty"`
	Running int    `json:"running"`
	// Memory is what its runtimes were found to take, in bytes.
	Memory int64 `json:"memory"`
	// Crashes is how many in a row have ended before they had said anything.
	Crashes int `json:"crashes"`
	// RetryAt is when the next may start; zero: now.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Exits are the last that have ended by themselves, oldest first.
	Exits []Exit `json:"exits"`
}

// Status tells how the server fares.
func (p *Plugin) Status() Status {
	problem := p.Check()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{State: "idle", Running: len(p.live), Crashes: p.crashes, RetryAt: p.retryAt, Exits: slices.Clone(p.exits)}
	for r := range p.live {
		r.mu.Lock()
		s.Memory += r.usage.memory
		r.mu.Unlock()
	}
	if problem == nil {
		problem = p.failed
	}
	if problem != nil {
		s.Problem = problem.Error()
	}
	switch {
	case p.looping():
		s.State = "crash_loop"
	case s.Running > 0:
		s.State = "running"
	case s.Problem != "":
		s.State = "cannot_start"
	}
	return s
}

func (p *Plugin) looping() bool { return p.config.CrashLimit > 0 && p.crashes >= p.config.CrashLimit }

// CrashLoopError: the server has ended at its start too often to be started now.
type CrashLoopError struct {
	Command string
	Crashes int
	// Wait is how long it is until it is tried again.
	Wait time.Duration
	Last Exit
}

func (e *CrashLoopError) Error() string {
	return fmt.Sprintf("the server %q has ended %d times in a row before it said anything, and is tried again in %v; the last time it %s",
		e.Command, e.Crashes, max(e.Wait.Round(time.Second), time.Second), e.Last.words())
}

func (e Exit) words() string {
	if e.Stderr == "" {
		return e.Why + ", and wrote nothing to stderr"
	}
	return e.Why + "; the end of its stderr:\n" + e.Stderr
}

// mayStart refuses starts in a crash loop, but for one after each pause.
func (p *Plugin) mayStart(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looping() {
		return nil
	}
	if wait := p.retryAt.Sub(now); wait > 0 {
		return &CrashLoopError{p.config.Command, p.crashes, wait, p.exits[len(p.exits)-1]}
	}
	p.retryAt = now.Add(p.pause())
	return nil
}

func (p *Plugin) pause() time.Duration {
	return min(firstPause<<min(p.crashes-p.config.CrashLimit, 10), lastPause)
}

// started notes how the last start went.
func (p *Plugin) started(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err
}

// speaks notes that a runtime has said something: the server can be started.
func (p *Plugin) speaks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashes, p.retryAt = 0, time.Time{}
}

// exited notes how a runtime has ended by itself.
func (p *Plugin) exited(e Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.exits) == keptExits {
		p.exits = p.exits[1:]
	}
	p.exits = append(slices.Clip(p.exits), e)
	if !e.Silent {
		return
	}
	if p.crashes++; p.looping() {
		p.retryAt = e.At.Add(p.pause())
	}
}
