package actor

import (
	"context"
	"slices"
)

// invocation is a call in its object: all that it needs there, in one piece.
type invocation[T any] struct {
	task   task
	hook   hook // the caller hears of a reset until the reply has left
	obj    *T
	call   *attempt
	method method[T]
	out    []byte
	err    error
}

// invoke has the object's code answer a call.
func (o *object[T]) invoke(t *Turn, e *attempt, m method[T]) {
	i := &invocation[T]{obj: o.obj, call: e, method: m}
	i.hook.register(t.inc, e)
	if e.once != "" {
		o.state.once = append(o.state.once, &e.call)
	}
	ctx := t.Context()
	if e.caller != "" {
		ctx = WithCaller(ctx, e.caller)
	}
	i.task.init(ctx, &o.state, t, e.chain)
	i.task.does(i)
}

func (i *invocation[T]) code(ctx context.Context) {
	i.out, i.err = i.method(i.obj, ctx, i.call.in)
}

func (i *invocation[T]) end(t *Turn) {
	e, s, chaos := i.call, i.task.state, &t.inc.h.chaos
	if e.once != "" {
		s.once = slices.DeleteFunc(s.once, func(c *call) bool { return c == &e.call })
		i.out, i.err = e.finish(t, i.out, i.err)
	}
	at := Moment{Point: BeforeCommit, ID: t.ID(), Method: e.method}
	chaos.At(at)
	if chaos.armed.Load() > 0 {
		at.Point = AfterCommit
		t.After(func() { chaos.At(at) })
	}
	t.After(i.leave)
}

// leave passes the reply to the caller.
func (i *invocation[T]) leave() {
	i.hook.forget()
	i.call.reply(i.out, i.err)
}
