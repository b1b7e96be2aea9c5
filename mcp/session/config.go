package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/mcp"
)

// Versions are the protocol revisions that a session can speak, oldest first.
var Versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const (
	latest   = "2025-11-25"
	batching = "2025-03-26" // the one revision that has batches
	priming  = "2025-11-25" // clients before it crash on an event without data
)

// Known reports whether a revision is one of Versions.
func Known(version string) bool { return slices.Contains(Versions, version) }

// Server is one hosted MCP server.
type Server struct {
	// Name is how the server is addressed, and a part of what identifies a session.
	Name   string
	Plugin mcp.Plugin
	// Reexecute opts in to running lost calls again. Default: ReexecuteNever.
	Reexecute Reexecute
	// Early opts in to calls that begin before they are stored. Default: EarlyNever.
	Early Early
	// MaxSessions bounds the sessions of the server, at rest or not, and
	// MaxPerCaller those of one principal that has a subject. 0: any number.
	MaxSessions, MaxPerCaller int
	// MaxRequests bounds the requests that wait for an answer, of all sessions of the
	// server together. 0: any number.
	MaxRequests int
	Policy
}

// Policy is how long the sessions of a server keep what, and how much of it. The
// zero value of a field means its default.
type Policy struct {
	// IdleTimeout is how long a runtime may rest before it is reclaimed.
	// Default: 5 min. Negative: never.
	IdleTimeout time.Duration
	// BuildTimeout bounds the start: Plugin.Build, and the answer to initialize.
	// Default: 60 s.
	BuildTimeout time.Duration
	// ApprovalTimeout is how long a question waits for its person; then the runtime
	// is told that the person declined. At most PausedCeiling. Default: 4 min.
	ApprovalTimeout time.Duration
	// PausedCeiling bounds how long one request may wait for persons in all. At most
	// RunningCeiling. Default: 9 min.
	PausedCeiling time.Duration
	// RunningCeiling bounds one request. At most Lifetime. Default: 35 min.
	RunningCeiling time.Duration
	// Retention is how long delivered events stay for a client that comes back with
	// an older event id. Default: 60 s.
	Retention time.Duration
	// Lifetime is how long a session lasts without use. Default: 30 days. Negative:
	// until its client ends it.
	Lifetime time.Duration
	// MaxOwed bounds the requests of one session that wait for an answer.
	// Default: 1,000.
	MaxOwed int
	// MaxOwedBytes bounds the same requests in bytes. Default: 64 MiB.
	MaxOwedBytes int64
	// MaxLog bounds the events stored for one session, in bytes. At the bound
	// requests are refused: an answer that was not delivered is never dropped.
	// Default: 64 MiB. A quarter of it is for what is no answer on one stream: past
	// that, notifications are dropped.
	MaxLog int64
	// MaxHeld bounds the notifications kept for a stream to come; the oldest goes
	// first. Default: 256.
	MaxHeld int
}

// MaxDuration is the longest duration of a Policy: ten years. A time that far away
// can still be stored; for ever is said with a negative duration.
const MaxDuration = 3650 * 24 * time.Hour

// WithDefaults fills in what is zero. A default gives way to the bound above it: the
// ceilings of a server whose sessions last ten minutes are ten minutes.
func (p Policy) WithDefaults() Policy {
	def := func(d *time.Duration, v, most time.Duration) {
		if *d == 0 {
			*d = v
			if most > 0 {
				*d = min(v, most)
			}
		}
	}
	def(&p.IdleTimeout, 5*time.Minute, 0)
	def(&p.BuildTimeout, time.Minute, 0)
	def(&p.Retention, time.Minute, 0)
	def(&p.Lifetime, 30*24*time.Hour, 0)
	def(&p.RunningCeiling, 35*time.Minute, p.Lifetime)
	def(&p.PausedCeiling, 9*time.Minute, p.RunningCeiling)
	def(&p.ApprovalTimeout, 4*time.Minute, p.PausedCeiling)
	if p.MaxOwed == 0 {
		p.MaxOwed = 1000
	}
	if p.MaxOwedBytes == 0 {
		p.MaxOwedBytes = 64 << 20
	}
	if p.MaxLog == 0 {
		p.MaxLog = 64 << 20
	}
	if p.MaxHeld == 0 {
		p.MaxHeld = 256
	}
	return p
}

// Validate reports all that is wrong with a policy at once.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for _, d := range []struct {
		name  string
		value time.Duration
		never bool // negative is allowed
	}{
		{"IdleTimeout", p.IdleTimeout, true}, {"BuildTimeout", p.BuildTimeout, false},
		{"ApprovalTimeout", p.ApprovalTimeout, false}, {"PausedCeiling", p.PausedCeiling, false},
		{"RunningCeiling", p.RunningCeiling, false}, {"Retention", p.Retention, false}, {"Lifetime", p.Lifetime, true},
	} {
		if d.value < 0 && !d.never {
			bad("%s is negative: %v", d.name, d.value)
		} else if d.value > MaxDuration {
			bad("%s is %v, more than %v", d.name, d.value, MaxDuration)
		}
	}
	if p.ApprovalTimeout > p.PausedCeiling {
		bad("ApprovalTimeout, %v, is more than PausedCeiling, %v", p.ApprovalTimeout, p.PausedCeiling)
	}
	if p.PausedCeiling > p.RunningCeiling {
		bad("PausedCeiling, %v, is more than RunningCeiling, %v", p.PausedCeiling, p.RunningCeiling)
	}
	if p.Lifetime > 0 && p.RunningCeiling > p.Lifetime {
		bad("RunningCeiling, %v, is more than Lifetime, %v: a session would end beneath a request", p.RunningCeiling, p.Lifetime)
	}
	if p.MaxOwed < 0 || p.MaxOwedBytes < 0 || p.MaxLog < 0 || p.MaxHeld < 0 {
		bad("MaxOwed, MaxOwedBytes, MaxLog and MaxHeld must not be negative")
	}
	return errors.Join(errs...)
}

func (s *Server) defaults() {
	s.Policy = s.WithDefaults()
	if s.Reexecute == "" {
		s.Reexecute = ReexecuteNever
	}
	if s.Early == "" {
		s.Early = EarlyNever
	}
}

func (s *Server) validate() error {
	var errs []error
	if s.Name == "" || strings.ContainsAny(s.Name, "/?#% ") {
		errs = append(errs, fmt.Errorf("server name %q: use letters, digits, '-', '_' and '.'", s.Name))
	}
	if s.Plugin == nil {
		errs = append(errs, fmt.Errorf("server %q has no plugin", s.Name))
	}
	switch s.Reexecute {
	case ReexecuteNever, ReexecuteReadOnly, ReexecuteIdempotent:
	default:
		errs = append(errs, fmt.Errorf("server %q: Reexecute is %q: use %q, %q or %q", s.Name, s.Reexecute, ReexecuteNever, ReexecuteReadOnly, ReexecuteIdempotent))
	}
	switch s.Early {
	case EarlyNever, EarlyReadOnly:
	default:
		errs = append(errs, fmt.Errorf("server %q: Early is %q: use %q or %q", s.Name, s.Early, EarlyNever, EarlyReadOnly))
	}
	if err := s.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("server %q: %w", s.Name, err))
	}
	return errors.Join(errs...)
}

// RunningCeiling implements Sessions.
func (s *Service) RunningCeiling(server string) (time.Duration, bool) {
	srv := s.servers.get(server)
	if srv == nil {
		return 0, false
	}
	return srv.RunningCeiling, true
}
