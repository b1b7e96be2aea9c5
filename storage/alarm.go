package storage

import "time"

// Normal is the alarm as it is stored: in UTC, without a monotonic reading,
// rounded up to a microsecond (an alarm must not fire before its time).
func (a Alarm) Normal() Alarm {
	if a.At.IsZero() {
		return Alarm{}
	}
	is := Alarm{At: normal(a.At), Retry: a.Retry}
	if set := normal(a.Set); !set.Equal(is.At) {
		is.Set = set
	}
	return is
}

func normal(at time.Time) time.Time {
	at = at.UTC().Round(0)
	if rest := at.Nanosecond() % int(time.Microsecond); rest != 0 {
		at = at.Add(time.Microsecond - time.Duration(rest))
	}
	return at
}

// Scheduled is the time that the alarm was set to, which a retry does not change.
func (a Alarm) Scheduled() time.Time {
	if a.Set.IsZero() {
		return a.At
	}
	return a.Set
}

// same reports that two normal alarms have one row.
func (a Alarm) same(b Alarm) bool {
	return a.Retry == b.Retry && a.At.Equal(b.At) && a.Set.Equal(b.Set)
}

// The times that an alarm can have: the years 1 to 9999, as in RFC 3339.
var (
	minAlarm = time.Time{}
	maxAlarm = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

func (a Alarm) valid() bool {
	possible := func(t time.Time) bool { return !t.Before(minAlarm) && !t.After(maxAlarm) }
	return possible(a.At) && possible(a.Set) && a.Retry >= 0 && a.Retry <= MaxRetry
}
