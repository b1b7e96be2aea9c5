package sim_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/kalpahost/kalpa/sim"
)

var (
	seeds  = flag.Uint64("sim.seeds", 60, "how many seeds of swarm")
	verify = flag.Bool("sim.verify", false, "run each seed of swarm twice")
	few    = flag.Uint64("sim.few", 5, "how many seeds of each other profile")
)

// wholeCampaign is how many seeds of swarm see all that has to happen sometimes.
const wholeCampaign = 1000

// No seed finds a violation, and what has to happen now and then does. make sim runs it
// at full length, each seed twice.
func TestCampaign(t *testing.T) {
	for _, profile := range sim.Profiles() {
		n, twice := *few, true
		if profile == "swarm" {
			n, twice = *seeds, *verify
		}
		if n == 0 {
			continue
		}
		total, err := sim.Campaign{Profile: profile, First: 1, Last: n, Verify: twice}.Run()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", profile, total)
		if profile == "swarm" && n >= wholeCampaign {
			for _, what := range sim.Missing(total.Covered) {
				t.Errorf("never in %d seeds: %s", n, what)
			}
		}
		slices.SortFunc(total.Failed, func(a, b *sim.Result) int { return int(a.Plan.Seed) - int(b.Plan.Seed) })
		for _, r := range total.Failed {
			t.Errorf("%s seed %d: %v", profile, r.Plan.Seed, r.Violation)
		}
	}
}
