package front

import (
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
)

// wake is the one timer of an exchange. It is armed for the earliest of several
// deadlines, and may ring too early: who hears it looks at the deadlines again.
// So a deadline that moves away, as that of the next keep-alive does with every
// write, costs nothing.
type wake struct {
	clock clock.Clock
	ring  func() // called when it rings
	rung  atomic.Bool
	timer clock.Timer // nil: not armed
	at    time.Time
}

// by arms the timer to ring at t or before.
func (w *wake) by(t time.Time) {
	if w.timer != nil {
		if !t.Before(w.at) {
			return
		}
		w.stop()
	}
	d := t.Sub(w.clock.Now())
	if d <= 0 {
		w.rings()
		return
	}
	w.at, w.timer = t, w.clock.AfterFunc(d, w.rings)
}

func (w *wake) rings() {
	w.rung.Store(true)
	w.ring()
}

// rang reports whether it has rung since it was asked last; then it has to be
// armed anew.
func (w *wake) rang() bool {
	if !w.rung.Swap(false) {
		return false
	}
	w.stop()
	return true
}

func (w *wake) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
