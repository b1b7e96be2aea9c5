package sim

import (
	"testing"
	"time"
)

func TestReadings(t *testing.T) {
	early, late := begin.Add(time.Minute), begin.Add(2*time.Minute)
	a, b := reading(early, 0), reading(late, -time.Hour)
	if got := b.Round(0); !got.Equal(late.Add(-time.Hour)) {
		t.Errorf("the wall clock shows %v", got)
	}
	if got := b.Sub(a); got != time.Minute {
		t.Errorf("%v passed", got)
	}
	if !b.After(a) || !b.Round(0).Before(a.Round(0)) {
		t.Error("the monotonic part decides, where there is one")
	}
	if c := b.Add(time.Second); c.Sub(a) != time.Minute+time.Second || c.Location() != time.UTC {
		t.Error(c)
	}
}
