package main

import (
	"slices"
	"time"
)

// latency is what a client has seen.
type latency struct {
	p50, p99 time.Duration
	failed   int
}

func latencyOf(all []time.Duration, failed int) latency {
	if len(all) == 0 {
		return latency{failed: failed}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(int(q*float64(len(all))), len(all)-1)] }
	return latency{at(0.5), at(0.99), failed}
}

// round is one measurement alone, and the one beside the attack that followed it.
type round struct {
	alone, beside latency
	resident      int64 // bytes, of the host, at the attack's end
}

// spread is the median of some values, and the least and the greatest of them.
type spread struct{ median, least, most float64 }

func spreadOf(all []float64) spread {
	slices.Sort(all)
	return spread{all[len(all)/2], all[0], all[len(all)-1]}
}

// summary is what is told of all rounds of an attack.
type summary struct {
	alone, beside time.Duration // p99, medians
	ratio         spread        // of the p99 of each pair: the machine is never the same for long
	failed        int           // calls, in all rounds
	resident      int64         // bytes, the most
}

func sum(rounds []round) summary {
	var s summary
	var alone, beside, ratios []float64
	for _, r := range rounds {
		alone = append(alone, float64(r.alone.p99))
		beside = append(beside, float64(r.beside.p99))
		ratios = append(ratios, float64(r.beside.p99)/float64(r.alone.p99))
		s.failed += r.alone.failed + r.beside.failed
		s.resident = max(s.resident, r.resident)
	}
	s.alone, s.beside = time.Duration(spreadOf(alone).median), time.Duration(spreadOf(beside).median)
	s.ratio = spreadOf(ratios)
	return s
}
