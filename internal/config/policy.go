package config

import (
	"fmt"
	"time"
)

// Policy is how long the sessions of a server keep what, and how much of it. A file
// sets it for all servers, and for one. It has the fields of session.Policy, which
// says more about each, and can be converted to it.
type Policy struct {
	IdleTimeout     time.Duration `koanf:"idle_timeout"` // or Never
	BuildTimeout    time.Duration `koanf:"build_timeout"`
	ApprovalTimeout time.Duration `koanf:"approval_timeout"`
	PausedCeiling   time.Duration `koanf:"paused_ceiling"`
	RunningCeiling  time.Duration `koanf:"running_ceiling"`
	Retention       time.Duration `koanf:"retention"`
	Lifetime        time.Duration `koanf:"lifetime"` // or Never
	MaxOwed         int           `koanf:"max_owed"`
	MaxOwedBytes    int64         `koanf:"max_owed_bytes"`
	MaxLog          int64         `koanf:"max_log"` // bytes
	MaxHeld         int           `koanf:"max_held"`
}

// Never is the duration of what has no end. A file and a flag write it as 0.
const Never time.Duration = -1

// DefaultIdleTimeout is long enough for a person to read an answer and go on.
const DefaultIdleTimeout = 5 * time.Minute

// DefaultBuildTimeout lets a package runner download a server first.
const DefaultBuildTimeout = time.Minute

// PolicyKeys is every key of a Policy: at the top of a file for all servers, and
// under a server for that one. One that is not set gives way to the bound above it.
var PolicyKeys = []Setting{
	{"idle_timeout", "idle-timeout", DurationOrNever, DefaultIdleTimeout, "DURATION", "how long a session's server stays up without use; 0: for ever", nil},
	{"build_timeout", "build-timeout", Duration, DefaultBuildTimeout, "DURATION", "how long a session's server may take to start, until it has answered initialize", positive},
	{"approval_timeout", "approval-timeout", Duration, 4 * time.Minute, "DURATION", "how long a question to a person waits; then the server is told that it was declined; at most `paused_ceiling`", positive},
	{"paused_ceiling", "paused-ceiling", Duration, 9 * time.Minute, "DURATION", "how long one request may wait for persons; then it is answered as lost; at most `running_ceiling`", positive},
	{"running_ceiling", "running-ceiling", Duration, 35 * time.Minute, "DURATION", "how long one request may take in all; then it is answered as lost; at most `lifetime`", positive},
	{"retention", "retention", Duration, time.Minute, "DURATION", "how long delivered events are kept for a client that comes back with an older event id", positive},
	{"lifetime", "lifetime", DurationOrNever, 30 * 24 * time.Hour, "DURATION", "how long a session lasts without use; 0: until its client ends it", nil},
	{"max_owed", "max-owed", Count, 1000, "N", "requests of one session that wait for an answer; further ones are refused", nil},
	{"max_owed_bytes", "max-owed-bytes", Size, int64(64 << 20), "SIZE", "the size of the same requests", nil},
	{"max_log", "max-log", Size, int64(64 << 20), "SIZE", "the events stored for one session; beyond it requests are refused", nil},
	{"max_held", "max-held", Count, 256, "N", "notifications kept until a client has a stream for them; the oldest goes first", nil},
}

// orders are the keys whose value must not exceed another's.
var orders = []struct {
	less, more string
	of         func(*Policy) (less, more *time.Duration)
}{
	{"running_ceiling", "lifetime", func(p *Policy) (_, _ *time.Duration) { return &p.RunningCeiling, &p.Lifetime }},
	{"paused_ceiling", "running_ceiling", func(p *Policy) (_, _ *time.Duration) { return &p.PausedCeiling, &p.RunningCeiling }},
	{"approval_timeout", "paused_ceiling", func(p *Policy) (_, _ *time.Duration) { return &p.ApprovalTimeout, &p.PausedCeiling }},
}

// said is where a value was set; nowhere when the default stands.
type said struct {
	Problem      // its place, without a text
	set     bool // anywhere
	own     bool // for the policy in question, and not for all servers
}

func (s said) String() string {
	switch {
	case !s.set:
		return "its default"
	case s.Line > 0:
		return fmt.Sprintf("line %d", s.Line)
	default:
		return s.Key
	}
}

// settle lets defaults give way to the bound above them, and reports what was set
// beyond one. Of two values that were both set for all servers, settle of a server's
// own policy says nothing.
func (p *Policy) settle(where func(key string) said) (problems Problems) {
	for _, o := range orders {
		less, more := o.of(p)
		if *more == Never || *less <= *more {
			continue
		}
		lower, upper := where(o.less), where(o.more)
		problem := lower.Problem
		switch {
		case !lower.set:
			*less = *more
			continue
		case lower.own:
			problem.Text = fmt.Sprintf("%s is more than %s, %s (%v)", short(*less), o.more, short(*more), upper)
		case upper.own:
			problem = upper.Problem
			problem.Text = fmt.Sprintf("%s is less than %s, %s (%v): set both here", short(*more), o.less, short(*less), lower)
		default:
			continue
		}
		if !upper.set {
			problem.Text += ": set that as well"
		}
		problems = append(problems, problem)
	}
	return problems
}
