package cmd

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/sim"
)

// TestTheReportOfASimulation compares reports with testdata/sim-report.txt.
// UPDATE_SCRIPTS=1 writes it anew.
func TestTheReportOfASimulation(t *testing.T) {
	const file = "testdata/sim-report.txt"
	total := &sim.Total{
		Seeds: 1, Requests: 9412, Answered: 9027, Lost: 300, Refused: 45, Open: 40, Boots: 7, Torn: 4, Steps: 1234567,
		Virtual: 31*24*time.Hour + 10*time.Hour, Real: 4120 * time.Millisecond, Struck: 3, Faults: map[string]int{"kill": 6, "strike": 11, "clock": 3, "cut": 6},
	}
	passed := &simReport{Profile: "swarm", First: 7, Last: 7, Commit: "abc1234", Verified: true}
	passed.take(total, map[uint64]uint64{7: 0x9f3c})

	failed := &simReport{Profile: "swarm", First: 1, Last: 2000, Commit: "abc1234"}
	total.Failed = []*sim.Result{{Violation: &sim.Violation{Invariant: "I7"}}, {Violation: &sim.Violation{Invariant: "I1"}}}
	failed.take(total, map[uint64]uint64{1: 1, 2: 2})
	failed.Failures = []simFailure{
		{
			Seed: 3, Invariant: "I7", Text: "session x has a runtime, and no alarm is armed", Step: 223, At: 9.5, Events: []string{"0s step 1  host 1 is up", "9s step 223 VIOLATION"},
			keptPlan: keptPlan{Plan: "kalpa-sim-swarm-3.plan"}, Replay: "kalpa sim --plan kalpa-sim-swarm-3.plan", Shrink: "kalpa sim --plan kalpa-sim-swarm-3.plan --shrink",
		},
		{Seed: 17, Invariant: "I1"},
	}
	diverged := &simReport{Profile: "swarm", First: 1, Last: 1, Commit: "abc1234", Verified: true}
	diverged.take(&sim.Total{}, nil)
	diverged.Diverged = &simDivergence{Seed: 1, Step: 130, keptPlan: keptPlan{Plan: "kalpa-sim-swarm-1.plan"}, Replay: "kalpa sim --plan kalpa-sim-swarm-1.plan --verify"}

	all := map[string]int{}
	for _, what := range sim.Sometimes() {
		all[what] = 1
	}
	delete(all, "an alarm twice")
	lacking := &simReport{Profile: "swarm", First: 1, Last: sim.Whole, Commit: "abc1234"}
	lacking.take(&sim.Total{Seeds: sim.Whole, Covered: all}, nil)
	few := &simReport{Profile: "swarm", First: 1, Last: 9, Commit: "abc1234"}
	few.take(&sim.Total{Seeds: 9, Covered: all}, nil)

	var got strings.Builder
	for _, r := range []*simReport{passed, failed, diverged, lacking, few} {
		r.text(&got)
		got.WriteString("----\n")
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAPlanShrinksToTheSameDefect(t *testing.T) {
	of := func(invariant string) *sim.Result {
		return &sim.Result{Violation: &sim.Violation{Invariant: invariant}}
	}
	if !failsAlike(of("I7"), of("I7")) || failsAlike(of("I1"), of("I7")) || failsAlike(&sim.Result{}, of("I7")) {
		t.Error("another defect is taken for it, or the same is not")
	}
}

// Seeds end in any order, and the trace of a range is the same.
func TestTheTraceOfARangeIsOneOfItsSeeds(t *testing.T) {
	trace := func(traces map[uint64]uint64) string {
		r := &simReport{}
		r.take(&sim.Total{}, traces)
		return r.Trace
	}
	if got := trace(map[uint64]uint64{7: 0x9f3c}); got != "0000000000009f3c" {
		t.Errorf("of one seed: %s", got)
	}
	if trace(map[uint64]uint64{1: 5, 2: 6}) == trace(map[uint64]uint64{1: 6, 2: 5}) {
		t.Error("which seed has which trace makes no difference")
	}
}

func TestProgressIsDrawnForPeople(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	p.set(1, 2, "x")
	p.clear()
	if b.Len() != 0 {
		t.Errorf("a pipe got %q", b.String())
	}
	p.w = &b
	p.set(1, 2, "1.0 virtual hours")
	p.drawn = time.Now().Add(time.Minute)
	p.set(1, 2, "too soon")
	p.set(2, 2, "2.0 virtual hours")
	p.clear()
	for _, want := range []string{"\r[###############...............] 1/2, ", "  1.0 virtual hours", "\r[##############################] 2/2  2.0 virtual hours", "\r\x1b[K"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q has no %q", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "too soon") {
		t.Error("it is drawn too often")
	}
}
