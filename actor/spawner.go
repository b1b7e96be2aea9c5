package actor

import (
	"sync"

	pa "github.com/asynkron/protoactor-go/actor"
)

// spawner makes actors of incarnations. They are no other actor's children: nobody
// supervises them, and a parent would keep a list of them.
type spawner struct {
	sys   *pa.ActorSystem
	props *pa.Props // of all of them

	mu   sync.Mutex
	next *incarnation
}

func (s *spawner) init(h *Host) {
	s.sys = h.sys
	s.props = pa.PropsFromProducer(func() pa.Actor { return s.next },
		pa.WithDispatcher(h.o.Dispatcher), pa.WithMailbox(func() pa.Mailbox { return &s.next.mailbox }))
}

func (s *spawner) spawn(inc *incarnation) *pa.PID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = inc
	defer func() { s.next = nil }()
	return s.sys.Root.Spawn(s.props)
}
