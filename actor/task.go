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

// task is an event of an object in progress: a goroutine that runs only while it
// holds the baton. The baton is the turn: the mailbox waits until the task gives
// it back. It is the context of its code, and knows its place in a chain of calls.
type task struct {
	context.Context
	link
	run      *string    // the schedule that it runs, nil when it is another event
	wake     run.Signal // what it awaits may have come; nil: it has awaited nothing
	baton    atomic.Int32
	critical atomic.Int32 // the critical sections that it is in, one in the other
}

// newTask makes a task of an object's code: up is the call that it is.
func newTask(ctx context.Context, s *State, up *link) *task {
	me := &task{Context: ctx, link: link{id: s.inc.id, state: s, up: up, depth: 1}}
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

// What a task has to do with the baton.
const (
	without int32 = iota // it waits for it, or has given it back
	holds
	revoked // it held it when its incarnation was reset, and goes on in vain
)

// giveBack ends the task's turn; false: the baton has been revoked.
func (me *task) giveBack() bool { return me.baton.CompareAndSwap(holds, without) }

// resume is the event by which a task that has awaited queues for the baton.
type resume struct{ *task }

// object runs a Class's code as a Machine.
type object[T any] struct {
	class *Class[T]
	state State
	obj   *T
}

func (o *object[T]) Start(t *Turn) error {
	o.state.inc = t.inc
	me := newTask(t.Context(), &o.state, nil)
	o.state.turn, o.state.task = t, me
	me.baton.Store(holds)
	me.critical.Store(1) // to its end: inc.start counts it
	var err error
	o.obj, err = o.class.create(me, &o.state)
	if err == nil && o.obj == nil {
		err = errors.New("the constructor returned nothing")
	}
	if me.giveBack() && t.inc.err() == nil {
		me.critical.Store(0)
		o.state.turn, o.state.task = nil, nil
	}
	return err
}

// broken is called when the incarnation is reset: nobody waits for what it runs.
func (o *object[T]) broken() { o.state.back.Set() }

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
	case resume:
		o.run(t, e.task, e.task.wake.Set)
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

// begin starts a task. f runs in turns, with a context that is ctx and knows the
// chain of calls, up from the call that it is; what f returns runs in its last turn.
// run is the schedule that it is a run of, if it is.
func (o *object[T]) begin(ctx context.Context, t *Turn, up *link, run *string, f func(context.Context) func(*Turn)) {
	inc := t.inc
	me := newTask(ctx, &o.state, up)
	me.run = run
	o.state.waiting++
	o.run(t, me, func() {
		inc.h.o.Runner.Go(func() {
			returned := false
			defer func() {
				if !returned {
					// Nobody would give the baton back.
					inc.breakWith(&Error{Op: "run", ID: inc.id, Epoch: inc.epoch, Cause: Panicked, Err: errExit, own: true})
				}
				if me.baton.Swap(without) == revoked {
					inc.isolate.ended(inc)
				}
			}()
			end, err := o.guard(t, func() func(*Turn) { return f(me) })
			returned = true
			if inc.err() != nil {
				return // abandoned: the baton is nobody's
			}
			if err != nil {
				inc.breakWith(err)
				return
			}
			o.state.waiting--
			end(o.state.turn)
			o.state.turn, o.state.task = nil, nil
			if me.giveBack() {
				o.state.back.Set()
			}
		})
	})
}

var errExit = errors.New("it called runtime.Goexit")

func (o *object[T]) guard(t *Turn, f func() func(*Turn)) (end func(*Turn), err error) {
	defer func() {
		if r := recover(); r != nil {
			err = t.inc.panicked("run", r)
		}
	}()
	return f(), nil
}

// run hands the baton to a task and waits until it comes back, or the
// incarnation is reset: nobody waits for an abandoned task.
func (o *object[T]) run(t *Turn, me *task, handOver func()) {
	o.state.turn, o.state.task = t, me
	t.inc.atRun.Store(me.run)
	me.baton.Store(holds)
	handOver()
	o.state.back.Wait()
	if t.inc.err() == nil {
		t.inc.atRun.Store(nil)
		return
	}
	t.inc.revoked = me.baton.CompareAndSwap(holds, revoked)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(err.Error(), "error")
}
