package session

import (
	"sync"

	"github.com/kalpahost/kalpa/internal/run"
)

// worker does work on a goroutine while there is some, and has none while there is not:
// what rests by the thousand must not hold a stack each.
type worker struct {
	runner run.Runner
	// step does what there is to do; true when nothing will come any more.
	step func() (over bool)

	mu    sync.Mutex
	woken bool // since the last step began
	busy  bool // a goroutine is at it, or it is over
}

// wake has step called, after the call that is under way if there is one. It never
// blocks.
func (w *worker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if !w.busy {
		w.busy = true
		w.runner.Go(w.run)
	}
}

func (w *worker) run() {
	for w.wanted() {
		if w.step() {
			return
		}
	}
}

// wanted reports whether there may be something to do; else the goroutine ends.
func (w *worker) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.woken = w.woken, false
	return w.busy
}
