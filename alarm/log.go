package alarm

import (
	"log/slog"
	"sync"
	"time"
)

// logPause is the least time between two lines with the same message.
const logPause = time.Second

// limitedLog warns, but not a million times: when a host is in trouble, all of
// its alarms are.
type limitedLog struct {
	log *slog.Logger

	mu   sync.Mutex
	seen map[string]*warned // by message; they are constants of this package
}

type warned struct {
	at      time.Time
	dropped int
}

func (l *limitedLog) warn(now time.Time, message string, args ...any) {
	l.mu.Lock()
	w := l.seen[message]
	if w == nil {
		if l.seen == nil {
			l.seen = make(map[string]*warned)
		}
		w = &warned{}
		l.seen[message] = w
	}
	if since := now.Sub(w.at); since >= 0 && since < logPause {
		w.dropped++
		l.mu.Unlock()
		return
	}
	if w.dropped > 0 {
		args = append(args, "more", w.dropped)
	}
	w.at, w.dropped = now, 0
	l.mu.Unlock()
	l.log.Warn(message, args...)
}
