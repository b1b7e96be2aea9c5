package actor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// Class is a kind of object whose code is ordinary blocking Go. See [Define].
type Class[T any] struct {
	name    string
	create  func(context.Context, *State) (*T, error)
	methods map[string]method[T]
	// callbacks are what schedules run; payloads are JSON.
	callbacks map[string]callback[T]
}

// method runs on the object's goroutine; bodies are JSON.
type method[T any] func(obj *T, ctx context.Context, in []byte) (out []byte, err error)

// Alarmer is what a class's T implements to be woken by its alarm.
type Alarmer interface {
	Alarm(ctx context.Context, info alarm.Info) error
}

// Define makes a class. create is called for each incarnation, as its first
// turn: no event comes in before it has returned, and its error resets the
// object. *T may be an [Alarmer].
func Define[T any](name string, create func(context.Context, *State) (*T, error)) *Class[T] {
	return &Class[T]{name: name, create: create, methods: map[string]method[T]{}, callbacks: map[string]callback[T]{}}
}

// Call is a method of a class, to be called through a stub.
type Call[In, Out any] struct{ class, name string }

// Method adds a method to a class. Arguments and results travel as JSON: objects
// share no memory. It panics when the name is taken.
func Method[T, In, Out any](c *Class[T], name string, f func(obj *T, ctx context.Context, in In) (Out, error)) Call[In, Out] {
	if _, taken := c.methods[name]; taken {
		panic(fmt.Sprintf("actor: class %q has two methods %q", c.name, name))
	}
	c.methods[name] = func(obj *T, ctx context.Context, body []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fmt.Errorf("the argument of %s does not decode: %w", name, err)
		}
		out, err := f(obj, ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return Call[In, Out]{c.name, name}
}

// Register makes the class known to a host; see [Host.Register].
func (c *Class[T]) Register(h *Host) {
	h.Register(c.name, func() Machine { return &object[T]{class: c} })
}

// Stub addresses one object. Making it sends nothing. Calls on one stub are
// delivered in order.
type Stub struct {
	h  *Host
	id storage.ID
}

// Stub returns a stub for an object.
func (h *Host) Stub(id storage.ID) Stub { return Stub{h, id} }

// ID names the object.
func (s Stub) ID() storage.ID { return s.id }

// call is the event of a method's call.
type call struct {
	method string
	in     []byte
	reply  func(out []byte, err error)
}

// Do calls the method and waits for its result. An error of the method's own
// comes back as it is; an [Error] says that the object was reset or could not
// take the call. When ctx ends first the call goes on without a caller.
func (c Call[In, Out]) Do(ctx context.Context, s Stub, in In) (out Out, err error) {
	if s.id.Class != c.class {
		return out, &Error{Op: "call", ID: s.id, Err: fmt.Errorf("%s is a method of class %q", c.name, c.class)}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, &Error{Op: "call", ID: s.id, Err: fmt.Errorf("the argument of %s does not encode: %w", c.name, err)}
	}
	r := reply{wake: s.h.o.Runner.Signal()}
	if err := s.h.Send(s.id, &call{c.name, body, r.set}, func(err error) { r.set(nil, err) }); err != nil {
		return out, err
	}
	defer s.h.o.Runner.AfterDone(ctx, r.wake.Set)()
	r.wake.Wait()
	switch b, err, ok := r.get(); {
	case !ok:
		return out, ctx.Err()
	case err != nil:
		return out, err
	default:
		return out, json.Unmarshal(b, &out)
	}
}

// reply is where a caller waits. The first one counts: a reply and a reset race.
type reply struct {
	wake run.Signal

	mu  sync.Mutex
	is  bool
	out []byte
	err error
}

func (r *reply) set(out []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.is {
		r.is, r.out, r.err = true, out, err
		r.wake.Set()
	}
}

func (r *reply) get() (out []byte, err error, ok bool) { //nolint:revive // the error is the reply's
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out, r.err, r.is
}
