package actor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// thing is an object whose events are functions of the test's.
type thing struct{ state *actor.State }

type (
	code        func(ctx context.Context, s *actor.State) error
	constructor func(ctx context.Context, s *actor.State) error
)

var (
	codes        sync.Map // number -> code
	lastCode     atomic.Int64
	constructors sync.Map // name -> constructor

	things = actor.Define("thing", func(ctx context.Context, s *actor.State) (*thing, error) {
		if f, ok := constructors.Load(s.ID().Name); ok {
			return &thing{s}, f.(constructor)(ctx, s)
		}
		return &thing{s}, nil
	})
	runCode = actor.Method(things, "run", func(o *thing, ctx context.Context, number int64) (bool, error) {
		f, _ := codes.Load(number)
		return true, f.(code)(ctx, o.state)
	})
)

// register makes a function an argument of runCode.
func register(f code) int64 {
	n := lastCode.Add(1)
	codes.Store(n, f)
	return n
}

// lab is a host with things.
type lab struct {
	*testing.T
	*actor.Host
}

func newLab(t *testing.T, o actor.Options) lab {
	t.Helper()
	if o.Store == nil {
		s := storage.NewMemory()
		t.Cleanup(func() { s.Close() })
		o.Store = s
	}
	o.Logger = quiet
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	things.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return lab{t, h}
}

func thingID(name string) storage.ID { return storage.ID{Class: "thing", Name: name} }

// in runs f as an event of an object, and returns what it came to.
func (l lab) in(name string, f code) error { l.Helper(); return <-l.begin(name, f) }

// begin is in without waiting.
func (l lab) begin(name string, f code) <-chan error {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	go func() {
		defer cancel()
		_, err := runCode.Do(ctx, l.Stub(thingID(name)), register(f))
		done <- err
	}()
	return done
}

// must is in for what must go well.
func (l lab) must(name string, f code) {
	l.Helper()
	if err := l.in(name, f); err != nil {
		l.Fatal(err)
	}
}

// constructs has the incarnations of an object begin with f.
func (l lab) constructs(name string, f constructor) {
	constructors.Store(name, f)
	l.Cleanup(func() { constructors.Delete(name) })
}

// rows are an object's own, as text.
func rows(s *actor.State, r storage.Range) (string, error) {
	text := ""
	for e, err := range s.List(r) {
		if err != nil {
			return "", err
		}
		text += e.Key + "=" + string(e.Value) + " "
	}
	return text, nil
}

// has checks an object's rows.
func (l lab) has(name, want string) {
	l.Helper()
	l.must(name, func(_ context.Context, s *actor.State) error {
		got, err := rows(s, storage.Range{})
		if err == nil && got != want {
			l.Errorf("the rows are %q, want %q", got, want)
		}
		return err
	})
}

// refused checks an error that names everything it should.
func (l lab) refused(err, want error, op string) {
	l.Helper()
	var e *actor.Error
	if !errors.Is(err, want) || !errors.As(err, &e) || e.Op != op || e.ID.Class != "thing" || e.ID.Name == "" || e.Epoch == 0 {
		l.Errorf("got %v (%+v), want an error of %s that says %q", err, e, op, want)
	}
}

// settle is how long a test waits to see that nothing happens.
const settle = 30 * time.Millisecond
