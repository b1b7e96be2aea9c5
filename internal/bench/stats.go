package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// spread is what the rounds of a measurement are told as.
type spread struct{ median, min, max float64 }

// summarize returns the spread of some values; all NaN when there are none.
func summarize(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// ratios divides the values of one round by those of another server in the same
// round. A round that one of them lacks has none.
func ratios(of, by []float64) []float64 {
	var r []float64
	for i := range min(len(of), len(by)) {
		if by[i] > 0 && !math.IsNaN(of[i]) {
			r = append(r, of[i]/by[i])
		}
	}
	return r
}

// percentile returns the smallest value that at least the share p of the sorted
// values does not exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// String is the spread with three digits: 1,230 (1,200 to 1,260).
func (s spread) String() string {
	switch {
	case math.IsNaN(s.median):
		return "-"
	case s.min == s.max:
		return digits(s.median)
	}
	return fmt.Sprintf("%s (%s to %s)", digits(s.median), digits(s.min), digits(s.max))
}

// digits writes a number with three significant digits; more would be noise.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	unit := math.Pow(10, float64(decimals))
	rounded := math.Round(v*unit) / unit
	return grouped(fmt.Sprintf("%.*f", max(decimals, 0), rounded))
}

// grouped puts a comma before every three digits of the whole part.
func grouped(number string) string {
	whole, fraction, found := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + fraction
	}
	return sign + whole
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
