package alarm

import (
	"sync"
	"time"
)

// Heartbeat is how far away an object's alarm is at most while a keep-alive is
// held: an object whose incarnation is gone is looked for that soon.
const Heartbeat = 30 * time.Second

// KeepAlives is what [Recompute] knows of the keep-alives.
type KeepAlives struct {
	// Count is how many are held.
	Count int
	// Beat is when the next heartbeat is due, at most Heartbeat from now.
	Beat time.Time
}

// keepAlives counts references. They live in memory: they end with the
// incarnation.
type keepAlives struct {
	mu    sync.Mutex // releasing is not bound to a turn
	count int
	beat  time.Time
}

// hold takes a reference. The last release calls released.
func (k *keepAlives) hold(released func()) (release func()) {
	k.mu.Lock()
	k.count++
	k.mu.Unlock()
	return sync.OnceFunc(func() {
		k.mu.Lock()
		k.count--
		last := k.count == 0
		k.mu.Unlock()
		if last {
			released()
		}
	})
}

// at is the state at now, with a heartbeat that is not yet due put no further
// away than it may be.
func (k *keepAlives) at(now time.Time) KeepAlives {
	k.mu.Lock()
	defer k.mu.Unlock()
	latest := now.Add(Heartbeat)
	switch {
	case k.count == 0:
		k.beat = time.Time{}
	case k.beat.IsZero() || k.beat.After(latest):
		k.beat = latest
	}
	return KeepAlives{k.count, k.beat}
}

// woken plans the next heartbeat if this one is due.
func (k *keepAlives) woken(now time.Time) {
	k.mu.Lock()
	if !k.beat.After(now) {
		k.beat = time.Time{}
	}
	k.mu.Unlock()
}

func (k *keepAlives) held() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count > 0
}
