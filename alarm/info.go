package alarm

import "time"

// Info is what an alarm handler is told.
type Info struct {
	// Scheduled is the time that the alarm was set for; the handler never runs
	// before it.
	Scheduled time.Time
	// Retry counts the failed runs before this one.
	Retry int
}

// IsRetry reports whether an earlier run of this alarm failed.
func (i Info) IsRetry() bool { return i.Retry > 0 }
