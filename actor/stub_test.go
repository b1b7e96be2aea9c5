package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// ask calls an object out of another one.
func (l lab) ask(ctx context.Context, name string, f code) error {
	_, err := runCode.Do(ctx, l.Stub(thingID(name)), register(f))
	return err
}

func TestCallsOnOneStubAreDeliveredInOrder(t *testing.T) {
	l := newLab(t, actor.Options{})
	var j journal
	want := ""
	l.enqueue("a", &j, 50)
	l.must("a", func(context.Context, *actor.State) error { return nil })
	for i := range 50 {
		want += fmt.Sprint(i, " ")
	}
	if j.String() != want {
		t.Errorf("delivered: %s", &j)
	}
	// The same from an object.
	j.text = ""
	l.must("b", func(ctx context.Context, _ *actor.State) error {
		var last *actor.Pending[bool]
		for i := range 50 {
			last = runCode.Start(ctx, l.Stub(thingID("a")), register(func(context.Context, *actor.State) error { j.add("%d", i); return nil }))
		}
		for range 2 { // the result is there for who asks again
			if _, err := last.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if j.String() != want {
		t.Errorf("delivered: %s", &j)
	}
}

func TestACallLeavesAnObjectWhenItsWritesAreDurableI2(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{})}
	l := newLab(t, actor.Options{Store: slow})
	var j journal
	done := l.begin("a", func(ctx context.Context, s *actor.State) error {
		if err := s.Put("a", []byte("1")); err != nil {
			return err
		}
		return l.ask(ctx, "b", func(context.Context, *actor.State) error { j.add("called"); return nil })
	})
	time.Sleep(settle)
	if j.String() != "" {
		t.Error("the call left before the commit")
	}
	close(slow.hold)
	if err := <-done; err != nil || j.String() != "called " {
		t.Errorf("%s %v", &j, err)
	}
}

// A calls B calls A: nobody waits for the other.
func TestObjectsThatCallEachOtherDontDeadlock(t *testing.T) {
	l := newLab(t, actor.Options{})
	l.must("a", func(ctx context.Context, s *actor.State) error {
		must(t, s.Put("n", []byte("1")))
		err := l.ask(ctx, "b", func(ctx context.Context, _ *actor.State) error {
			return l.ask(ctx, "a", func(ctx context.Context, s *actor.State) error {
				if v, err := s.Get("n"); string(v) != "1" {
					t.Errorf("the inner event reads %q: %v", v, err)
				}
				return s.Put("n", []byte("2"))
			})
		})
		if v, _ := s.Get("n"); string(v) != "2" {
			t.Errorf("the outer event reads %q", v)
		}
		return err
	})
	// And A calls itself.
	l.must("a", func(ctx context.Context, _ *actor.State) error {
		return l.ask(ctx, "a", func(_ context.Context, s *actor.State) error { return s.Put("n", []byte("3")) })
	})
	l.has("a", "n=3 ")
}

func TestACycleIntoACriticalSectionFailsAtOnceAndNamesIt(t *testing.T) {
	l := newLab(t, actor.Options{})
	nothing := func(context.Context, *actor.State) error { return nil }
	back := func(ctx context.Context, _ *actor.State) error { return l.ask(ctx, "a", nothing) }
	calls := func(ctx context.Context, _ *actor.State) error {
		return l.ask(ctx, "b", func(ctx context.Context, _ *actor.State) error { return l.ask(ctx, "c", back) })
	}
	check := func(err error, path string) {
		t.Helper()
		var e *actor.Error
		if !errors.Is(err, actor.ErrCycle) || !strings.Contains(err.Error(), path) || !errors.As(err, &e) || e.ID != thingID("a") || e.Hint == "" {
			t.Errorf("got %v", err)
		}
	}
	for _, how := range []func(*actor.State) func(context.Context, func(context.Context) error) error{
		func(s *actor.State) func(context.Context, func(context.Context) error) error { return s.Critical },
		func(s *actor.State) func(context.Context, func(context.Context) error) error { return s.Transaction },
	} {
		l.must("a", func(ctx context.Context, s *actor.State) error {
			err := how(s)(ctx, func(ctx context.Context) error {
				check(calls(ctx, s), "thing/a -> thing/b -> thing/c -> thing/a")
				check(back(ctx, s), "thing/a -> thing/a")
				return l.ask(ctx, "b", nothing) // what does not come back is fine
			})
			return errors.Join(err, calls(ctx, s)) // and so is what comes back later
		})
	}
	l.Reset(thingID("a"), actor.Aborted, nil)
	l.constructs("a", func(ctx context.Context, s *actor.State) error {
		check(calls(ctx, s), "thing/a -> thing/b -> thing/c -> thing/a")
		return nil
	})
	l.must("a", nothing)
}

func TestChainsOfCallsAreBoundedI12(t *testing.T) {
	l := newLab(t, actor.Options{})
	depth := 0
	var deeper code
	deeper = func(ctx context.Context, s *actor.State) error {
		depth++
		return l.ask(ctx, map[string]string{"a": "b", "b": "a"}[s.ID().Name], deeper)
	}
	err := l.in("a", deeper)
	if !errors.Is(err, actor.ErrTooDeep) || depth != actor.MaxDepth {
		t.Errorf("%d calls deep: %v", depth, err)
	}
	if want := "thing/a -> ... -> thing/"; !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
		t.Errorf("it does not say %q: %v", want, err)
	}
}

