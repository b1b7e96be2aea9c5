package actor_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// goroutine is the number of the one that calls it.
func goroutine() string {
	b := make([]byte, 64)
	return string(bytes.Fields(b[:runtime.Stack(b, false)])[1])
}

// Events that are waiting run one after the other on one goroutine, that of the mailbox:
// handing each to a goroutine of its own costs ten times what the turn does.
func TestEventsThatDoNotAwaitRunOnOneGoroutine(t *testing.T) {
	l := newLab(t, actor.Options{})
	const events = 50
	var on [events]string
	first, queued := make(chan struct{}), make(chan struct{})
	calls := []*actor.Pending[bool]{runCode.Start(t.Context(), l.Stub(thingID("a")), register(func(context.Context, *actor.State) error {
		close(first)
		<-queued
		on[0] = goroutine()
		return nil
	}))}
	<-first
	for n := 1; n < events; n++ {
		calls = append(calls, runCode.Start(t.Context(), l.Stub(thingID("a")), register(func(context.Context, *actor.State) error {
			on[n] = goroutine()
			return nil
		})))
	}
	close(queued)
	for n, c := range calls {
		if _, err := c.Wait(t.Context()); err != nil || on[n] != on[0] {
			t.Fatalf("event %d ran on goroutine %s, the first one on %s; %v", n, on[n], on[0], err)
		}
	}
}

// Code that awaits stays on its goroutine, and others go on with the object.
func TestCodeThatAwaitsGoesOnWhereItIs(t *testing.T) {
	l := newLab(t, actor.Options{})
	awaits, release := make(chan struct{}), make(chan struct{})
	var before, after, between string
	done := l.begin("a", func(ctx context.Context, s *actor.State) error {
		before = goroutine()
		err := s.Await(ctx, func(context.Context) error { close(awaits); <-release; return nil })
		after = goroutine()
		return err
	})
	<-awaits
	l.must("a", func(context.Context, *actor.State) error { between = goroutine(); return nil })
	close(release)
	if err := <-done; err != nil || before != after || between == before {
		t.Errorf("it ran on goroutine %s and went on on %s, another one meanwhile on %s; %v", before, after, between, err)
	}
}

// Code that ends its goroutine, or never ends, has lost the object and keeps nobody from it:
// also in its constructor.
func TestAConstructorThatEndsItsGoroutineResetsTheObject(t *testing.T) {
	l := newLab(t, actor.Options{})
	first := true
	l.constructs("a", func(context.Context, *actor.State) error {
		if first {
			first = false
			runtime.Goexit()
		}
		return nil
	})
	nothing := func(context.Context, *actor.State) error { return nil }
	if err := l.in("a", nothing); actor.CauseOf(err) != actor.Panicked {
		t.Errorf("got %v", err)
	}
	l.must("a", nothing)
}

// What an object has written may never become durable once it is reset: its code goes on,
// and calls nobody.
func TestTheCodeOfAnObjectThatIsResetCallsNobodyI2(t *testing.T) {
	l := newLab(t, actor.Options{})
	called := false
	call := register(func(context.Context, *actor.State) error { called = true; return nil })
	calls := make(chan error, 2)
	l.begin("a", func(ctx context.Context, s *actor.State) error {
		gone := errors.New("gone")
		if err := s.Await(ctx, func(context.Context) error { l.Reset(thingID("a"), actor.Aborted, gone); return nil }); !errors.Is(err, gone) {
			t.Errorf("the await came to %v", err)
		}
		_, err := runCode.Do(ctx, s.Stub(thingID("b")), call)
		calls <- err
		return nil
	})
	l.begin("c", func(ctx context.Context, s *actor.State) error {
		s.Abort(nil)
		_, err := runCode.Do(ctx, s.Stub(thingID("b")), call)
		calls <- err
		return nil
	})
	for range 2 {
		if err := <-calls; actor.CauseOf(err) != actor.Aborted {
			t.Errorf("the call came to %v", err)
		}
	}
	time.Sleep(settle)
	l.must("b", func(context.Context, *actor.State) error {
		if called {
			t.Error("the call has left")
		}
		return nil
	})
}

// Who waits for what has come gets it again, and gives its signal back once.
func TestAnAnswerMayBeAskedForAgain(t *testing.T) {
	l := newLab(t, actor.Options{})
	p := runCode.Start(t.Context(), l.Stub(thingID("a")), register(func(context.Context, *actor.State) error { return nil }))
	for range 3 {
		if ok, err := p.Wait(t.Context()); !ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
	}
	if l.Runner().Signal() == l.Runner().Signal() {
		t.Error("two have one signal")
	}
}
