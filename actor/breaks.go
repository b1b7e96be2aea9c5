package actor

import (
	"sync"

	"github.com/kalpahost/kalpa/storage"
)

// maxBreaks is how many resets the host remembers.
const maxBreaks = 4096

// breaks remembers the latest resets, so that a new incarnation can say why the
// one before it is gone.
type breaks struct {
	mu    sync.Mutex
	by    map[storage.ID]*Error
	order []storage.ID // a ring once it is full
	next  int
}

func (b *breaks) add(id storage.ID, e *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[storage.ID]*Error{}
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
	b.by[id] = e
}

func (b *breaks) last(id storage.ID) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[id]
}
