package actor

import (
	"context"
	"fmt"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// Class is a kind of object whose code is ordinary blocking Go. See [Define].
type Class[T any] struct {
	name    string
	create  func(context.Context, *State) (*T, error)
	methods map[string]method[T]
	// callbacks are what schedules run; payloads are JSON.
	callbacks map[string]callback[T]
	served    bool // over HTTP
}

// method runs on the object's goroutine.
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

// Method adds a method to a class. Arguments and results that are protobuf messages
// travel as such, and everything else as JSON: objects share no memory. It panics
// when the name is taken.
func Method[T, In, Out any](c *Class[T], name string, f func(obj *T, ctx context.Context, in In) (Out, error)) Call[In, Out] {
	if _, taken := c.methods[name]; taken {
		panic(fmt.Sprintf("actor: class %q has two methods %q", c.name, name))
	}
	c.methods[name] = func(obj *T, ctx context.Context, body []byte) ([]byte, error) {
		in, err := decode[In](body)
		if err != nil {
			return nil, fmt.Errorf("the argument of %s does not decode: %w", name, err)
		}
		out, err := f(obj, ctx, in)
		if err != nil {
			return nil, err
		}
		b, err := encode(out)
		if err != nil {
			return nil, fmt.Errorf("the result of %s does not encode: %w", name, err)
		}
		return b, nil
	}
	return Call[In, Out]{c.name, name}
}

// Name is the class's.
func (c *Class[T]) Name() string { return c.name }

// ID is the identity of the object of this class that has a name. The same name is
// always the same object.
func (c *Class[T]) ID(name string) storage.ID { return storage.ID{Class: c.name, Name: name} }

// Register makes the class known to a host; see [Host.Register].
func (c *Class[T]) Register(h *Host) {
	h.Register(c.name, func() Machine { return &object[T]{class: c} })
	if c.served {
		h.served[c.name] = true
	}
}
