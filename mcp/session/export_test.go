package session

import (
	"context"

	"github.com/kalpahost/kalpa/actor"
)

// NewServiceWith is NewService with a machine around each session's.
func NewServiceWith(h *actor.Host, o Options, around func(actor.Machine) actor.Machine) (*Service, error) {
	s, err := newService(h, o)
	if err == nil {
		h.Register(Class, func() actor.Machine { return around(s.machine()) })
	}
	return s, err
}

// Count counts the sessions now.
func Count(s *Service) error { return s.count(context.Background()) }
