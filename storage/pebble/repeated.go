package pebble

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A damaged table is met with each attempt at compacting it, and with each read of its
// rows. So what is said again is said once in sayAgain, and that it was is counted.
const (
	sayAgain = time.Minute
	// mostSaid bounds what is remembered of what was said.
	mostSaid = 256
)

// repeated is a log of errors that may come again and again.
type repeated struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at    time.Time
	since int // how often it was not said since
}

func newRepeated(log *slog.Logger, now func() time.Time) *repeated {
	return &repeated{log: log, now: now, said: map[string]*saying{}}
}

func (r *repeated) error(msg string, args ...any) {
	if say, since := r.says(msg + fmt.Sprint(args...)); say {
		if since > 0 {
			args = append(args, "times_since", since)
		}
		r.log.Error(msg, args...)
	}
}

// says tells whether a text is to be said, and how often it was not since it last was.
func (r *repeated) says(text string) (say bool, since int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, s := r.now(), r.said[text]
	if s != nil && now.Sub(s.at) < sayAgain {
		s.since++
		return false, 0
	}
	if s == nil {
		if len(r.said) >= mostSaid {
			clear(r.said)
		}
		s = &saying{}
		r.said[text] = s
	}
	since = s.since
	*s = saying{at: now}
	return true, since
}
