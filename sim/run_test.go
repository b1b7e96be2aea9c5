package sim_test

import (
	"flag"
	"os"
	"testing"

	"github.com/kalpahost/kalpa/sim"
)

var (
	first = flag.Uint64("sim.first", 1, "the first seed")
	only  = flag.String("sim.profile", "", "the only profile")
	count = flag.Uint64("sim.count", 1, "how many seeds")
	log   = flag.Bool("sim.log", false, "print all that happens")
)

func TestOne(t *testing.T) {
	for _, profile := range sim.Profiles() {
		if *only != "" && profile != *only {
			continue
		}
		for seed := *first; seed < *first+*count; seed++ {
			p, err := sim.NewPlan(seed, profile)
			if err != nil {
				t.Fatal(err)
			}
			o := sim.Options{}
			if *log {
				o.Log = os.Stdout
			}
			r, err := sim.Run(p, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				t.Errorf("%s seed %d: %v", profile, seed, r.Violation)
				for _, n := range r.Notes {
					t.Log(n)
				}
				return
			}
			t.Logf("%s %d: %d steps, %v in %v, %d requests: %d answered %d lost %d refused %d open, %d boots", profile, seed, r.Steps, r.Virtual, r.Real, r.Requests, r.Answered, r.Lost, r.Refused, r.Open, r.Boots)
		}
	}
}
