package alarm

import (
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Policy is what becomes of a run that fails or does not end.
type Policy struct {
	// Attempts is how often a run is tried in all, 1 to MaxAttempts. A schedule that
	// runs once is then removed; the others go on with their next run.
	Attempts int `json:"attempts"`
	// Base is the wait after the first failure; it doubles with each, up to an hour,
	// and has up to a quarter more.
	Base time.Duration `json:"base"`
	// Limit is how long a run may take. Then it counts as failed, and its context
	// ends with ErrHung.
	Limit time.Duration `json:"limit"`
}

// Defaults and bounds of a [Policy].
const (
	// DefaultAttempts is the platform's: a run and six retries.
	DefaultAttempts = MaxRetries + 1
	// MaxAttempts bounds Policy.Attempts.
	MaxAttempts = 100
	// DefaultBase is the platform's first wait.
	DefaultBase = firstWait
	// DefaultLimit is the platform's limit of a handler's time.
	DefaultLimit = 15 * time.Minute
	// DefaultHung is the limit of an interval's runs.
	DefaultHung = 30 * time.Second
	// maxPolicyWait bounds Base and Limit.
	maxPolicyWait = 24 * time.Hour
	// maxWait bounds the wait between two attempts, unless Base is longer.
	maxWait = time.Hour
)

func (p Policy) validate() error {
	switch {
	case p.Attempts < 1 || p.Attempts > MaxAttempts:
		return fmt.Errorf("%w: %d attempts, want 1 to %d", ErrPolicy, p.Attempts, MaxAttempts)
	case p.Base < time.Millisecond || p.Base > maxPolicyWait:
		return fmt.Errorf("%w: a wait of %v between attempts, want 1ms to %v", ErrPolicy, p.Base, maxPolicyWait)
	case p.Limit < time.Millisecond || p.Limit > maxPolicyWait:
		return fmt.Errorf("%w: a limit of %v, want 1ms to %v", ErrPolicy, p.Limit, maxPolicyWait)
	}
	return nil
}

// wait is that after so many failures, at least one.
func (p Policy) wait(id storage.ID, failed int) time.Duration {
	w, limit := p.Base, max(p.Base, maxWait)
	for range failed - 1 {
		if w *= 2; w >= limit {
			w = limit
			break
		}
	}
	return spread(w, Jitter(id, failed))
}

// Option modifies a schedule that is being registered.
type Option func(*registration)

// registration is what In, At, Cron and Every make of their arguments.
type registration struct {
	row
	id         *string
	idempotent bool
}

// WithID names the schedule. An ID that is taken by the same schedule (callback,
// payload, time) changes nothing; one that is taken by another replaces it.
func WithID(id string) Option { return func(r *registration) { r.id = &id } }

// Idempotent makes In and At return the schedule that is there already, if there
// is one with the same callback, payload and time as given. Cron and Every always
// do.
func Idempotent() Option { return func(r *registration) { r.idempotent = true } }

// InZone makes Cron use a time zone by its name, such as Europe/Berlin.
func InZone(name string) Option { return func(r *registration) { r.Zone = name } }

// WithRetry sets how often a run is tried in all, and the wait after the first
// failure. See [Policy].
func WithRetry(attempts int, base time.Duration) Option {
	return func(r *registration) { r.Policy.Attempts, r.Policy.Base = attempts, base }
}

// WithLimit sets how long a run may take: DefaultLimit, or DefaultHung for Every,
// when it is not set.
func WithLimit(d time.Duration) Option { return func(r *registration) { r.Policy.Limit = d } }
