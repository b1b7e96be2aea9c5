package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// newTask makes a task of an object's code: up is the call that it is.
func newTask(ctx context.Context, s *State, t *Turn, up *link) *task {
	me := &task{Context: ctx, turn: t, link: link{id: s.inc.id, state: s, up: up, depth: 1}}
	if up != nil {
		me.depth = up.depth + 1
	}
	me.link.task = me
	return me
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
	me := newTask(t.Context(), &o.state, t, nil)
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
		// The reply waits in the gate; when the incarnation is reset, so does the caller no more.
		forget := t.OnBreak(e.lost)
		if e.once != "" {
			o.state.once = append(o.state.once, e.call)
		}
		o.begin(WithCaller(t.Context(), e.caller), t, e.chain, nil, func(ctx context.Context) func(*Turn) {
			out, err := m(o.obj, ctx, e.in)
			return func(t *Turn) {
				if e.once != "" {
					o.state.once = slices.DeleteFunc(o.state.once, func(c *call) bool { return c == e.call })
					out, err = e.finish(t, out, err)
				}
				chaos := func(p Point) { t.inc.h.chaos.At(Moment{Point: p, ID: t.ID(), Method: e.method}) }
				chaos(BeforeCommit)
				t.After(func() { chaos(AfterCommit) })
				t.After(func() { forget(); e.reply(out, err) })
			}
		})
	case incoming:
		e.enter(t, o.obj, &o.state, func(ctx context.Context, up *link, f func(context.Context) func(*Turn)) {
			o.begin(ctx, t, up, nil, f)
		})
	case background:
		o.begin(t.Context(), t, nil, nil, func(ctx context.Context) func(*Turn) {
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
	o.begin(t.Context(), t, nil, nil, func(ctx context.Context) func(*Turn) {
		err := a.Alarm(ctx, info)
		return func(t *Turn) { done(t, err) }
	})
}

// HasCallback serves [Callbacks].
func (o *object[T]) HasCallback(name string) bool { return o.class.callbacks[name] != nil }

// Callback serves [Callbacks].
func (o *object[T]) Callback(ctx context.Context, t *Turn, run alarm.Run, done func(*Turn, error)) {
	f := o.class.callbacks[run.Callback]
	o.begin(ctx, t, nil, &run.ID, func(ctx context.Context) func(*Turn) {
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
	o.begin(t.Context(), t, nil, nil, func(ctx context.Context) func(*Turn) {
		err := d.Destroy(ctx)
		return func(t *Turn) { done(t, err) }
	})
}

// Idle: no event is in progress. What the object keeps in memory is a cache of
// its storage.
func (o *object[T]) Idle() bool { return o.state.waiting == 0 }

// begin runs a task, to its end. f runs in turns, with a context that is ctx and knows
// the chain of calls, up from the call that it is; what f returns runs in its last turn.
// run is the schedule that it is a run of, if it is.
func (o *object[T]) begin(ctx context.Context, t *Turn, up *link, run *string, f func(context.Context) func(*Turn)) {
	inc := t.inc
	me := newTask(ctx, &o.state, t, up)
	me.run = run
	o.state.waiting++
	me.takes()
	var end func(*Turn)
	err := me.guard("run", func() { end = f(me) })
	switch {
	case inc.err() != nil: // abandoned: the object is not its own any more
	case err != nil:
		inc.breakWith(err)
	default:
		o.state.waiting--
		end(t)
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
