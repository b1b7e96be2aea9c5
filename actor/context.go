package actor

import (
	"context"
	"sync"
	"time"
)

// lazy makes a context when somebody asks for what only a real one has. Most events
// end before anybody does, most incarnations rest, and making one costs as much as a
// turn.
type lazy struct {
	mu    sync.Mutex
	real  *life  // nil: nobody has asked
	cause *error // nil: it is not over
}

// noCause is that of a context whose code has returned.
var noCause error

type life struct {
	context.Context
	end context.CancelCauseFunc
}

// under is the real one, beneath its parent.
func (l *lazy) under(parent context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real == nil {
		ctx, end := context.WithCancelCause(parent)
		if l.real = (&life{ctx, end}); l.cause != nil {
			end(*l.cause)
		}
	}
	return l.real.Context
}

// soFar is the real one if anybody has asked for it, and its parent otherwise.
func (l *lazy) soFar(parent context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real.Context
	}
	return parent
}

// end ends it. The first cause counts.
func (l *lazy) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	if l.cause = &noCause; cause != nil {
		kept := cause
		l.cause = &kept
	}
	if l.real != nil {
		l.real.end(cause)
	}
}

// err is that of the context. Whoever asks for the cause next finds a real one.
func (l *lazy) err(parent context.Context) error {
	l.mu.Lock()
	over := l.cause != nil || l.real != nil
	l.mu.Unlock()
	if !over && parent.Err() == nil {
		return nil
	}
	return l.under(parent).Err()
}

// lifetime is the context of an incarnation.
type lifetime struct{ lazy }

func (l *lifetime) Deadline() (at time.Time, ok bool) { return at, false }
func (l *lifetime) Done() <-chan struct{}             { return l.under(context.Background()).Done() }
func (l *lifetime) Err() error                        { return l.err(context.Background()) }
func (l *lifetime) Value(key any) any                 { return l.soFar(context.Background()).Value(key) }

// requestContext is the context of a request in its object: it ends with the incarnation,
// and with the client's connection, and has the values of the request's own.
type requestContext struct {
	incarnation, request context.Context
	lazy
}

func (c *requestContext) init(incarnation, request context.Context) {
	c.incarnation, c.request = incarnation, request
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.incarnation.Deadline() }
func (c *requestContext) Done() <-chan struct{}       { return c.under(c.incarnation).Done() }
func (c *requestContext) Err() error                  { return c.err(c.incarnation) }

func (c *requestContext) Value(key any) any {
	if v := c.soFar(c.incarnation).Value(key); v != nil {
		return v
	}
	if _, ours := key.(linkKey); ours {
		return nil
	}
	return c.request.Value(key)
}
