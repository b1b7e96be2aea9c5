package sim_test

import (
	"flag"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/sim"
)

var tooth = flag.String("sim.tooth", "", "the only tooth")

// mostSeeds is how many may be needed to find what is broken.
const mostSeeds = 200

// What is broken on purpose is found, by the invariant that it breaks. The plan of the
// first seed that finds it goes without a violation when nothing is broken.
func TestTeeth(t *testing.T) {
	if err := goleak.Find(); err != nil {
		t.Error(err) // of another test
	}
	t.Cleanup(func() { abandoned = append(abandoned, goleak.IgnoreCurrent()) })
	bitten := map[string]int{}
	for _, b := range sim.Teeth() {
		if *tooth != "" && b.Name != *tooth {
			continue
		}
		bitten[b.Invariant]++
		t.Run(b.Name, func(t *testing.T) {
			var found *sim.Result
			others := map[string]int{}
			total, err := sim.Campaign{Profile: b.Profile, First: 1, Last: mostSeeds, Broken: b, Each: func(r *sim.Result) bool {
				switch {
				case r.Violation == nil:
				case r.Violation.Invariant == b.Invariant:
					found = r
				default:
					others[r.Violation.Invariant]++
				}
				return found == nil
			}}.Run()
			if err != nil {
				t.Fatal(err)
			}
			if found == nil {
				t.Fatalf("%s (%s) is not found by %s within %d seeds of %s; other invariants: %v", b.Name, b.Why, b.Invariant, mostSeeds, b.Profile, others)
			}
			if r, err := sim.Run(found.Plan, sim.Options{}); err != nil || r.Violation != nil {
				t.Fatalf("the same plan fails with nothing broken: %v, %v", r.Violation, err)
			}
			t.Logf("found by %s after %d seeds of %s: %v (others before: %v)", b.Invariant, total.Seeds, b.Profile, found.Violation, others)
		})
	}
	for i := 1; *tooth == "" && i <= 13; i++ {
		if name := fmt.Sprint("I", i); bitten[name] == 0 {
			t.Errorf("there is no tooth for %s", name)
		}
	}
}
