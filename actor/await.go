package actor

import "context"

// Await gives the baton back while f runs, and takes it again: other events of
// the object may run meanwhile, except in a critical section. f must not use the
// State. It begins when everything written so far is durable, so that what it tells
// others is true.
//
// A [Call] that the object's code makes with its context awaits by itself.
func (s *State) Await(ctx context.Context, f func(context.Context) error) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	me := s.task
	if me.wake == nil {
		me.wake = s.inc.h.o.Runner.Signal()
	}
	defer t.OnBreak(func(error) { me.wake.Set() })()
	t.After(me.wake.Set) // when what was written is durable
	if me.critical.Load() > 0 {
		return s.stay(ctx, t, f)
	}
	if gone := me.giveBack(); gone != nil {
		return gone
	}
	me.wake.Wait()
	if gone := s.inc.err(); gone != nil {
		return gone
	}
	err = f(ctx)
	if gone := me.takeBack(); gone != nil {
		return gone
	}
	return err
}

// giveBack ends the task's turn, and has another goroutine go on with the mailbox. It
// fails when the incarnation is over.
func (me *task) giveBack() error {
	inc, t := me.state.inc, me.turn
	me.leaves()
	t.end()
	t.close()
	if !inc.baton.CompareAndSwap(t, nil) {
		return inc.err()
	}
	inc.h.looked()
	inc.mailbox.pass()
	return nil
}

// takeBack returns when the task has the baton and the mailbox again, in order with the
// other events, or the incarnation is over.
func (me *task) takeBack() error {
	inc, t := me.state.inc, me.turn
	if inc.mailbox.claim() { // there are no others
		if !(resume{me}).resume() {
			inc.mailbox.pass()
		}
	} else if gone := inc.h.post(inc, resume{me}); gone != nil {
		return gone
	}
	me.wake.Wait()
	if gone := inc.err(); gone != nil {
		return gone
	}
	t.begin()
	inc.touch(t.now)
	me.takes()
	return nil
}

// stay is Await in a critical section: the turn ends, the mailbox stands still, and the
// next turn is this task's as well. In a transaction the turn goes on.
func (s *State) stay(ctx context.Context, t *Turn, f func(context.Context) error) error {
	inc, me := s.inc, s.task
	s.turn = nil
	if s.nested == 0 {
		t.end()
	} else {
		t.leave()
	}
	t.close()
	me.wake.Wait()
	if gone := inc.err(); gone != nil {
		return gone
	}
	err := f(ctx)
	if gone := inc.err(); gone != nil {
		return gone
	}
	t.reopen()
	if s.nested == 0 {
		t.again()
	}
	s.turn = t
	return err
}

// Sync waits until everything that the object has written so far is durable. Others
// may run meanwhile, as in any await. Nothing that leaves the object needs it: a
// reply, a call and an awaited function wait by themselves.
func (s *State) Sync(ctx context.Context) error {
	return s.Await(ctx, func(context.Context) error { return nil })
}