var (
	double = actor.Method(things, "double", func(_ *thing, _ context.Context, n *wrapperspb.Int64Value) (*wrapperspb.Int64Value, error) {
		return wrapperspb.Int64(2 * n.GetValue()), nil
	})
	unsendable   = actor.Method(things, "unsendable", func(*thing, context.Context, func()) (int, error) { return 0, nil })
	unreturnable = actor.Method(things, "unreturnable", func(*thing, context.Context, int) (func(), error) { return nil, nil })
)

func TestBodiesAreJSONOrProtobuf(t *testing.T) {
	l := newLab(t, actor.Options{})
	stub := l.Stub(thingID("a"))
	if v, err := double.Do(t.Context(), stub, wrapperspb.Int64(21)); err != nil || v.GetValue() != 42 {
		t.Errorf("got %v %v", v, err)
	}
	if v, err := double.Do(t.Context(), stub, nil); err != nil || v.GetValue() != 0 {
		t.Errorf("got %v %v", v, err)
	}
	var e *actor.Error
	if _, err := unsendable.Do(t.Context(), stub, func() {}); !errors.As(err, &e) || e.ID != thingID("a") {
		t.Errorf("got %v", err)
	}
	if _, err := unreturnable.Do(t.Context(), stub, 1); err == nil || !strings.Contains(err.Error(), "unreturnable") {
		t.Errorf("got %v", err)
	}
}

