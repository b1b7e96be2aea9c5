package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// Stub addresses one object. Making it sends nothing, and it never goes stale: after
// a reset the next call gets a new incarnation. Calls on one stub are delivered in
// the order in which they are made.
type Stub struct {
	h  *Host
	id storage.ID
}

// Stub returns a stub for an object.
func (h *Host) Stub(id storage.ID) Stub { return Stub{h, id} }

// ID names the object.
func (s Stub) ID() storage.ID { return s.id }

// Do calls the method and waits for its result. An error of the method's own
// comes back as it is; an [Error] says that the object was reset or could not
// take the call. When ctx ends first the call goes on without a caller.
//
// An object's code calls others with the context that it was given. The call leaves
// when what the object has written is durable, and while it waits other events of
// the object may run: see [State.Await]. So objects that call each other don't wait
// for each other, except in a critical section: a call that comes back to that fails
// at once, with ErrCycle.
//
// A call that is known not to have begun when its object was reset for a transient
// cause is sent again: see [Call.DoOnce] for the others.
func (c Call[In, Out]) Do(ctx context.Context, s Stub, in In) (Out, error) {
	return c.Start(ctx, s, in).Wait(ctx)
}

// Start makes the call and does not wait for its result. Calls that are started one
// after the other on one stub are delivered in this order. It is sent again, if need
// be, only while somebody waits.
func (c Call[In, Out]) Start(ctx context.Context, s Stub, in In) *Pending[Out] {
	p := &Pending[Out]{}
	p.r.err = c.start(&p.r, ctx, s, in, false)
	return p
}

// DoOnce is Do for a call that must not run twice and is to be sent again all the
// same: it has an identity, by which the object knows it for a minute and tells a
// repetition what came of it. One whose execution was lost in its middle is not run
// again: it fails with ErrUnfinished.
//
// A method that does not await, and has no transaction, is one commit, and so either
// has run or has not: it never fails so. What is kept of a result bounds it, to MaxOnce
// bytes: one that is larger is an error that wraps ErrTooLarge, and what the method has
// written stays.
func (c Call[In, Out]) DoOnce(ctx context.Context, s Stub, in In) (Out, error) {
	p := &Pending[Out]{}
	p.r.err = c.start(&p.r, ctx, s, in, true)
	return p.Wait(ctx)
}

// start makes r the request of a call, and sends it; an error refuses it.
func (c Call[In, Out]) start(r *request, ctx context.Context, s Stub, in In, once bool) error { //nolint:revive // r is what it is a method of in all but syntax
	r.h, r.id = s.h, s.id
	if s.h == nil {
		return &Error{Op: "call", ID: s.id, Err: errNoHost, Hint: "a stub comes from Host.Stub"}
	}
	if s.id.Class != c.class {
		return &Error{Op: "call", ID: s.id, Err: fmt.Errorf("%s is a method of class %q", c.name, c.class)}
	}
	body, err := encode(in)
	if err != nil {
		return &Error{Op: "call", ID: s.id, Err: fmt.Errorf("the argument of %s does not encode: %w", c.name, err)}
	}
	r.call = call{method: c.name, in: body, chain: linkOf(ctx), caller: Caller(ctx)}
	if err := r.chain.admit(s.id); err != nil {
		return err
	}
	if once {
		if r.once, err = s.h.onceID(); err != nil {
			return err
		}
	}
	r.begun = s.h.o.Clock.Now()
	r.attempt = &r.first
	r.attempt.init(r)
	if r.chain.holder() != nil {
		r.chain.task.turn.After(r.send)
		return nil
	}
	r.send()
	return nil
}

var errNoHost = errors.New("the stub is of no host")

// Pending is a call whose result is yet to come.
type Pending[Out any] struct{ r request }

// Wait returns what came of the call. It is for one goroutine at a time.
func (p *Pending[Out]) Wait(ctx context.Context) (out Out, err error) {
	b, err := p.r.wait(ctx)
	if err != nil {
		return out, err
	}
	if out, err = decode[Out](b); err != nil {
		return out, &Error{Op: "call", ID: p.r.id, Err: fmt.Errorf("the result of %s does not decode: %w", p.r.call.method, err)}
	}
	return out, nil
}

// call is what a method's call asks.
type call struct {
	method string
	in     []byte
	chain  *link  // of the object that calls
	once   string // its identity, "" when it has none
	caller string // whom it is made for
}

