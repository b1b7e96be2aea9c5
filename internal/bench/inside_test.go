package main

import (
	"slices"
	"testing"
)

func TestWhatAGoBenchmarkReports(t *testing.T) {
	const out = `goos: linux
BenchmarkTurn/object-2         	  815534	      1456 ns/op
BenchmarkTurn/object,_sent_before-2         	 1000000	      1389 ns/op	       865.3 ns/turn
BenchmarkTurn/object,_sent_before-2         	 1000000	      1071 ns/op	       698.2 ns/turn
BenchmarkActivate                         	   20000	     25513 ns/op	        16.56 p50-us	       118.3 p99-us
PASS
`
	for _, c := range []struct {
		benchmark, unit string
		want            []float64
	}{
		{"BenchmarkTurn/object,_sent_before", "ns/turn", []float64{865.3, 698.2}},
		{"BenchmarkTurn/object", "ns/op", []float64{1456}},
		{"BenchmarkActivate", "p50-us", []float64{16.56}},
		{"BenchmarkActivate", "p99-us", []float64{118.3}},
		{"BenchmarkActivate", "us", nil},
		{"BenchmarkTurn", "ns/op", nil},
	} {
		if got := reported(out, c.benchmark, c.unit); !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %v, want %v", c.benchmark, c.unit, got, c.want)
		}
	}
}
