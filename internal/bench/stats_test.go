package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9}},
	} {
		before := slices.Clone(c.values)
		if got := summarize(c.values); got != c.want {
			t.Errorf("summarize(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("summarize reordered %v: rounds must stay in pairs", before)
		}
	}
	if s := summarize(nil).String(); s != "-" {
		t.Errorf("nothing measured is %q", s)
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	got := ratios([]float64{10, 30, 5, math.NaN()}, []float64{5, 10, 0, 1, 8})
	if want := []float64{2, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{hundred[:1], 0.99, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{hundred[:3], 0.5, 2},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %v of %d values is %v, want %v", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"},
		{0.01234, "0.0123"},
		{0.5, "0.500"},
		{1, "1.00"},
		{12.345, "12.3"},
		{123.45, "123"},
		{1234.5, "1,230"},
		{1234567, "1,230,000"},
		{-1234, "-1,230"},
		{999.9, "1,000"},
	} {
		if got := digits(c.v); got != c.want {
			t.Errorf("digits(%v) = %q, want %q", c.v, got, c.want)
		}
	}
	if got, want := (spread{2000, 1000, 3000}).String(), "2,000 (1,000 to 3,000)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
