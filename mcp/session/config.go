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

// DefaultRunningCeiling bounds one request where the server does not say else.
const DefaultRunningCeiling = 35 * time.Minute

// Server is one hosted MCP server. The zero value of a duration or a bound means
// its default.
type Server struct {
	// Name is how the server is addressed, and a part of what identifies a session.
	Name   string
	Plugin mcp.Plugin
	// IdleTimeout is how long a runtime may rest before it is reclaimed.
	// Default: 5 min. Negative: never.
	IdleTimeout time.Duration
	// BuildTimeout bounds Plugin.Build, and again the answer to initialize.
	// Default: 60 s.
	BuildTimeout time.Duration
	// ApprovalWait is how long a question waits for its person; then the runtime is
	// told that the person declined. Default: 4 min.
	ApprovalWait time.Duration
	// PausedCeiling bounds how long one request may wait for persons in all.
	// Default: 9 min.
	PausedCeiling time.Duration
	// RunningCeiling bounds one request. Default: DefaultRunningCeiling.
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

func (s *Server) defaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.IdleTimeout, 5*time.Minute)
	def(&s.BuildTimeout, time.Minute)
	def(&s.ApprovalWait, 4*time.Minute)
	def(&s.PausedCeiling, 9*time.Minute)
	def(&s.RunningCeiling, DefaultRunningCeiling)
	def(&s.Retention, time.Minute)
	def(&s.Lifetime, 30*24*time.Hour)
	if s.MaxOwed == 0 {
		s.MaxOwed = 1000
	}
	if s.MaxOwedBytes == 0 {
		s.MaxOwedBytes = 64 << 20
	}
	if s.MaxLog == 0 {
		s.MaxLog = 64 << 20
	}
	if s.MaxHeld == 0 {
		s.MaxHeld = 256
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
	for name, d := range map[string]time.Duration{"BuildTimeout": s.BuildTimeout, "ApprovalWait": s.ApprovalWait, "PausedCeiling": s.PausedCeiling, "RunningCeiling": s.RunningCeiling, "Retention": s.Retention} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("server %q: %s is negative: %v", s.Name, name, d))
		}
	}
	if s.MaxOwed < 0 || s.MaxOwedBytes < 0 || s.MaxLog < 0 || s.MaxHeld < 0 {
		errs = append(errs, fmt.Errorf("server %q: MaxOwed, MaxOwedBytes, MaxLog and MaxHeld must not be negative", s.Name))
	}
	return errors.Join(errs...)
}
