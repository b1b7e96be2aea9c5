package sim_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/sim"
)

var (
	seeds  = flag.Uint64("sim.seeds", 60, "how many seeds of swarm")
	verify = flag.Bool("sim.verify", false, "run each seed of swarm twice")
	few    = flag.Uint64("sim.few", 5, "how many seeds of each other profile")
)

// No seed finds a violation. make sim runs 2,000, each of them twice, and looks for all
// that has to happen now and then.
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
		if profile == "swarm" && n >= sim.Whole {
			for _, what := range sim.Missing(total.Covered) {
				t.Errorf("never in %d seeds: %s", n, what)
			}
		}
		// So 2,000 seeds are a million requests and a thousand hours.
		if n >= 20 && (total.Requests < 500*int(n) || total.Virtual < 30*time.Minute*time.Duration(n)) { //nolint:gosec // there are not that many seeds
			t.Errorf("%s: %d seeds make %d requests in %v", profile, n, total.Requests, total.Virtual)
		}
		slices.SortFunc(total.Failed, func(a, b *sim.Result) int { return int(a.Plan.Seed) - int(b.Plan.Seed) })
		for _, r := range total.Failed {
			t.Errorf("%s seed %d: %v", profile, r.Plan.Seed, r.Violation)
		}
	}
}
