package actor_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/kalpahost/kalpa/actor"
)

var epochNow = actor.Method(counters, "epochNow", func(c *counter, _ context.Context, _ int) (int, error) {
	return int(c.state.Epoch()), nil
})

// struck calls incr and returns the cause by which it failed, NoCause if it did not.
func struck(t *testing.T, h *actor.Host, name string) actor.Cause {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := incr.Do(ctx, h.Stub(id(name)), 1)
	if err != nil && actor.CauseOf(err) == actor.NoCause {
		t.Fatal(err)
	}
	return actor.CauseOf(err)
}

func arm(t *testing.T, h *actor.Host, s actor.Strike) int {
	t.Helper()
	n, err := h.Chaos().Arm(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEachCauseStrikesOnEitherSideOfTheCommit(t *testing.T) {
	h := start(t, actor.Options{})
	for _, cause := range actor.Causes() {
		for point, kept := range map[actor.Point]int{actor.BeforeCommit: 0, actor.AfterCommit: 1} {
			name := cause.String() + "-" + point.String()
			do(t, h, name, incr, 0)
			before := do(t, h, name, epochNow, 0)
			arm(t, h, actor.Strike{Point: point, Name: name, Cause: cause})
			if got := struck(t, h, name); got != cause {
				t.Errorf("%s: the call failed with %q", name, got)
			}
			if n := do(t, h, name, incr, 0); n != kept {
				t.Errorf("%s: the counter is %d, want %d", name, n, kept)
			}
			if after := do(t, h, name, epochNow, 0); after <= before {
				t.Errorf("%s: epoch %d after %d", name, after, before)
			}
		}
	}
	if left := h.Chaos().Armed(); len(left) != 0 {
		t.Errorf("strikes are left that have struck: %+v", left)
	}
}

func TestStrikeFilters(t *testing.T) {
	h := start(t, actor.Options{Isolates: 2})
	there := h.IsolateOf(id("a"))
	for name, s := range map[string]actor.Strike{
		"name":    {Name: "b"},
		"class":   {Class: "other"},
		"method":  {Method: "other"},
		"tool":    {Tool: "other"},
		"point":   {Point: actor.AfterDelivery},
		"isolate": {Isolate: new(1 - there)},
	} {
		s.Cause = actor.Aborted
		if s.Point == actor.NoPoint {
			s.Point = actor.BeforeCommit
		}
		n := arm(t, h, s)
		if got := struck(t, h, "a"); got != actor.NoCause {
			t.Errorf("%s: a strike for something else hit: %v", name, got)
		}
		if !h.Chaos().Disarm(n) || h.Chaos().Disarm(n) {
			t.Errorf("%s: a strike is taken back once", name)
		}
	}
	arm(t, h, actor.Strike{Point: actor.BeforeCommit, Class: "counter", Name: "a", Method: "incr", Isolate: &there, Cause: actor.Aborted})
	if got := struck(t, h, "a"); got != actor.Aborted {
		t.Errorf("a strike that fits missed: %v", got)
	}
}

func TestStrikeSkipsAndRepeats(t *testing.T) {
	h := start(t, actor.Options{})
	n := arm(t, h, actor.Strike{Point: actor.BeforeCommit, Cause: actor.Aborted, Skip: 2, Times: 3})
	var hits []bool
	for range 7 {
		hits = append(hits, struck(t, h, "a") == actor.Aborted)
	}
	if want := []bool{false, false, true, true, true, false, false}; !slices.Equal(hits, want) {
		t.Errorf("strike %d hit %v, want %v", n, hits, want)
	}
	arm(t, h, actor.Strike{Point: actor.BeforeCommit, Cause: actor.Aborted, Times: -1})
	for range 5 {
		if struck(t, h, "a") != actor.Aborted {
			t.Fatal("a strike without end has ended")
		}
	}
	if a := h.Chaos().Armed(); len(a) != 1 || a[0].Struck != 5 {
		t.Errorf("armed: %+v", a)
	}
}

// The same random source makes the same history.
func TestStrikeByChanceComesFromTheSourceI14(t *testing.T) {
	history := func() (hits string) {
		h := start(t, actor.Options{Random: rand.New(rand.NewPCG(7, 7))})
		arm(t, h, actor.Strike{Point: actor.BeforeCommit, Cause: actor.Aborted, Times: -1, Probability: 0.5})
		for range 64 {
			hits += string("-X"[min(int(struck(t, h, "a")), 1)])
		}
		return hits
	}
	one, two := history(), history()
	if one != two || !strings.Contains(one, "X") || !strings.Contains(one, "-") {
		t.Errorf("by chance:\n%s\n%s", one, two)
	}
}

func TestStrikeOfAnIsolateBreaksItsNeighboursAndNoOthersI10(t *testing.T) {
	h := start(t, actor.Options{Isolates: 2})
	names := []string{"a", "b", "c", "d", "e", "f"}
	before := map[string]int{}
	for _, n := range names {
		before[n] = do(t, h, n, epochNow, 0)
	}
	arm(t, h, actor.Strike{Point: actor.BeforeCommit, Name: "a", Scope: actor.WholeIsolate, Cause: actor.MemoryLimit})
	if got := struck(t, h, "a"); got != actor.MemoryLimit {
		t.Fatalf("the call failed with %v", got)
	}
	both := map[bool]bool{}
	for _, n := range names {
		near := h.IsolateOf(id(n)) == h.IsolateOf(id("a"))
		both[near] = true
		if was := do(t, h, n, epochNow, 0) > before[n]; was != near {
			t.Errorf("%s, in the same isolate: %v, was reset: %v", n, near, was)
		}
	}
	if len(both) != 2 {
		t.Fatal("all objects fell into one isolate: choose other names")
	}
}

func TestHeldObjectLetsNothingOut(t *testing.T) {
	for _, point := range []actor.Point{actor.BeforeCommit, actor.AfterCommit} {
		h := start(t, actor.Options{})
		do(t, h, "a", incr, 0)
		const hold = 150 * time.Millisecond
		arm(t, h, actor.Strike{Point: point, Cause: actor.CPULimit, Hold: hold})
		began := time.Now()
		if got := struck(t, h, "a"); got != actor.CPULimit {
			t.Errorf("%v: the call failed with %v", point, got)
		}
		if took := time.Since(began); took < hold {
			t.Errorf("%v: the object was struck after %v, held for %v", point, took, hold)
		}
		do(t, h, "b", incr, 1) // nobody else is held
	}
}

func TestStrikeOfTheProcessCallsKill(t *testing.T) {
	killed := make(chan struct{}, 1)
	h := start(t, actor.Options{Kill: func() { killed <- struct{}{} }})
	arm(t, h, actor.Strike{Point: actor.BeforeCommit, Scope: actor.WholeProcess})
	_ = struck(t, h, "a")
	select {
	case <-killed:
	default:
		t.Error("nobody was killed")
	}
}

func TestStrikesAreCounted(t *testing.T) {
	r := sdkmetric.NewManualReader()
	h := start(t, actor.Options{Kill: func() {}, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))})
	arm(t, h, actor.Strike{Point: actor.BeforeCommit, Cause: actor.CPULimit, Times: 2})
	_, _ = struck(t, h, "a"), struck(t, h, "a")
	arm(t, h, actor.Strike{Point: actor.AfterCommit, Scope: actor.WholeProcess})
	_ = struck(t, h, "a")
	got := figures(t, r)
	for name, want := range map[string]int64{
		"kalpa.chaos.strikes{cause=cpu_limit,point=before-commit,scope=object}": 2,
		"kalpa.chaos.strikes{cause=,point=after-commit,scope=process}":          1,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d; all: %v", name, got[name], want, got)
		}
	}
}

