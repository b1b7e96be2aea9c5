package alarm

import (
	"strconv"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func TestBackoffIsTheTable(t *testing.T) {
	for retry, c := range []struct{ least, most time.Duration }{
		{2 * time.Second, 2500 * time.Millisecond},
		{4 * time.Second, 5 * time.Second},
		{8 * time.Second, 10 * time.Second},
		{16 * time.Second, 20 * time.Second},
		{32 * time.Second, 40 * time.Second},
		{64 * time.Second, 80 * time.Second},
	} {
		for jitter, want := range map[float64]time.Duration{0: c.least, 1: c.most, 0.5: (c.least + c.most) / 2} {
			if got, again := Backoff(retry, jitter); got != want || !again {
				t.Errorf("Backoff(%d, %v) = %v, %v, want %v, true", retry, jitter, got, again, want)
			}
		}
	}
	for _, retry := range []int{MaxRetries, MaxRetries + 1, storage.MaxRetry} {
		if got, again := Backoff(retry, 1); got != 0 || again {
			t.Errorf("Backoff(%d, 1) = %v, %v, want 0, false: six retries and no more", retry, got, again)
		}
	}
}

func TestBackoffUncountedGrowsToItsBoundAndStays(t *testing.T) {
	for n, least := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024} {
		least *= time.Second
		if got := BackoffUncounted(n, 0); got != least {
			t.Errorf("BackoffUncounted(%d, 0) = %v, want %v", n, got, least)
		}
		if got, want := BackoffUncounted(n, 1), min(least+least/4, MaxUncounted); got != want {
			t.Errorf("BackoffUncounted(%d, 1) = %v, want %v", n, got, want)
		}
	}
	if got := BackoffUncounted(1<<62, 1); got != MaxUncounted {
		t.Errorf("BackoffUncounted(2^62, 1) = %v, want %v", got, MaxUncounted)
	}
}

func TestBackoffKeepsWildArgumentsInRange(t *testing.T) {
	for _, jitter := range []float64{-1, 2, 1e300} {
		if got, _ := Backoff(-3, jitter); got < 2*time.Second || got > 2500*time.Millisecond {
			t.Errorf("Backoff(-3, %v) = %v", jitter, got)
		}
		if got := BackoffUncounted(-3, jitter); got < 2*time.Second || got > 2500*time.Millisecond {
			t.Errorf("BackoffUncounted(-3, %v) = %v", jitter, got)
		}
	}
}

// Objects that fail together must not come back together.
func TestJitterSpreadsObjects(t *testing.T) {
	const objects, bins = 10_000, 10
	for n := range 3 {
		var count [bins]int
		for i := range objects {
			j := Jitter(storage.ID{Class: "session", Name: strconv.Itoa(i)}, n)
			if j < 0 || j >= 1 {
				t.Fatalf("jitter %v is not in [0, 1)", j)
			}
			count[int(j*bins)]++
		}
		for bin, got := range count {
			if got < objects/bins*8/10 || got > objects/bins*12/10 {
				t.Errorf("wait %d: %d of %d objects in bin %d of %d", n, got, objects, bin, bins)
			}
		}
	}
	id := storage.ID{Class: "c", Name: "n"}
	if Jitter(id, 1) == Jitter(id, 2) || Jitter(id, 1) != Jitter(id, 1) {
		t.Error("jitter must differ from wait to wait, and be repeatable")
	}
}

func TestInfoIsRetry(t *testing.T) {
	if (Info{}).IsRetry() || !(Info{Retry: 1}).IsRetry() {
		t.Error("a run is a retry if one has failed before")
	}
}