func TestBadStubsGetAnError(t *testing.T) {
	l := newLab(t, actor.Options{})
	for name, stub := range map[string]actor.Stub{
		"of no host":       {},
		"of another class": l.Stub(storage.ID{Class: "counter", Name: "a"}),
		"without a name":   l.Stub(thingID("")),
		"with a bad name":  l.Stub(thingID("a\x00b")),
		"too long":         l.Stub(thingID(strings.Repeat("a", storage.MaxName+1))),
	} {
		_, err := double.Do(t.Context(), stub, nil)
		var e *actor.Error
		if !errors.As(err, &e) || e.ID != stub.ID() || e.Op == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := incr.Do(t.Context(), l.Stub(id("a")), 1)
	if !errors.Is(err, actor.ErrNoClass) {
		t.Errorf("got %v", err)
	}
}

// A call that has not begun is sent again, without the caller's noticing.
func TestWhatHasNotBegunIsSentAgain(t *testing.T) {
	l := newLab(t, actor.Options{})
	inside := make(chan struct{})
	first := l.begin("a", func(ctx context.Context, s *actor.State) error {
		return s.Critical(ctx, func(ctx context.Context) error {
			close(inside)
			return s.Await(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
	})
	<-inside
	ran := 0
	second := l.begin("a", func(context.Context, *actor.State) error { ran++; return nil })
	time.Sleep(settle)
	l.Reset(thingID("a"), actor.MemoryLimit, nil)
	if err := <-first; actor.CauseOf(err) != actor.MemoryLimit {
		t.Errorf("what had begun: %v", err)
	}
	if err := <-second; err != nil || ran != 1 {
		t.Errorf("what had not begun: %v, ran %d times", err, ran)
	}
}

func TestRepetitionEnds(t *testing.T) {
	// Each incarnation's constructor breaks it, for a cause that passes; but it never does.
	c := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l := newLab(t, actor.Options{Clock: c})
	attempts := 0
	l.constructs("a", func(_ context.Context, s *actor.State) error {
		attempts++
		l.Reset(s.ID(), actor.MemoryLimit, nil)
		return errors.New("broken")
	})
	done := l.begin("a", nil)
	for {
		select {
		case err := <-done:
			if actor.CauseOf(err) != actor.MemoryLimit || attempts != 5 {
				t.Errorf("%d attempts: %v", attempts, err)
			}
			return
		case <-time.After(time.Millisecond):
			c.Advance(100 * time.Millisecond)
		}
	}
}

var addOnce = actor.Method(things, "add", func(o *thing, ctx context.Context, how string) (int, error) {
	v, err := o.state.Get("n")
	if err != nil {
		return 0, err
	}
	n, _ := strconv.Atoi(string(v))
	n++
	if err := o.state.Put("n", []byte(strconv.Itoa(n))); err != nil {
		return 0, err
	}
	switch how {
	case "fails":
		return 0, errors.New("it is not to be")
	case "forgets":
		err = o.state.DeleteAll()
	case "forgets and awaits":
		if err = o.state.DeleteAll(); err == nil {
			err = o.state.Sync(ctx)
		}
	case "awaits":
		err = o.state.Sync(ctx)
	}
	return n, err
})

func TestACallWithAnIdentityRunsOnceWhereverItIsStruck(t *testing.T) {
	for _, point := range []actor.Point{actor.BeforeCommit, actor.AfterCommit} {
		for _, how := range []string{"", "fails", "forgets", "awaits", "forgets and awaits"} {
			t.Run(point.String()+how, func(t *testing.T) {
				l := newLab(t, actor.Options{})
				strike := func() {
					if _, err := l.Chaos().Arm(actor.Strike{Point: point, Class: "thing", Cause: actor.MemoryLimit}); err != nil {
						t.Fatal(err)
					}
				}
				strike()
				n, err := addOnce.DoOnce(t.Context(), l.Stub(thingID("a")), how)
				want := "n=1 "
				switch {
				case strings.HasSuffix(how, "awaits") && point == actor.BeforeCommit:
					// It was struck in its middle: it is not run again, and says so.
					var e *actor.Error
					if !errors.Is(err, actor.ErrUnfinished) || !errors.As(err, &e) || e.Hint == "" || e.Epoch == 0 {
						t.Errorf("got %v", err)
					}
				case how == "fails":
					if err == nil || err.Error() != "it is not to be" {
						t.Errorf("got %v", err)
					}
				case err != nil || n != 1:
					t.Errorf("got %d %v", n, err)
				}
				if strings.HasPrefix(how, "forgets") {
					want = ""
				}
				l.has("a", want)
				strike() // and without an identity it is not sent again
				if _, err := addOnce.Do(t.Context(), l.Stub(thingID("b")), how); actor.CauseOf(err) != actor.MemoryLimit {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// What a call with an identity returns is kept, and so is bounded: that is an error of
// the call and not the end of its object, whether it is large by itself or by what the
// call has written.
func TestWhatACallWithAnIdentityReturnsIsBounded(t *testing.T) {
	l := newLab(t, actor.Options{})
	must := func(name string, n, want int) {
		t.Helper()
		s, err := long.DoOnce(t.Context(), l.Stub(thingID(name)), n)
		if err != nil || len(s) != want {
			t.Errorf("%d bytes: got %d %v", n, len(s), err)
		}
	}
	refused := func(name string, n int) {
		t.Helper()
		epoch := l.Epoch(thingID(name))
		var e *actor.Error
		_, err := long.DoOnce(t.Context(), l.Stub(thingID(name)), n)
		if !errors.Is(err, actor.ErrTooLarge) || !errors.As(err, &e) || e.Hint == "" || e.Cause != actor.NoCause {
			t.Errorf("%d bytes: got %v", n, err)
		}
		if got := l.Epoch(thingID(name)); got != epoch {
			t.Errorf("%d bytes: the object was reset", n)
		}
	}
	must("a", actor.MaxOnce-2, actor.MaxOnce-2) // and the quotes
	refused("a", actor.MaxOnce-1)
	refused("a", 60<<20)
	// The largest commit that there may be, of 63 MiB, leaves room for little.
	l.must("full", func(context.Context, *actor.State) error { return nil })
	must("full", 100, 100)
	refused("full", actor.MaxOnce-2)
}

// long returns text, and fills its commit if it is called "full".
var long = actor.Method(things, "long", func(o *thing, _ context.Context, n int) (string, error) {
	if o.state.ID().Name == "full" {
		for i := range 31 {
			if err := o.state.Put(fmt.Sprint(i), make([]byte, actor.MaxValue)); err != nil {
				return "", err
			}
		}
		if err := o.state.Put("rest", make([]byte, 1<<20-4096)); err != nil {
			return "", err
		}
	}
	return strings.Repeat("x", n), nil
})

func TestIdentitiesOfCallsAreForgotten(t *testing.T) {
	c := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	mem := storage.NewMemory()
	defer mem.Close()
	l := newLab(t, actor.Options{Clock: c, Store: mem})
	count := func() (n int) {
		for _, err := range mem.List(t.Context(), thingID("a"), storage.Range{Prefix: "\x00call/"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	add := func() {
		if _, err := addOnce.DoOnce(t.Context(), l.Stub(thingID("a")), ""); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		add()
	}
	if n := count(); n != 10 {
		t.Fatalf("%d calls are remembered, want 10", n)
	}
	c.Advance(2 * time.Minute)
	for range 4 {
		add()
	}
	if n := count(); n != 4 {
		t.Errorf("%d calls are remembered, want the last 4", n)
	}
	l.has("a", "n=14 ")
}