func TestStrikeThatMakesNoSenseIsRefused(t *testing.T) {
	h := start(t, actor.Options{})
	good := actor.Strike{Point: actor.BeforeCommit, Cause: actor.Aborted}
	for want, change := range map[string]func(*actor.Strike){
		"needs a point":      func(s *actor.Strike) { s.Point = actor.NoPoint },
		"needs the cause":    func(s *actor.Strike) { s.Cause = actor.NoCause },
		"the cause of a res": func(s *actor.Strike) { s.Cause = actor.Overload },
		"not between 0 and":  func(s *actor.Strike) { s.Probability = 1.5 },
		"probability NaN":    func(s *actor.Strike) { s.Probability = math.NaN() },
		"held from 0":        func(s *actor.Strike) { s.Hold = time.Hour },
		"can't be skipped":   func(s *actor.Strike) { s.Skip = -1 },
		"no isolate 99":      func(s *actor.Strike) { s.Isolate = new(99) },
		"Options.Kill":       func(s *actor.Strike) { s.Scope = actor.WholeProcess },
	} {
		s := good
		change(&s)
		if _, err := h.Chaos().Arm(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if _, err := h.Chaos().Arm(good); err != nil {
		t.Error(err)
	}
}

func TestNamesOfCausesPointsAndScopes(t *testing.T) {
	for _, c := range actor.Causes() {
		if got, err := actor.ParseCause(c.String()); got != c || err != nil || c.Sentence() == "" {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	for _, p := range actor.Points() {
		if got, err := actor.ParsePoint(p.String()); got != p || err != nil || p.Sentence() == "" {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	for _, s := range actor.Scopes() {
		if got, err := actor.ParseScope(s.String()); got != s || err != nil {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	_, cause := actor.ParseCause("overloaded")
	_, point := actor.ParsePoint("")
	_, scope := actor.ParseScope("world")
	if err := errors.Join(cause, point, scope); strings.Count(err.Error(), "is not a") != 3 || !strings.Contains(err.Error(), `"superseded"`) || !strings.Contains(err.Error(), `"after-commit"`) || !strings.Contains(err.Error(), `"isolate"`) {
		t.Error(err) // it names those that there are
	}
}

func TestHeldObjectThatIsResetIsNotStruckAfterwards(t *testing.T) {
	h := start(t, actor.Options{})
	do(t, h, "a", incr, 0)
	const hold = 300 * time.Millisecond
	arm(t, h, actor.Strike{Point: actor.AfterCommit, Cause: actor.CPULimit, Hold: hold})
	got := make(chan actor.Cause, 1)
	go func() { got <- struck(t, h, "a") }()
	for deadline := time.Now().Add(5 * time.Second); len(h.Chaos().Armed()) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	h.Reset(id("a"), actor.MemoryLimit, nil)
	if c := <-got; c != actor.MemoryLimit {
		t.Errorf("the call was lost to %v", c)
	}
	epoch := do(t, h, "a", epochNow, 0)
	time.Sleep(2 * hold)
	if now := do(t, h, "a", epochNow, 0); now != epoch {
		t.Errorf("the next incarnation was struck in its place: epoch %d after %d", now, epoch)
	}
}
