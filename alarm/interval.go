package alarm

import (
	"fmt"
	"time"
)

// Bounds of an interval.
const (
	// MinInterval keeps an interval from being a spin.
	MinInterval = 100 * time.Millisecond
	// MaxInterval is 30 days.
	MaxInterval = 30 * 24 * time.Hour
)

func checkInterval(d time.Duration) error {
	if d < MinInterval || d > MaxInterval {
		return fmt.Errorf("%w: %v, want %v to %v", ErrInterval, d, MinInterval, MaxInterval)
	}
	return nil
}

func parseInterval(spec string) (time.Duration, error) {
	d, err := time.ParseDuration(spec)
	if err != nil {
		return 0, fmt.Errorf("%w: %v", ErrInterval, err)
	}
	return d, checkInterval(d)
}

// following is the first time after now on the grid that begins at due: runs
// don't drift, and those that were missed are not caught up with.
func following(due time.Time, d time.Duration, now time.Time) time.Time {
	if due.After(now) {
		return due
	}
	late := now.Sub(due)
	reached := late - late%d // the last time on the grid that has passed, from due on
	if next := due.Add(reached); next.After(now) {
		return next // now.Sub has saturated
	}
	next := due.Add(reached + d)
	if !next.After(now) {
		return now.Add(d) // centuries have been missed
	}
	return next
}