// Size implements [Sized].
func (c *call) Size() int { return len(c.in) }

// request is a call through all of its attempts.
type request struct {
	call
	h       *Host
	id      storage.ID
	begun   time.Time
	attempt *attempt // the last one
	first   attempt
	err     error // it was refused, and there is none
}

// wait follows the attempts to their end.
func (r *request) wait(ctx context.Context) (out []byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	if me := linkOf(ctx).holder(); me != nil {
		gone := me.Await(ctx, func(ctx context.Context) error { out, err = r.follow(ctx); return nil })
		if gone != nil {
			return nil, gone
		}
		return out, err
	}
	return r.follow(ctx)
}

func (r *request) follow(ctx context.Context) ([]byte, error) {
	for n := 1; ; n++ {
		end, out, err := r.attempt.wait(ctx)
		switch end {
		case under:
			return nil, context.Cause(ctx)
		case answered:
			return out, err
		case lost, undelivered:
		}
		pause, again := again(n, r.h.o.Clock.Now().Sub(r.begun), err, end == lost, r.once != "", alarm.Jitter(r.id, n))
		if !again || pause > 0 && !r.h.sleep(ctx, pause) {
			return nil, err
		}
		r.attempt = &attempt{}
		r.attempt.init(r)
		r.send()
	}
}

// send makes the attempt.
func (r *request) send() {
	a := r.attempt
	if err := r.h.send(r.id, envelope{event: a}); err != nil {
		a.undelivered(err)
	}
}

// Limits of automatic repetition; those of the platform whose semantics these are.
const (
	maxAttempts = 5
	lastAttempt = 10 * time.Second // none begins later, counted from the first
	firstPause  = 20 * time.Millisecond
)

// again decides whether a call that was not answered is sent again, n attempts and
// some time after it was made. One that was lost may have run, and is repeated only
// if the object can tell that it is the same.
func again(n int, since time.Duration, err error, lost, once bool, jitter float64) (pause time.Duration, ok bool) {
	cause := CauseOf(err)
	switch {
	case n >= maxAttempts, lost && !once,
		cause.Overloaded(), cause == Shutdown, !cause.Transient() && !cause.Retryable():
		return 0, false
	}
	if n > 1 { // the first time, the next incarnation is likely to do better at once
		pause = firstPause << (2 * (n - 2))
		pause += time.Duration(float64(pause/4) * jitter)
	}
	return pause, since+pause <= lastAttempt
}

// attempt is the event of a call, and where its caller waits. The first outcome counts:
// a reply and a reset race.
type attempt struct {
	*request
	wake run.Signal

	mu  sync.Mutex
	end outcome
	out []byte
	err error
}

type outcome uint8

const (
	under       outcome = iota // way
	answered                   // by the object, with a result or an error of its own
	lost                       // the object was reset, and may have begun
	undelivered                // the object has not begun
)

func (a *attempt) init(r *request) { a.request, a.wake = r, r.h.o.Runner.Signal() }

// reply is what the object has answered.
func (a *attempt) reply(out []byte, err error) { a.set(answered, out, err) }

// lost: the object was reset after the call had begun.
func (a *attempt) lost(err error) { a.set(lost, nil, err) }

func (a *attempt) undelivered(err error) { a.set(undelivered, nil, err) }

func (a *attempt) set(end outcome, out []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == under {
		a.end, a.out, a.err = end, out, err
		a.wake.Set()
	}
}

func (a *attempt) get() (outcome, []byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end, a.out, a.err
}

// wait returns when there is an outcome, or ctx has ended.
func (a *attempt) wait(ctx context.Context) (outcome, []byte, error) {
	for over := ctx.Err() != nil; ; over = !run.WaitDone(ctx, a.h.o.Runner, a.wake) {
		end, out, err := a.get()
		if end != under && a.wake != nil {
			run.Free(a.wake)
			a.wake = nil
		}
		if end != under || over {
			return end, out, err
		}
	}
}

// sleep returns false when ctx ends first.
func (h *Host) sleep(ctx context.Context, d time.Duration) bool {
	wake := h.o.Runner.Signal()
	defer h.o.Clock.AfterFunc(d, wake.Set).Stop()
	defer h.o.Runner.AfterDone(ctx, wake.Set)()
	wake.Wait()
	return ctx.Err() == nil
}
