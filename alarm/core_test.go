package alarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// The core is pure: what comes between the start and the end of a read is written
// down here as it is.

func rowsAt(first, n int) []storage.Due {
	var rows []storage.Due
	for i := first; i < first+n; i++ {
		rows = append(rows, storage.Due{ID: object(fmt.Sprintf("%04d", i)), Alarm: storage.Alarm{At: epoch.Add(time.Duration(i) * time.Second)}})
	}
	return rows
}

// scanOp takes the next op, which must be a scan.
func scanOp(t *testing.T, c *core, now time.Time) op {
	t.Helper()
	o := c.next(now)
	if o.kind != opScan {
		t.Fatalf("the core wants %+v, not a scan", o)
	}
	return o
}

func TestAlarmSetDuringAScanThatDidNotSeeItIsLookedForAgain(t *testing.T) {
	for name, page := range map[string]struct{ rows, ahead []storage.Due }{
		"the page is full":    {rows: rowsAt(0, maxPage)},
		"there is one ahead":  {rows: rowsAt(0, 3), ahead: rowsAt(1e6, 1)},
		"there is none ahead": {rows: rowsAt(0, 3)},
		"there is nothing":    {},
	} {
		c := newCore(1000, 100)
		now := epoch.Add(time.Hour)
		o := scanOp(t, &c, now)
		at := epoch.Add(-time.Hour)
		if !c.set(object("a"), at) {
			t.Errorf("%s: no step is wanted for an alarm that is due", name)
		}
		c.scanned(o, page.rows, page.ahead)
		if o := scanOp(t, &c, now); !before(o.after, storage.Cursor{At: at, ID: object("a")}) {
			t.Errorf("%s: the next scan begins after %v, and an alarm was set to %v", name, o.after, at)
		}
	}
}

// Rows that a scan has read, and that a spill covers which began meanwhile, are
// read again when it ends.
func TestSpillThatBeginsDuringAScanLosesNothing(t *testing.T) {
	c := newCore(100, 0)
	now := epoch.Add(time.Hour)
	late := rowsAt(50, 1)
	flights := c.scanned(scanOp(t, &c, now), late, nil)
	early := rowsAt(0, 10)
	c.set(early[0].ID, early[0].At)
	o := scanOp(t, &c, now)
	c.done(flights[0], errBusy, now) // there is no room: spilled
	if got := c.scanned(o, early, nil); len(got) != 0 {
		t.Fatalf("%d rows within the spill were fired", len(got))
	}
	if o := c.next(now); o.kind != opWait {
		t.Fatalf("before the spill ends the core wants %+v", o)
	}
	wait, ok := c.wait(now)
	if !ok {
		t.Fatal("nothing is waited for")
	}
	now = now.Add(wait)
	o = scanOp(t, &c, now)
	if !before(o.after, storage.Cursor{At: early[0].At, ID: early[0].ID}) {
		t.Errorf("after the spill the index is read after %v, and a row at %v was left alone", o.after, early[0].At)
	}
	if got := c.scanned(o, append(early, late...), nil); len(got) != len(early)+1 {
		t.Errorf("%d rows were fired after the spill, want %d", len(got), len(early)+1)
	}
}

// A scan reads no more than there is room for, give or take what it may skip.
func TestPageFollowsTheRoom(t *testing.T) {
	for _, s := range []struct{ flights, limit int }{{1, minPage}, {16, 16}, {100, 100}, {256, 256}, {1024, maxPage}} {
		c := newCore(s.flights, 1)
		if o := scanOp(t, &c, epoch); o.limit != s.limit {
			t.Errorf("with room for %d a page has %d rows, want %d", s.flights, o.limit, s.limit)
		}
	}
}

func TestFailingScansBackOffUpToABound(t *testing.T) {
	c := newCore(1, 1)
	now := epoch
	for n := range 10 {
		c.scanFailed(scanOp(t, &c, now), now)
		wait, ok := c.wait(now)
		if want := BackoffUncounted(min(n, 5), 0); !ok || wait != want {
			t.Errorf("after %d failures the index is read in %v, want %v", n+1, wait, want)
		}
		now = now.Add(wait)
	}
	c.scanned(scanOp(t, &c, now), nil, rowsAt(1e6, 1))
	if wait, ok := c.wait(now); !ok || wait != look {
		t.Errorf("after a success the index is read in %v, want %v", wait, look)
	}
}
