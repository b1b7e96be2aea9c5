package actor

import (
	"sync"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// maxBreaks is how many resets the host remembers.
const maxBreaks = 4096

// breaks remembers the latest resets, so that a new incarnation can say why the
// one before it is gone.
type breaks struct {
	mu    sync.Mutex
	by    map[storage.ID]lastBreak
	order []storage.ID // a ring once it is full
	next  int
}

// lastBreak is a reset, as callers and as schedules see it.
type lastBreak struct {
	err    *Error
	reset  alarm.Reset
	failed *failedRun
	// cut is the error that the handler of a schedule's owner came to, which the object
	// has ended by this reset.
	cut error
}

// failedRun is a run of an alarm that its object has ended by a reset. It counts
// for as long as the row is the one that it was a run of.
type failedRun struct {
	row storage.Alarm
	at  time.Time
	err error
}

func (b *breaks) add(id storage.ID, l lastBreak) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[storage.ID]lastBreak{}
	}
	before, known := b.by[id]
	if !known {
		if len(b.order) < maxBreaks {
			b.order = append(b.order, id)
		} else {
			delete(b.by, b.order[b.next])
			b.order[b.next] = id
			b.next = (b.next + 1) % maxBreaks
		}
	}
	if l.failed == nil {
		l.failed = before.failed // it may not be in its row yet
	}
	if l.cut == nil {
		l.cut = before.cut
	}
	b.by[id] = l
}

// takeCut is the failure of a handler of a schedule's owner that has not been counted
// yet.
func (b *breaks) takeCut(id storage.ID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.by[id]
	if ok && l.cut != nil {
		err := l.cut
		l.cut = nil
		b.by[id] = l
		return err
	}
	return nil
}

func (b *breaks) last(id storage.ID) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id].err
}

// failed is the latest run of the object's alarm that has failed by a reset.
func (b *breaks) failed(id storage.ID) *failedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id].failed
}

// lastRun is the last reset as an object's schedule sees it.
func (b *breaks) lastRun(id storage.ID) alarm.Reset {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id].reset
}
