package alarm

import (
	"hash/fnv"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// The back-offs. The table is that of the platform whose semantics these are.
const (
	// MaxRetries is how often a handler that fails is run again.
	MaxRetries = 6
	// firstWait is the wait after the first failure; it doubles with each.
	firstWait = 2 * time.Second
	// MaxUncounted bounds the wait after a failure that is not the handler's.
	MaxUncounted = 1024 * time.Second
	// jitterShare is the part of a wait that jitter adds at most: a quarter.
	jitterShare = 4
)

// Backoff is how long an alarm waits after its handler has failed: 2, 4, 8, 16,
// 32 or 64 s and up to a quarter more. retry counts the failed runs before this
// one, as Info.Retry does; jitter lies in [0, 1]. The row is set anew that far
// from now, with retry+1. After the sixth retry has failed again is false: the
// alarm is given up, its row deleted, and the object hears of it no more.
func Backoff(retry int, jitter float64) (wait time.Duration, again bool) {
	if retry >= MaxRetries {
		return 0, false
	}
	return spread(firstWait<<max(retry, 0), jitter), true
}

// BackoffUncounted is how long to wait after a failure that is the platform's
// own: the object could not be run at all. n counts such failures in a row,
// before this one. There is no end to these retries, and the wait, jitter
// included, grows to at most MaxUncounted.
func BackoffUncounted(n int, jitter float64) time.Duration {
	const doublings = 9 // 2 s << 9 = 1,024 s
	return min(spread(firstWait<<min(max(n, 0), doublings), jitter), MaxUncounted)
}

func spread(wait time.Duration, jitter float64) time.Duration {
	return wait + time.Duration(float64(wait/jitterShare)*min(max(jitter, 0), 1))
}

// Jitter is a number in [0, 1) for the nth wait of an object. It is a hash and
// not chance: what jitter is for is that objects which failed together don't
// come back together, and this way a run can be repeated.
func Jitter(id storage.ID, n int) float64 {
	h := fnv.New64a()
	h.Write([]byte(id.Class))
	h.Write([]byte{0})
	h.Write([]byte(id.Name))
	h.Write([]byte{0, byte(n)})
	// FNV leaves the upper bits of short inputs alike; a multiplication mixes them.
	const golden = 0x9E3779B97F4A7C15
	x := h.Sum64()
	x = (x ^ x>>32) * golden
	return float64(x>>11) / (1 << 53)
}
