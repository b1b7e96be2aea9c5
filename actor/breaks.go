package actor

import (
	"sync"

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
	err   *Error
	reset alarm.Reset
}

func (b *breaks) add(id storage.ID, e *Error, r alarm.Reset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[storage.ID]lastBreak{}
	}
	if _, known := b.by[id]; !known {
		if len(b.order) < maxBreaks {
			b.order = append(b.order, id)
		} else {
			delete(b.by, b.order[b.next])
			b.order[b.next] = id
			b.next = (b.next + 1) % maxBreaks
		}
	}
	b.by[id] = lastBreak{e, r}
}

func (b *breaks) last(id storage.ID) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id].err
}

// lastRun is the last reset as an object's schedule sees it.
func (b *breaks) lastRun(id storage.ID) alarm.Reset {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id].reset
}
