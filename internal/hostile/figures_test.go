package main

import (
	"testing"
	"time"
)

func TestOneBadRoundDoesNotDecide(t *testing.T) {
	at := func(alone, beside time.Duration, failed int) round {
		return round{alone: latency{p99: alone}, beside: latency{p99: beside, failed: failed}, resident: int64(beside)}
	}
	got := sum([]round{at(10, 90, 0), at(10, 11, 1), at(20, 20, 0), at(10, 15, 0), at(40, 20, 1)})
	want := summary{alone: 10, beside: 20, ratio: spread{1.1, 0.5, 9}, failed: 2, resident: 90}
	if got != want {
		t.Errorf("sum = %+v, want %+v", got, want)
	}
}
