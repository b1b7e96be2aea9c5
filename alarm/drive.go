package alarm

import (
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// This file is the driver: it executes what core decides, and tells it what came
// of it. A lock is held while core decides, and never during a read or a Fire.

// Step does what is due at now: it settles what is done, tries again what was
// deferred, and fires a page of what has become due. It returns when the next
// Step is wanted, now meaning at once; zero if there is nothing to wait for but
// an alarm that is set or done. The driver calls it, or whoever takes its place
// in a test.
func (d *Dispatcher) Step(now time.Time) (next time.Time) {
	d.stepping.Lock()
	defer d.stepping.Unlock()
	for {
		d.mu.Lock()
		var op op
		if !d.stopped {
			op = d.core.next(now)
		}
		putBack := d.core.review.by
		d.core.review.by = 0
		d.mu.Unlock()
		if putBack > 0 {
			d.log.warn(now, "the wall clock was put back; each object with an alarm derives it anew", "by", putBack)
		}
		switch op.kind {
		case opWait:
			return d.wanted(now)
		case opCheck:
			row, err := d.store.Alarm(d.ctx, op.flight.due.ID)
			d.checked(op.flight, row, err, now)
		case opScan:
			rows, ahead, err := d.read(op)
			d.scanned(op, rows, ahead, err, now)
			return d.wanted(now)
		case opReview:
			rows, err := d.store.Due(d.ctx, op.after, op.until, op.limit)
			d.reviewed(op, rows, err, now)
			return d.wanted(now)
		}
	}
}

func (d *Dispatcher) wanted(now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return time.Time{}
	}
	wait, ok := d.core.wait(now)
	if !ok {
		return time.Time{}
	}
	return now.Add(wait)
}

// checked tells core what an object's row is.
func (d *Dispatcher) checked(f *flight, row storage.Alarm, err error, now time.Time) {
	d.mu.Lock()
	outcome := d.core.checked(f, row, err, now)
	d.mu.Unlock()
	switch outcome {
	case settled:
	case fireAgain:
		d.fire(f)
	case unreadable:
		d.log.warn(now, "an alarm row could not be read; trying again later", "object", f.due.ID.String(), "err", err)
	case unchanged:
		d.log.warn(now, "an alarm was run and its row still has the same time; backing off", "object", f.due.ID.String(),
			"scheduled", f.due.At, "times", f.failures)
	}
}

// read reads a page of what is due, and, if there is no more, the one row after.
func (d *Dispatcher) read(op op) (rows, ahead []storage.Due, err error) {
	rows, err = d.store.Due(d.ctx, op.after, op.until, op.limit)
	if err == nil && len(rows) < op.limit {
		ahead, err = d.store.Due(d.ctx, op.ahead(), never, 1)
	}
	return rows, ahead, err
}

// scanned tells core what the index holds, and fires.
func (d *Dispatcher) scanned(op op, rows, ahead []storage.Due, err error, now time.Time) {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return // the read was cancelled, or what it found is for the next start
	}
	if err != nil {
		d.core.scanFailed(op, now)
		d.mu.Unlock()
		d.log.warn(now, unreadableIndex, "err", err)
		return
	}
	flights := d.core.scanned(op, rows, ahead)
	d.mu.Unlock()
	for _, f := range flights {
		d.fire(f)
	}
}

const unreadableIndex = "the alarm index could not be read; trying again later"

// reviewed tells core what is not due, and has it derived anew.
func (d *Dispatcher) reviewed(op op, rows []storage.Due, err error, now time.Time) {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return
	}
	if err != nil {
		d.core.scanBackOff(now)
		d.mu.Unlock()
		d.log.warn(now, unreadableIndex, "err", err)
		return
	}
	flights := d.core.reviewed(op, rows)
	d.mu.Unlock()
	for _, f := range flights {
		d.fire(f)
	}
}

// fire hands an alarm to the target, to be run or to be derived anew, unless Stop
// came first.
func (d *Dispatcher) fire(f *flight) {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return
	}
	d.running++
	f.running = true
	due, rearm := f.due, f.rearm
	if !rearm {
		d.core.fired++
	}
	d.mu.Unlock()
	done := func(err error) { d.done(f, err) }
	if rearm {
		d.target.(Rearmer).Rearm(due.ID, done)
		return
	}
	d.target.Fire(due, done)
}

func (d *Dispatcher) done(f *flight, err error) {
	d.mu.Lock()
	if !f.running {
		d.mu.Unlock()
		return // called twice; the first one counts
	}
	f.running = false
	d.running--
	if d.stopped {
		d.mu.Unlock()
		d.rest.Set()
		return
	}
	now := d.clock.Now()
	d.core.done(f, err, now)
	failures := f.failures
	d.mu.Unlock()
	if err != nil {
		d.log.warn(now, "an alarm could not be run; trying again later", "object", f.due.ID.String(),
			"scheduled", f.due.At, "times", failures, "err", err)
	}
	d.wake()
}

// wake asks for a step.
func (d *Dispatcher) wake() {
	d.mu.Lock()
	if d.woken || !d.started || d.stopped {
		d.mu.Unlock()
		return
	}
	d.woken = true
	d.mu.Unlock()
	if d.run != nil {
		d.run(d.drive)
		return
	}
	d.kick.Set()
}

// loop is the goroutine that Start begins and Stop ends.
func (d *Dispatcher) loop() {
	for {
		d.kick.Wait()
		d.mu.Lock()
		if d.stopped {
			d.looping = false
			d.mu.Unlock()
			d.rest.Set()
			return
		}
		d.mu.Unlock()
		d.drive()
	}
}

// drive makes one step, and arms the timer for the next one. While an alarm is
// pending the wall clock is looked at every second; while none is, no timer is
// armed.
func (d *Dispatcher) drive() {
	d.mu.Lock()
	d.woken = false
	d.mu.Unlock()
	next := d.Step(d.clock.Now())
	var wait time.Duration
	if !next.IsZero() {
		wait = next.Sub(d.clock.Now())
	}
	d.mu.Lock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	again := !next.IsZero() && wait <= 0
	if !next.IsZero() && !again && !d.stopped {
		d.timer = d.clock.AfterFunc(min(wait, look), d.wake)
	}
	d.mu.Unlock()
	if again {
		d.wake()
	}
}
