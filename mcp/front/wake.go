package front

import (
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
)

// wake is the one timer of an exchange. It is armed for the earliest of several
// deadlines, and may ring too early: who hears it looks at the deadlines again.
// So a deadline that moves away, as that of the next keep-alive does with every
// write, costs nothing.
type wake struct {
	clock clock.Clock
	rings chan struct{}
	timer clock.Timer // nil: not armed
	at    time.Time
}

func newWake(c clock.Clock) *wake { return &wake{clock: c, rings: make(chan struct{}, 1)} }

// by arms the timer to ring at t or before.
func (w *wake) by(t time.Time) {
	if w.timer != nil {
		if !t.Before(w.at) {
			return
		}
		w.timer.Stop()
		w.timer = nil
	}
	d := t.Sub(w.clock.Now())
	if d <= 0 {
		w.ring()
		return
	}
	w.at, w.timer = t, w.clock.AfterFunc(d, w.ring)
}

func (w *wake) ring() {
	select {
	case w.rings <- struct{}{}:
	default:
	}
}

// rang is called after each ring: the timer has to be armed anew.
func (w *wake) rang() { w.stop() }

func (w *wake) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
