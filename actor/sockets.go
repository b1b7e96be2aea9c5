package actor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// sockets are the WebSockets of a host's objects. They are the host's and not the
// incarnations', so that they outlive evictions.
type sockets struct {
	h *Host

	mu    sync.Mutex
	of    map[storage.ID]*socketSet
	conns map[*socket]struct{} // those whose connection is being served
	rest  run.Signal           // set when there are none, once ended
	ended bool
}

// socketSet is what an object has.
type socketSet struct {
	list  []*socket
	asked *autoResponse                // as the object's code has set it last
	auto  atomic.Pointer[autoResponse] // what is in force
}

type autoResponse struct{ request, response string }

func newSockets(h *Host) *sockets {
	return &sockets{h: h, of: map[storage.ID]*socketSet{}, conns: map[*socket]struct{}{}, rest: h.o.Runner.Signal()}
}

// set is an object's. Called with the lock, by an incarnation that lives.
func (s *sockets) set(inc *incarnation) *socketSet {
	if inc.err() != nil {
		return nil // its set was dropped, and the next one's is not for it
	}
	set := s.of[inc.id]
	if set == nil {
		set = &socketSet{}
		s.of[inc.id] = set
	}
	return set
}

// accept adds a WebSocket whose connection is yet to be made.
func (s *sockets) accept(inc *incarnation, tags []string) (*socket, error) {
	c := &socket{h: s.h, id: inc.id, tags: tags, wake: s.h.o.Runner.Signal(), room: s.h.o.Runner.Signal(), open: true, listed: true}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.set(inc)
	switch {
	case set == nil:
		return nil, inc.err()
	case len(set.list) >= s.h.o.Web.MaxWebSockets:
		return nil, &Error{Op: "accept WebSocket", ID: inc.id, Epoch: inc.epoch, Cause: Overload,
			Err: fmt.Errorf("the object has %d WebSockets", len(set.list)), Hint: "close some, or let more objects share them"}
	}
	c.set = set
	set.list = append(set.list, c)
	return c, nil
}

func (s *sockets) list(id storage.ID) []*socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.of[id]; set != nil {
		return slices.Clone(set.list)
	}
	return nil
}

func (s *sockets) answer(inc *incarnation, a *autoResponse) *socketSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.set(inc)
	if set != nil {
		set.asked = a
	}
	return set
}

func (s *sockets) answers(id storage.ID) *autoResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.of[id]; set != nil {
		return set.asked
	}
	return nil
}

// take takes the WebSockets from an object that was reset: it hears no more of them.
func (s *sockets) take(id storage.ID) (list []*socket) {
	s.mu.Lock()
	if set := s.of[id]; set != nil {
		list = set.list
	}
	delete(s.of, id)
	s.mu.Unlock()
	for _, c := range list {
		c.leave()
	}
	return list
}

// closeFor closes the WebSockets that were taken from an object that was reset. It does
// not block.
func closeFor(e *Error, list []*socket) {
	f := frame{close: true, code: 1012, text: e.Cause.Sentence()}
	if e.Cause == Shutdown {
		f.code = 1001
	}
	for _, c := range list {
		c.drop(f)
	}
}

// forget is told that an object is evicted: without a WebSocket there is nothing to
// keep.
func (s *sockets) forget(id storage.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.of[id]; set != nil && len(set.list) == 0 {
		delete(s.of, id)
	}
}

// begun lists a connection that is to be served, unless the host is ending.
func (s *sockets) begun(c *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *sockets) over(c *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.ended && len(s.conns) == 0 {
		s.rest.Set()
	}
}

// parting is what clients that are told of the host's end have for their part of
// the close.
const parting = time.Second

// shutdown closes every WebSocket, and returns when the connections have ended.
func (s *sockets) shutdown(ctx context.Context) {
	sentence := Shutdown.Sentence()
	s.mu.Lock()
	s.ended = true
	all := make([]*socket, 0, len(s.conns))
	// In any order: each has a connection of its own.
	for c := range s.conns {
		all = append(all, c)
	}
	clear(s.of)
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	for _, c := range all {
		c.drop(frame{close: true, code: 1001, text: sentence})
	}
	cut := func() {
		for _, c := range all {
			c.cut()
		}
	}
	// At the end of ctx there is still a moment to say goodbye in.
	stop := s.h.o.Runner.AfterDone(ctx, func() { s.h.o.Clock.AfterFunc(parting, cut) })
	defer stop()
	for {
		s.mu.Lock()
		left := len(s.conns)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		s.rest.Wait()
	}
}
