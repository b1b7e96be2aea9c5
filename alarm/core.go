package alarm

import (
	"cmp"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// What an object can set an alarm to lies between first and never, after 1970 began
// and before the year 10000.
var (
	first = time.UnixMicro(1)
	never = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

const (
	// maxPage and minPage bound the rows that one scan reads. It reads no more than
	// it has room to fire, but not fewer than minPage: those that it may skip.
	maxPage = 256
	minPage = 16
	// maxScanFailures bounds the back-off of a scan: one that fails holds up all.
	maxScanFailures = 5
)

// core decides. It does no I/O and knows no clock: next says what is to be done,
// and the answer comes back through checked, scanned, set and done.
//
// What it holds on to is this. Every alarm row is at or after low, or its object
// is known (in flights, or deferred), or it lies in the spill. low is the whole
// knowledge about a million pending alarms: the index is read forward from it,
// and it is lowered by each alarm that is set before it. So the places from
// which rows were deleted are not walked over again.
type core struct {
	maxFlights int

	low  storage.Cursor // no row that is not known otherwise is before it
	more bool           // there may be rows from low on

	flights  map[storage.ID]*flight
	finished []*flight // done without an error; their rows are to be checked
	deferred deferrals

	scanFailures int
	scanAfter    time.Time // no scan before it, after one has failed
	looked       time.Time // when the index was last read
	last         time.Time // the time of the last decision

	fired, failed, unchanged uint64

	reviews bool // the target can derive alarms anew
	review  review
}

// review is a walk through all alarms that are not due, after the wall clock was
// put back: their objects derive them anew. It takes up half of the flights at
// most, so that what is due is not held up by it.
type review struct {
	on   bool
	from storage.Cursor
	by   time.Duration // that nobody has been told of yet
}

// flight is an alarm on its way: from when it is found due, or its back-off is
// over, until its row is seen to have changed. An object has one at most.
type flight struct {
	due      storage.Due
	failures int  // in a row, none of them the handler's
	running  bool // fired, and not done
	moved    bool // its object has set the alarm to another time since it was fired
	retry    bool // it was deferred, and its row has to be read before it is fired
	rearm    bool // it is not due: its object is to derive it anew
}

func newCore(maxFlights, maxDeferred int) core {
	return core{
		maxFlights: maxFlights,
		more:       true, // from the zero cursor on: all that is overdue since before the start
		flights:    make(map[storage.ID]*flight),
		deferred:   newDeferrals(maxDeferred),
	}
}

type opKind uint8

const (
	// opWait: nothing can be done now.
	opWait opKind = iota
	// opCheck: read the flight's row; checked takes it.
	opCheck
	// opScan: read the alarm index; scanned takes it.
	opScan
	// opReview: read what is not due; reviewed takes it.
	opReview
)

// op is what the driver is to do.
type op struct {
	kind   opKind
	flight *flight
	after  storage.Cursor
	until  time.Time
	limit  int
}

// ahead is where the rows begin that are not due yet.
func (o op) ahead() storage.Cursor {
	c := storage.Cursor{At: o.until.Round(0).Truncate(time.Microsecond).Add(time.Microsecond)}
	if before(c, o.after) {
		return o.after
	}
	return c
}

// next returns what is to be done at now, and takes note that it will be.
func (c *core) next(now time.Time) op {
	c.notice(now)
	if n := len(c.finished); n > 0 {
		f := c.finished[n-1]
		c.finished[n-1] = nil
		c.finished = c.finished[:n-1]
		return op{kind: opCheck, flight: f}
	}
	if c.room() > 0 {
		if e, ok := c.deferred.takeDue(now); ok {
			f := &flight{due: e.due, failures: e.failures, retry: true, rearm: e.rearm}
			c.flights[e.due.ID] = f
			return op{kind: opCheck, flight: f}
		}
		if at, ok := c.scanTime(); ok && !at.After(now) {
			o := op{kind: opScan, after: c.low, until: now, limit: min(max(c.room(), minPage), maxPage)}
			c.more, c.looked = false, now // what is set during the read lowers low again
			return o
		}
		if at, ok := c.reviewTime(); ok && !at.After(now) {
			return op{kind: opReview, after: c.review.from, until: never, limit: min(c.reviewRoom(), maxPage)}
		}
	}
	return op{kind: opWait}
}

// wait is how long there is nothing to do; false: until an alarm is set or done.
func (c *core) wait(now time.Time) (time.Duration, bool) {
	if len(c.finished) > 0 {
		return 0, true
	}
	if c.room() <= 0 {
		return 0, false
	}
	wait, ok := time.Duration(0), false
	for _, source := range []func() (time.Time, bool){c.deferred.earliest, c.scanTime, c.reviewTime} {
		if at, some := source(); some {
			if w := max(at.Sub(now), 0); !ok || w < wait {
				wait, ok = w, true
			}
		}
	}
	return wait, ok
}

// notice sees to it that a wall clock which has jumped back does not make a
// back-off longer, where times have no monotonic reading.
func (c *core) notice(now time.Time) {
	if by := putBack(c.last, now); by >= backNoticed && c.reviews {
		c.review = review{on: true, from: storage.Cursor{At: now.Round(0)}, by: by}
	}
	if now.Before(c.last) {
		c.deferred.rebase(now)
		c.scanAfter = soonest(c.scanAfter, now.Add(scanBackoff(maxScanFailures)))
		c.looked = now
	}
	c.last = now
	if from, ended := c.deferred.spill.end(now); ended {
		c.lower(from)
	}
}

func (c *core) room() int { return c.maxFlights - len(c.flights) }

func (c *core) reviewRoom() int { return c.room() - c.maxFlights/2 }

// reviewTime is when to go on with the review.
func (c *core) reviewTime() (time.Time, bool) {
	if !c.review.on || c.reviewRoom() <= 0 {
		return time.Time{}, false
	}
	if c.scanAfter.After(c.last) {
		return c.scanAfter, true
	}
	return c.last, true
}

// scanTime is when to read the index: when the first row is due that may be
// there, and before that every now and then, since nobody tells when it goes.
func (c *core) scanTime() (time.Time, bool) {
	if !c.more {
		return time.Time{}, false
	}
	at := soonest(c.low.At, c.looked.Add(look))
	if at.Before(c.scanAfter) {
		at = c.scanAfter
	}
	return at, true
}

// lower makes sure that the rows after a position are looked at: now, or when
// the spill ends.
func (c *core) lower(to storage.Cursor) {
	if spill := &c.deferred.spill; spill.on && before(to, spill.high) {
		spill.reach(to)
		to = spill.high
	}
	if !c.more || before(to, c.low) {
		c.low, c.more = to, true
	}
}

// set hears that an alarm was set, and reports whether a step is wanted sooner
// for it. It also ends a back-off: the object is able to commit.
func (c *core) set(id storage.ID, at time.Time) (sooner bool) {
	if f := c.flights[id]; f != nil {
		f.moved = !at.Equal(f.due.At)
	}
	c.deferred.drop(id)
	low, more := c.low, c.more
	c.lower(storage.Cursor{At: at})
	return !more || before(c.low, low)
}

// done hears that a flight has ended.
func (c *core) done(f *flight, err error, now time.Time) {
	if err != nil {
		c.failed++
	}
	if err == nil || f.moved {
		f.rearm = false
		c.finished = append(c.finished, f)
		return
	}
	c.postpone(f, now)
}

// postpone backs off.
func (c *core) postpone(f *flight, now time.Time) {
	delete(c.flights, f.due.ID)
	wait := BackoffUncounted(f.failures, Jitter(f.due.ID, f.failures))
	f.failures++
	if c.deferred.add(deferral{due: f.due, failures: f.failures, rearm: f.rearm, wait: wait, until: now.Add(wait)}) {
		return
	}
	c.deferred.spill.add(storage.Cursor{At: f.due.At, ID: f.due.ID}, now)
}

// outcome is what is to be done about a flight whose row was read.
type outcome uint8

const (
	settled    outcome = iota // nothing: the row has gone, or is found by a scan
	fireAgain                 // fire it
	unchanged                 // it has been run for nothing, and is backed off
	unreadable                // its row could not be read, and it is backed off
)

func (c *core) checked(f *flight, row storage.Alarm, err error, now time.Time) outcome {
	id := f.due.ID
	switch {
	case err != nil:
		c.postpone(f, now)
		return unreadable
	case row.At.IsZero():
		delete(c.flights, id)
		return settled
	case row.At.After(now) && f.rearm:
		return fireAgain // it could not be asked to derive it
	case row.At.After(now):
		delete(c.flights, id)
		c.lower(storage.Cursor{At: row.At})
		return settled
	case f.retry:
		f.retry, f.rearm = false, false
		f.due.Alarm = row
		return fireAgain
	case row.At.Equal(f.due.At):
		c.unchanged++
		c.postpone(f, now)
		return unchanged
	default:
		delete(c.flights, id)
		c.lower(storage.Cursor{At: row.At})
		return settled
	}
}

// scanned takes a page of rows that are due and, if it was the last one, the row
// after it. It returns what is to be fired.
func (c *core) scanned(o op, rows, ahead []storage.Due) (flights []*flight) {
	c.scanFailures, c.scanAfter = 0, time.Time{}
	passed := o.after
	for _, row := range rows {
		position := storage.Cursor{At: row.At, ID: row.ID}
		if c.flights[row.ID] != nil || c.deferred.has(row.ID) || c.deferred.spill.covers(position) {
			passed = position
			continue // its row is read when it has landed, or its back-off is over
		}
		if c.room() <= 0 {
			c.lower(passed) // this row and those behind it are still to come
			return flights
		}
		f := &flight{due: row}
		c.flights[row.ID] = f
		flights = append(flights, f)
		passed = position
	}
	switch {
	case len(rows) >= o.limit:
		c.lower(passed)
	case len(ahead) > 0:
		c.lower(storage.Cursor{At: ahead[0].At})
	}
	return flights
}

// reviewed takes a page of rows that are not due, and returns those whose objects
// are to derive them anew. What is in flight, or has failed, is looked at anyway.
func (c *core) reviewed(o op, rows []storage.Due) (flights []*flight) {
	c.scanFailures, c.scanAfter = 0, time.Time{}
	if !c.review.on || c.review.from != o.after {
		return nil // the clock was put back once more
	}
	for _, row := range rows {
		c.review.from = storage.Cursor{At: row.At, ID: row.ID}
		if c.flights[row.ID] != nil || c.deferred.has(row.ID) {
			continue
		}
		f := &flight{due: row, retry: true, rearm: true}
		c.flights[row.ID] = f
		flights = append(flights, f)
	}
	c.review.on = len(rows) >= o.limit
	return flights
}

// scanFailed backs off from the index as a whole.
func (c *core) scanFailed(o op, now time.Time) {
	c.lower(o.after)
	c.scanBackOff(now)
}

func (c *core) scanBackOff(now time.Time) {
	c.scanAfter = now.Add(scanBackoff(c.scanFailures))
	c.scanFailures++
}

func scanBackoff(failures int) time.Duration {
	return BackoffUncounted(min(failures, maxScanFailures), 0)
}

func (c *core) stats() Stats {
	return Stats{
		InFlight: len(c.flights), Deferred: len(c.deferred.heap),
		Fired: c.fired, Failed: c.failed, Unchanged: c.unchanged,
	}
}

// before compares positions in the alarm index.
func before(a, b storage.Cursor) bool {
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID.Class, b.ID.Class), strings.Compare(a.ID.Name, b.ID.Name)) < 0
}
