package actor

import (
	"errors"
	"testing"
	"time"
)

func TestWhatIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		cause      Cause
		lost, once bool
		want       bool
	}{
		{MemoryLimit, false, false, true},
		{CPULimit, false, false, true},
		{Superseded, false, false, true},
		{MemoryLimit, true, false, false}, // it may have run
		{MemoryLimit, true, true, true},
		{Superseded, true, true, true},
		{StorageTimeout, false, true, false}, // overloaded, though transient
		{CacheOverflow, false, true, false},
		{CriticalTimeout, false, true, false},
		{Overload, false, true, false},
		{Shutdown, false, true, false}, // this host takes nothing more
		{Aborted, false, true, false},
		{Panicked, true, true, false},
		{ConstructorFailed, false, true, false},
		{NoCause, false, true, false},
	} {
		err := &Error{Cause: c.cause}
		if _, ok := again(1, 0, err, c.lost, c.once, 0); ok != c.want {
			t.Errorf("%v, lost %v, once %v: again is %v", c.cause, c.lost, c.once, ok)
		}
	}
	if _, ok := again(1, 0, errors.New("no cause"), false, true, 0); ok {
		t.Error("an error without a cause is sent again")
	}
}

func TestRepetitionIsBounded(t *testing.T) {
	err := &Error{Cause: MemoryLimit}
	for _, jitter := range []float64{0, 0.999} {
		since, last := time.Duration(0), time.Duration(-1)
		n := 1
		for ; ; n++ {
			pause, ok := again(n, since, err, false, false, jitter)
			if !ok {
				break
			}
			if pause <= last {
				t.Errorf("pause %d is %v after one of %v", n, pause, last)
			}
			since, last = since+pause, pause
		}
		if n != maxAttempts || since > lastAttempt {
			t.Errorf("%d attempts in %v", n, since)
		}
	}
	for _, c := range []struct {
		since time.Duration
		want  bool
	}{{lastAttempt - firstPause, true}, {lastAttempt - firstPause + 1, false}} {
		if _, ok := again(2, c.since, err, false, false, 0); ok != c.want {
			t.Errorf("after %v: again is %v", c.since, ok)
		}
	}
}
