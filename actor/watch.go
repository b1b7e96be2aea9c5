package actor

import (
	"iter"
	"sync/atomic"

	"github.com/kalpahost/kalpa/storage"
)

// Watcher is told of what happens to the objects of a host, at once and from
// whichever goroutine does it: its functions must not block. Those that are nil are
// not called.
type Watcher struct {
	// Reset: an incarnation was broken, by itself. The error says which, and why.
	Reset func(e *Error, isolate int)
	// IsolateReset: all incarnations of an isolate were. There is no Reset for each.
	IsolateReset func(isolate int, c Cause, objects int, reason error)
}

// watching is the host's one Watcher.
type watching struct{ w atomic.Pointer[Watcher] }

// Watch makes w the host's one Watcher.
func (h *Host) Watch(w Watcher) { h.watcher.w.Store(&w) }

func (s *watching) reset(e *Error, isolate int) {
	if w := s.w.Load(); w != nil && w.Reset != nil {
		w.Reset(e, isolate)
	}
}

func (s *watching) isolateReset(isolate int, c Cause, objects int, reason error) {
	if w := s.w.Load(); w != nil && w.IsolateReset != nil {
		w.IsolateReset(isolate, c, objects, reason)
	}
}

// InMemory lists the objects of a class that are not at rest, in no order.
func (h *Host) InMemory(class string) iter.Seq[storage.ID] {
	return func(yield func(storage.ID) bool) {
		for id := range h.dir.all() {
			if id.Class == class && !yield(id) {
				return
			}
		}
	}
}
