package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/run"
)

// task is an event of an object in progress. Its code runs on the goroutine that has the
// mailbox, and only while it has it; the turn that it began with goes with it to its end.
// It is the context of its code, and knows its place in a chain of calls.
type task struct {
	context.Context
	link
	turn     *Turn
	run      *string      // the schedule that it runs, nil when it is another event
	wake     run.Signal   // what it awaits may have come; nil: it has awaited nothing
	critical atomic.Int32 // the critical sections that it is in, one in the other
}

// init makes it a task of an object's code: up is the call that it is.
func (me *task) init(ctx context.Context, s *State, t *Turn, up *link) {
	me.Context, me.turn = ctx, t
	me.link = link{id: s.inc.id, task: me, state: s, up: up, depth: 1}
	if up != nil {
		me.depth = up.depth + 1
	}
}

// Value serves context.Context.
func (me *task) Value(key any) any {
	if _, ours := key.(linkKey); ours {
		return &me.link
	}
	return me.Context.Value(key)
}

// takes the object's side for the task, which has the baton.
func (me *task) takes() {
	s := me.state
	s.turn, s.task = me.turn, me
	if me.run != nil {
		s.inc.atRun.Store(me.run)
	}
}

// leaves it.
func (me *task) leaves() {
	s := me.state
	s.turn, s.task = nil, nil
	if me.run != nil {
		s.inc.atRun.Store(nil)
	}
}

// resume is the event by which a task that has awaited queues for the baton.
type resume struct{ *task }

// resume gives it the baton, and the mailbox. False: the incarnation is over, and the
// mailbox stays here.
func (r resume) resume() bool {
	inc := r.state.inc
	inc.baton.Store(r.turn)
	if inc.err() != nil && inc.baton.CompareAndSwap(r.turn, nil) {
		return false
	}
	r.wake.Set()
	return true
}

// object runs a Class's code as a Machine.
type object[T any] struct {
	class *Class[T]
	state State
	obj   *T
}

func (o *object[T]) Start(t *Turn) error {
	o.state.inc = t.inc
	me := &task{}
	me.init(t.Context(), &o.state, t, nil)
	me.takes()
	me.critical.Store(1) // to its end: inc.start counts it
	var obj *T
	var failed error
	err := me.guard("start", func() { obj, failed = o.class.create(me, &o.state) })
	switch gone := t.inc.err(); {
	case gone != nil:
		return gone
	case err != nil:
		return err
	case failed != nil:
		return failed
	case obj == nil:
		return errors.New("the constructor returned nothing")
	}
	o.obj = obj
	me.critical.Store(0)
	me.leaves()
	return nil
}

func (o *object[T]) Handle(t *Turn, event any) {
	switch e := event.(type) {
	case *attempt:
		m, ok := o.class.methods[e.method]
		if !ok {
			e.reply(nil, &Error{Op: "call", ID: t.ID(), Epoch: t.Epoch(), Err: fmt.Errorf("class %q has no method %q", o.class.name, e.method)})
			return
		}
		if e.once != "" {
			if answered, err := e.recall(t); err != nil {
				e.lost(&Error{Op: "call", ID: t.ID(), Epoch: t.Epoch(), Cause: CauseOf(err), Err: err})
				return
			} else if answered {
				return
			}
		}
		o.invoke(t, e, m)
	case incoming:
		e.enter(t, o.obj, &o.state)
	case background:
		o.state.begin(t.Context(), t, nil, func(ctx context.Context) func(*Turn) {
			err := e.f(ctx)
			return func(*Turn) {
				o.state.background--
				if err != nil {
					t.inc.h.log.Warn("background work failed", "object", t.ID().String(), "epoch", t.Epoch(), "error", err)
				}
			}
		})
	case Drain:
	}
}

func (o *object[T]) Alarm(t *Turn, info alarm.Info, done func(*Turn, error)) {
	a, ok := any(o.obj).(Alarmer)
	if !ok {
		done(t, nil)
		return
	}
	o.state.begin(t.Context(), t, nil, func(ctx context.Context) func(*Turn) {
		err := a.Alarm(ctx, info)
		return func(t *Turn) { done(t, err) }
	})
}

// HasCallback serves [Callbacks].
func (o *object[T]) HasCallback(name string) bool { return o.class.callbacks[name] != nil }

// Callback serves [Callbacks].
func (o *object[T]) Callback(ctx context.Context, t *Turn, run alarm.Run, done func(*Turn, error)) {
	f := o.class.callbacks[run.Callback]
	o.state.begin(ctx, t, &run.ID, func(ctx context.Context) func(*Turn) {
		err := f(o.obj, ctx, run.Payload)
		return func(t *Turn) { done(t, err) }
	})
}

// Destroy serves [Destroyer].
func (o *object[T]) Destroy(t *Turn, done func(*Turn, error)) {
	d, ok := any(o.obj).(interface{ Destroy(context.Context) error })
	if !ok {
		done(t, nil)
		return
	}
	o.state.begin(t.Context(), t, nil, func(ctx context.Context) func(*Turn) {
		err := d.Destroy(ctx)
		return func(t *Turn) { done(t, err) }
	})
}

// Idle: no event is in progress. What the object keeps in memory is a cache of
// its storage.
func (o *object[T]) Idle() bool { return o.state.waiting == 0 }

// begin runs a task that is nobody's call, to its end. f runs in turns, with a context
// that is ctx and knows the chain of calls; what f returns runs in the last of them. run
// is the schedule that it is a run of, if it is.
func (s *State) begin(ctx context.Context, t *Turn, run *string, f func(context.Context) func(*Turn)) {
	me := &task{}
	me.init(ctx, s, t, nil)
	me.run = run
	me.does(&plain{f: f})
}

// work is what a task does.
type work interface {
	// code runs in turns.
	code(ctx context.Context)
	// end is called in the last of them.
	end(t *Turn)
}

// plain is work that is a function.
type plain struct {
	f    func(context.Context) func(*Turn)
	last func(*Turn)
}

func (p *plain) code(ctx context.Context) { p.last = p.f(ctx) }
func (p *plain) end(t *Turn)              { p.last(t) }

// does runs the task, to its end.
func (me *task) does(w work) {
	s := me.state
	s.waiting++
	me.takes()
	err := me.guard("run", func() { w.code(me) })
	switch {
	case s.inc.err() != nil: // abandoned: the object is not its own any more
	case err != nil:
		s.inc.breakWith(err)
	default:
		s.waiting--
		w.end(me.turn)
		me.leaves()
	}
}

// guard runs the object's own code.
func (me *task) guard(op string, f func()) (err error) {
	inc := me.state.inc
	returned := false
	defer func() {
		if r := recover(); r != nil {
			err = inc.panicked(op, r)
		} else if !returned { // nor will it
			inc.breakWith(&Error{Op: op, ID: inc.id, Epoch: inc.epoch, Cause: Panicked, Err: errExit, own: true})
		}
	}()
	f()
	returned = true
	return nil
}

var errExit = errors.New("it called runtime.Goexit")

func text(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(err.Error(), "error")
}
