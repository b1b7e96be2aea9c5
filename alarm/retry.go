package alarm

import "time"

const (
	firstWait = 2 * time.Second
	// MaxRetries is how often a failed alarm is run again.
	MaxRetries = 6
	// maxUncounted bounds the wait after failures that are not the object's own.
	maxUncounted = 1024 * time.Second
	maxJitter    = 0.25
)

// Backoff is how long to wait after a failed run of a handler that had failed
// retry times before: 2, 4, 8, 16, 32, 64 s, and jitter (0 to 1) of up to a
// quarter on top. ok is false when the retries are used up. The table is that of
// the Durable Objects platform.
func Backoff(retry int, jitter float64) (wait time.Duration, ok bool) {
	if retry < 0 || retry >= MaxRetries {
		return 0, false
	}
	return jittered(firstWait<<retry, jitter), true
}

// BackoffUncounted is how long to wait after n failures in a row that were the
// host's own and not the handler's. It doubles up to 1,024 s and never ends.
func BackoffUncounted(n int, jitter float64) time.Duration {
	wait := maxUncounted
	if n < 9 {
		wait = firstWait << max(n, 0)
	}
	return jittered(wait, jitter)
}

func jittered(d time.Duration, jitter float64) time.Duration {
	return d + time.Duration(float64(d)*maxJitter*min(max(jitter, 0), 1))
}
