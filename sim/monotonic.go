package sim

import (
	"time"
	"unsafe"
)

// reading is what a clock shows that is wrong by so much: its wall clock's time is off,
// and its monotonic part is not, since that is the virtual time itself.
//
// Package time makes such readings of the system's clocks alone; so the parts are put
// together here as it keeps them. TestReadings sees whether it still does.
func reading(now time.Time, wrong time.Duration) time.Time {
	const (
		has     = 1 << 63 // it has a monotonic part
		from    = -(1884*365 + 1884/4 - 1884/100 + 1884/400) * 86400
		seconds = 30 // the place of the seconds since 1885
		unix    = (1969*365 + 1969/4 - 1969/100 + 1969/400) * 86400
	)
	wall := now.Add(wrong)
	parts := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{
		wall: has | uint64(wall.Unix()+unix+from)<<seconds | uint64(wall.Nanosecond()),
		ext:  int64(now.Sub(begin)) + 1,
		loc:  nil, // UTC
	}
	return *(*time.Time)(unsafe.Pointer(&parts))
}
