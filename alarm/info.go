package alarm

import "time"

// Info is what an alarm handler is told about its run.
type Info struct {
	// Scheduled is the time that the alarm was set to.
	Scheduled time.Time
	// Retry counts the failed runs before this one. It is durable: a restart does
	// not give an alarm a new budget.
	Retry int
}

// IsRetry reports whether an earlier run of this alarm has failed.
func (i Info) IsRetry() bool { return i.Retry > 0 }
