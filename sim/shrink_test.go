package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// planned is a plan with all that there is to shrink.
func planned(t *testing.T) *Plan {
	t.Helper()
	p, err := NewPlan(7, "swarm")
	if err != nil {
		t.Fatal(err)
	}
	p.Faults = nil
	for i := range 12 {
		p.Faults = append(p.Faults, Fault{At: time.Duration(i) * time.Second, Kind: "kill", Takes: 5 * time.Second})
	}
	p.Faults[8] = Fault{At: 9 * time.Second, Kind: "deploy", Takes: 3 * time.Second}
	return p
}

func planText(t *testing.T, p *Plan) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestShrinkLeavesWhatTheFailureNeeds(t *testing.T) {
	p := planned(t)
	before := planText(t, p)
	name := p.Clients[2].Name
	op := slices.IndexFunc(p.Clients[2].Ops, func(o Op) bool { return o.Tool == "incr" })
	if op < 0 {
		t.Fatal("the plan of the test has changed: its third client counts nothing")
	}
	// It fails when that client counts, a deployment of at least a second comes, and the
	// world goes on for longer than a minute.
	var asked int
	fails := func(p *Plan) bool {
		asked++
		i := slices.IndexFunc(p.Clients, func(c ClientPlan) bool { return c.Name == name })
		return i >= 0 && slices.ContainsFunc(p.Clients[i].Ops, func(o Op) bool { return o.Tool == "incr" }) &&
			slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == "deploy" && f.Takes >= time.Second }) && p.Length > time.Minute
	}
	small := Shrink(p, fails)
	if planText(t, p) != before {
		t.Error("the plan that was given has been changed")
	}
	if !fails(small) {
		t.Fatalf("what is left does not fail:\n%s", planText(t, small))
	}
	if len(small.Faults) != 1 || len(small.Clients) != 1 || len(small.Clients[0].Ops) != 1 {
		t.Errorf("%d faults, %d clients are left:\n%s", len(small.Faults), len(small.Clients), planText(t, small))
	}
	if f := small.Faults[0]; f.At != 0 || f.Takes >= 2*time.Second {
		t.Errorf("the fault could be simpler: %+v", f)
	}
	if o := small.Clients[0].Ops[0]; o.At != 0 || o.Takes != 0 || small.Clients[0].At != 0 || small.Length >= 2*time.Minute || small.Isolates != 1 {
		t.Errorf("what is left could be shorter:\n%s", planText(t, small))
	}
	if asked > 500 {
		t.Errorf("%d plans were run", asked)
	}
}

func TestShrinkKeepsAPlanThatNeedsAllOfIt(t *testing.T) {
	p := planned(t)
	want := planText(t, p)
	if got := planText(t, Shrink(p, func(q *Plan) bool { return planText(t, q) == want })); got != want {
		t.Errorf("it has become\n%s", got)
	}
}

func TestShrinkMayLeaveNothing(t *testing.T) {
	if small := Shrink(planned(t), func(*Plan) bool { return true }); len(small.Faults)+len(small.Clients) != 0 {
		t.Errorf("%d faults, %d clients are left", len(small.Faults), len(small.Clients))
	}
}

func TestAFaultMeansTheSameClientWhenOthersGo(t *testing.T) {
	p := &Plan{}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.Clients = append(p.Clients, ClientPlan{Name: name})
	}
	p.Faults = []Fault{{Kind: "reset-session", N: 11}, {Kind: "reset-session", N: 0}, {Kind: "strike", N: 3}}
	p.dropClients(1, 2)
	if c := p.Clients[p.Faults[0].N%3].Name; c != "d" {
		t.Errorf("the fault of d is one of %s", c)
	}
	if c := p.Clients[p.Faults[1].N%3].Name; c != "a" {
		t.Errorf("the fault of a is one of %s", c)
	}
	if p.Faults[2].N != 3 {
		t.Error("a fault that means no client has been changed")
	}
}
