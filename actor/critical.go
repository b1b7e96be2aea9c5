package actor

import (
	"context"
	"errors"
	"slices"

	"github.com/kalpahost/kalpa/storage"
)

// Critical runs f while no other event of the object is: they wait, in order, also
// when f awaits. That is for what has to be done before anything else may see the
// object, as in a constructor, which is a critical section from its beginning.
//
// An error of f resets the object, and so does a section that lasts longer than
// 30 s: the events that have waited fail with the reset's error, in order.
func (s *State) Critical(ctx context.Context, f func(ctx context.Context) error) error {
	if _, err := s.holder(); err != nil {
		return err
	}
	defer s.enter()()
	if err := f(ctx); err != nil {
		s.inc.abort("critical section", err)
	}
	return s.inc.err()
}

// enter begins a critical section of the task that holds the baton; they nest.
func (s *State) enter() (leave func()) {
	me := s.task
	if me.critical.Add(1) == 1 {
		s.inc.criticals.Add(1)
	}
	return func() {
		if me.critical.Add(-1) == 0 {
			s.inc.criticals.Add(1)
		}
	}
}

// ErrRollback, returned by the function of a transaction, takes back what it wrote;
// Transaction then returns nil.
var ErrRollback = errors.New("roll the transaction back")

// Transaction runs f, and takes back what it has done to the object's rows, alarm
// and schedules if it returns an error, which Transaction returns. Otherwise all of
// it lands in one commit, also when f awaits in between; what f calls meanwhile
// does not wait for that commit.
//
// It is a critical section: no other event of the object runs meanwhile, and one
// that lasts longer than 30 s resets the object. Transactions nest: an inner one
// that fails takes back its own writes, and the outer one decides what to make of
// it; what the inner one wrote lands if the outer one ends well. What f did to the
// object's memory is not taken back.
func (s *State) Transaction(ctx context.Context, f func(ctx context.Context) error) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	defer s.enter()()
	if s.nested == 0 && t.batch != nil {
		// What was written before is a commit of its own: what f calls rests on it.
		t.end()
		t.again()
		if err := s.inc.err(); err != nil {
			return err
		}
	}
	begun := t.save()
	s.nested++
	err = f(ctx)
	if gone := s.inc.err(); gone != nil {
		return gone
	}
	s.nested--
	if err != nil {
		t.restore(begun)
	}
	if errors.Is(err, ErrRollback) {
		return nil
	}
	return err
}

// savepoint is what a turn has written when a transaction begins.
type savepoint struct {
	batch *storage.Batch
	size  int
	alarm *storage.Alarm
	taken bool
}

func (t *Turn) save() savepoint {
	p := savepoint{size: t.size, alarm: t.inc.alarm, taken: t.inc.taken}
	if t.batch != nil {
		b := *t.batch
		b.Puts, b.Deletes = slices.Clone(b.Puts), slices.Clone(b.Deletes)
		p.batch = &b
	}
	return p
}

func (t *Turn) restore(p savepoint) {
	t.batch, t.size, t.at, t.view = p.batch, p.size, nil, nil
	t.inc.alarm, t.inc.taken = p.alarm, p.taken
	if t.inc.keeper != nil {
		t.inc.keeper.Reload()
	}
}
