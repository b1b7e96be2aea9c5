package limit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// MaxCallers bounds the callers that Rates remembers. Beyond it the one that has asked
// least recently is forgotten, and starts anew: to gain from that, one has to be more
// callers than this.
const MaxCallers = 10_000

// Rates is how often each caller may ask. It is safe for concurrent use.
type Rates struct {
	mu     sync.Mutex
	every  rate.Limit
	burst  int
	max    int
	recent *list.List // of *caller, the most recent first
	known  map[string]*list.Element
}

type caller struct {
	key   string
	limit *rate.Limiter
}

// NewRates lets each caller ask n times in a time, at first up to twice as often; n 0:
// as often as it wants.
func NewRates(n int, in time.Duration) *Rates {
	r := &Rates{max: MaxCallers, recent: list.New(), known: map[string]*list.Element{}}
	r.Set(n, in)
	return r
}

// Set changes how often, for callers that are known as well: what they have used
// counts.
func (r *Rates) Set(n int, in time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every, r.burst = rate.Inf, 0
	if n > 0 {
		r.every, r.burst = rate.Limit(float64(n)/in.Seconds()), 2*n
	}
	for e := r.recent.Front(); e != nil; e = e.Next() {
		l := e.Value.(*caller).limit
		l.SetLimit(r.every)
		l.SetBurst(r.burst)
	}
}

// Allow counts one of a caller's requests. When it is one too many, it is not counted,
// and wait is when the next may come.
func (r *Rates) Allow(key string, now time.Time) (ok bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.every == rate.Inf {
		return true, 0
	}
	e := r.known[key]
	if e == nil {
		if len(r.known) >= r.max {
			oldest := r.recent.Back()
			delete(r.known, oldest.Value.(*caller).key)
			r.recent.Remove(oldest)
		}
		e = r.recent.PushFront(&caller{key, rate.NewLimiter(r.every, r.burst)})
		r.known[key] = e
	}
	r.recent.MoveToFront(e)
	l := e.Value.(*caller).limit
	if l.AllowN(now, 1) {
		return true, 0
	}
	missing := 1 - l.TokensAt(now)
	return false, time.Duration(missing / float64(r.every) * float64(time.Second))
}

// Len is how many callers are remembered.
func (r *Rates) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}
