package session

import (
	"context"
	"fmt"

	"github.com/kalpahost/kalpa/actor"
)

// operation is an event of who runs the host.
type operation struct {
	do   func(s *state, o *out) error // an error: nothing has changed
	done func(error)
	err  error // of do
}

// operate runs an operation, and says that it is done when that is durable.
func (obj *object) operate(t *actor.Turn, e *operation) {
	forget := t.OnBreak(e.done)
	var o out
	obj.s.step(e, t.Now(), &o)
	if err := obj.apply(t, &o); err != nil {
		t.Abort(err)
		return
	}
	t.After(func() { forget(); e.done(e.err) })
}

// Busy: a session owes answers, which what was asked for would lose.
type Busy struct {
	ID   string
	Owed int
}

func (b *Busy) Error() string {
	return fmt.Sprintf("session %s owes the answers to %d requests", b.ID, b.Owed)
}

// End ends a session for good, as its client does with DELETE: what it owes is answered
// as lost, its streams end, and its runtime is closed. It returns when that is durable,
// and fails with ErrUnknown when there is no such session, or none any more.
func (s *Service) End(ctx context.Context, id string) error {
	return s.operate(ctx, id, func(s *state, o *out) error {
		if !s.alive() {
			return ErrUnknown
		}
		s.active = s.now
		s.end("operator", o)
		s.endGeneration(Lost(ReasonEnded), closedEnded, s.now, o)
		s.endStreams(o)
		return nil
	})
}

// Dispose closes the runtime of a session, as if it had been idle; the next request
// builds another. It returns when the closing has begun, and whether there was one. A
// session that owes answers is left alone with a *Busy; with force they are answered as
// lost.
func (s *Service) Dispose(ctx context.Context, id string, force bool) (was bool, err error) {
	if !s.host.Active(ObjectOf(id)) {
		_, err := s.Look(ctx, id)
		return false, err // one that is at rest has none
	}
	err = s.operate(ctx, id, func(s *state, o *out) error {
		if was = s.rt.phase != none && s.rt.phase != closing; !was {
			return nil
		}
		if n := len(s.live); n > 0 && !force {
			return &Busy{s.id, n}
		}
		s.endGeneration(LostTo(actor.Aborted), closedOperator, s.now, o)
		if s.get != nil {
			s.supersede(s.get, o)
		}
		return nil
	})
	return was, err
}

func (s *Service) operate(ctx context.Context, id string, do func(*state, *out) error) error {
	if _, err := s.Look(ctx, id); err != nil {
		return err
	}
	done := make(chan error, 2)
	e := &operation{do: do, done: func(err error) { done <- err }}
	if err := s.host.Send(ObjectOf(id), e, e.done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
