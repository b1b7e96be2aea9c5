package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestCountersAreJudged(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		all  []increment
		want bool
	}{
		"nothing":                          {nil, true},
		"one after another":                {[]increment{{0, 1 * s, 1}, {2 * s, 3 * s, 2}}, true},
		"at once, the other way round":     {[]increment{{0, 3 * s, 2}, {1 * s, 2 * s, 1}}, true},
		"back in time":                     {[]increment{{0, 1 * s, 2}, {2 * s, 3 * s, 1}}, false},
		"one number for two":               {[]increment{{0, 1 * s, 1}, {2 * s, 3 * s, 1}}, false},
		"a number too many":                {[]increment{{0, 1 * s, 2}}, false},
		"an unknown one has counted":       {[]increment{{0, 0, 0}, {2 * s, 3 * s, 2}}, true},
		"an unknown one has not":           {[]increment{{0, 0, 0}, {2 * s, 3 * s, 1}}, true},
		"an unknown one came too late":     {[]increment{{0, 1 * s, 2}, {2 * s, 0, 0}}, false},
		"an unknown one has counted twice": {[]increment{{0, 0, 0}, {2 * s, 3 * s, 3}}, false},
	} {
		if got := linearizable(tc.all); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Many of which nothing is known take no time that matters.
func TestManyUnknownIncrementsAreJudged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []increment
	n := 0
	for i := range 2000 {
		at := time.Duration(i) * time.Second
		op := increment{sent: at}
		if r.IntN(2) == 0 {
			n++
			op.done, op.answer = at+time.Minute, n
		} else if r.IntN(3) > 0 {
			n++ // and nobody has been told
		}
		all = append(all, op)
	}
	if !linearizable(all) {
		t.Error("they have been counted in order")
	}
}
