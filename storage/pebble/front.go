package pebble

import (
	"sync"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// front is a lower bound of the alarm index, so that Due does not walk again and
// again over the places where alarms were: each alarm that moved or was served
// leaves a deletion mark at the early end of the index, for as long as the
// engine has not compacted it away.
//
// It rises when a scan that began at or below it has found the earliest row, and
// falls when an alarm is set. An alarm may be set while a scan is under way that
// can't see it; so what is set since a scan began bounds what that scan may claim.
type front struct {
	mu   sync.Mutex
	low  time.Time // no row is earlier
	scan int       // the number of the newest scan
	set  time.Time // the earliest alarm that was set since it began; zero: none
}

// lower must be called after an alarm can be seen, and before anybody is told.
func (f *front) lower(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Before(f.low) {
		f.low = at
	}
	if f.set.IsZero() || at.Before(f.set) {
		f.set = at
	}
}

// begin returns where a scan that was to begin after a cursor can begin. It must
// be called before the scan takes its view of the store. The scan's number is 0
// if it can't learn which row is the earliest.
func (f *front) begin(after storage.Cursor) (_ storage.Cursor, scan int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch order := after.At.Compare(f.low); {
	case order > 0 || order == 0 && after.ID != (storage.ID{}):
		return after, 0
	case order < 0:
		after = storage.Cursor{At: f.low}
	}
	f.scan++
	f.set = time.Time{}
	return after, f.scan
}

// found ends a scan that saw no row before first. Of overlapping scans only the
// newest knows what was set since it began.
func (f *front) found(scan int, first time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if scan == 0 || scan != f.scan {
		return
	}
	if !f.set.IsZero() && f.set.Before(first) {
		first = f.set
	}
	if first.After(f.low) {
		f.low = first
	}
}
