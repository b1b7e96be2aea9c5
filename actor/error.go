package actor

import (
	"errors"
	"fmt"

	"github.com/kalpahost/kalpa/storage"
)

// Cause is why an incarnation was reset or an event refused.
type Cause uint8

const (
	NoCause Cause = iota
	// MemoryLimit: the isolate's heap had no room for a charge.
	MemoryLimit
	// CacheOverflow: the isolate's storage cache had no room for what is not yet written.
	CacheOverflow
	// CPULimit: one turn took too long.
	CPULimit
	// StorageTimeout: a storage operation took over 30 s.
	StorageTimeout
	// CodeUpdated: a new deployment took the place of the old.
	CodeUpdated
	// CriticalTimeout: the constructor or a critical section took over 30 s.
	CriticalTimeout
	// ConstructorFailed: the object could not be made.
	ConstructorFailed
	// Aborted: the object, an operator or a test asked for the reset.
	Aborted
	// CommitFailed: a batch could not be written.
	CommitFailed
	// Superseded: a newer incarnation exists.
	Superseded
	// Panicked: the object's code panicked.
	Panicked
	// Shutdown: the host is stopping.
	Shutdown
	// Overload: too many events are waiting.
	Overload
	// OverloadedBytes: the events that are waiting are too large.
	OverloadedBytes
	// OverloadedAge: the oldest event that is waiting has been for too long.
	OverloadedAge
)

type causeRow struct {
	name, sentence string
	class          class
}

type class uint8

const (
	reset class = 1 << iota
	overloaded
	transient
	retryable
	// itself: the error behind it is what callers read, and the sentence only where there
	// is none.
	itself
)

// causes holds the names that error data carries and the sentences that users
// search for; the sentences are the Durable Objects platform's own.
var causes = [...]causeRow{
	NoCause:           {"", "", 0},
	MemoryLimit:       {"memory_limit", "Durable Object's isolate exceeded its memory limit and was reset.", reset | transient},
	CacheOverflow:     {"cache_overflow", "Durable Object's isolate exceeded its memory limit due to overflowing the storage cache.", reset | overloaded},
	CPULimit:          {"cpu_limit", "Durable Object exceeded its CPU time limit and was reset.", reset | transient},
	StorageTimeout:    {"storage_timeout", "Durable Object storage operation exceeded timeout which caused object to be reset.", reset | overloaded | transient},
	CodeUpdated:       {"code_updated", "Durable Object reset because its code was updated.", reset | transient},
	CriticalTimeout:   {"critical_timeout", "A call to blockConcurrencyWhile() waited for too long.", reset | overloaded},
	ConstructorFailed: {"constructor_failed", "The object could not be constructed.", reset | itself},
	Aborted:           {"aborted", "Application called abort() to reset Durable Object.", reset | itself},
	CommitFailed:      {"commit_failed", "Internal error in Durable Object storage write caused object to be reset.", reset},
	Superseded:        {"superseded", "A newer incarnation of the object exists.", reset | retryable},
	Panicked:          {"panic", "The object's code panicked.", reset},
	Shutdown:          {"shutdown", "The host is shutting down.", reset | transient | retryable},
	Overload:          {"overloaded", "Durable Object is overloaded. Too many requests queued.", overloaded},
	OverloadedBytes:   {"overloaded_bytes", "Durable Object is overloaded. Too much data queued.", overloaded},
	OverloadedAge:     {"overloaded_age", "Durable Object is overloaded. Requests queued for too long.", overloaded},
}

// String is the cause's name in error data and telemetry: "memory_limit".
func (c Cause) String() string { return causes[c].name }

// Sentence is what a caller reads.
func (c Cause) Sentence() string { return causes[c].sentence }

// Reset: the cause breaks incarnations.
func (c Cause) Reset() bool { return int(c) < len(causes) && causes[c].class&reset != 0 }

// Causes are all causes of resets.
func Causes() []Cause {
	var all []Cause
	for c := range causes {
		if Cause(c).Reset() {
			all = append(all, Cause(c))
		}
	}
	return all
}

// Overloaded: sending again at once makes it worse.
func (c Cause) Overloaded() bool { return causes[c].class&overloaded != 0 }

// Retryable: what was sent is known not to have run.
func (c Cause) Retryable() bool { return causes[c].class&retryable != 0 }

// Transient: the same request, sent again, is likely to succeed.
func (c Cause) Transient() bool { return causes[c].class&transient != 0 }

// ParseCause finds a cause by its name.
func ParseCause(name string) (Cause, error) {
	for c, row := range causes {
		if row.name == name && name != "" && Cause(c).Reset() {
			return Cause(c), nil
		}
	}
	var names []string
	for _, c := range Causes() {
		names = append(names, c.String())
	}
	return NoCause, fmt.Errorf("%q is not a cause of resets; the causes are %q", name, names)
}

// Error says what failed, on which incarnation of which object, and why.
type Error struct {
	Op    string // "call", "start", "commit", "send", ...
	ID    storage.ID
	Epoch uint64 // 0 when no incarnation was reached
	Cause Cause
	Hint  string
	Err   error

	// own: the object's code has asked for the reset, or brought it about.
	own bool
}

func (e *Error) Error() string {
	s := e.Cause.Sentence()
	if e.Err != nil {
		if e.is(itself) {
			s = ""
		}
		if s != "" {
			s += " "
		}
		s += e.Err.Error()
	}
	s = fmt.Sprintf("%s %s: %s", e.Op, e.ID, s)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) is(c class) bool { return causes[e.Cause].class&c != 0 }

// Retryable: the event is known not to have run, and may be sent again.
func (e *Error) Retryable() bool { return e.is(retryable) }

// Overloaded: sending again at once makes it worse.
func (e *Error) Overloaded() bool { return e.is(overloaded) }

// Reset: the incarnation was broken; what it held in memory is gone.
func (e *Error) Reset() bool { return e.is(reset) }

// Transient: see [Cause.Transient].
func (e *Error) Transient() bool { return e.is(transient) }

// CauseOf finds the cause in a tree of wrapped errors, NoCause when there is none.
func CauseOf(err error) Cause {
	var e *Error
	switch errors.As(err, &e); {
	case e == nil:
		return NoCause
	case e.Cause != NoCause:
		return e.Cause
	}
	// The first Error of the tree has none: that which it wraps may, or another branch.
	switch u := err.(type) { //nolint:errorlint // each node is looked at
	case interface{ Unwrap() error }:
		return CauseOf(u.Unwrap())
	case interface{ Unwrap() []error }:
		for _, branch := range u.Unwrap() {
			if c := CauseOf(branch); c != NoCause {
				return c
			}
		}
	}
	return NoCause
}
