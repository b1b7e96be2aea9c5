package storage

import "time"

// Normal is the alarm as it is stored: in UTC, without a monotonic reading,
// rounded up to a microsecond (an alarm must not fire before its time).
func (a Alarm) Normal() Alarm {
	if a.At.IsZero() {
		return Alarm{}
	}
	at := a.At.UTC().Round(0)
	if rest := at.Nanosecond() % int(time.Microsecond); rest != 0 {
		at = at.Add(time.Microsecond - time.Duration(rest))
	}
	return Alarm{At: at, Retry: a.Retry}
}

// same reports that two normal alarms have one row.
func (a Alarm) same(b Alarm) bool { return a.Retry == b.Retry && a.At.Equal(b.At) }

// The times that an alarm can have: the years 1 to 9999, as in RFC 3339.
var (
	minAlarm = time.Time{}
	maxAlarm = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

func (a Alarm) valid() bool {
	return !a.At.Before(minAlarm) && !a.At.After(maxAlarm) && a.Retry >= 0 && a.Retry <= MaxRetry
}
