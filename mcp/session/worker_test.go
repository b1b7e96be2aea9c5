package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/kalpahost/kalpa/internal/run"
)

// goroutines counts those that a worker has started.
type goroutines struct {
	run.Runner
	started, at int
}

func (g *goroutines) Go(f func()) {
	g.started++
	g.at++
	g.Runner.Go(func() { f(); g.at-- })
}

func TestAWorkerRestsWithoutAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &goroutines{Runner: run.Real}
		steps, over := 0, false
		hold := make(chan struct{})
		w := &worker{runner: g, step: func() bool {
			steps++
			<-hold
			return over
		}}
		said := func(wantSteps, wantStarted, wantAt int) {
			t.Helper()
			synctest.Wait()
			if steps != wantSteps || g.started != wantStarted || g.at != wantAt {
				t.Errorf("%d steps, %d goroutines, %d at work; want %d, %d, %d", steps, g.started, g.at, wantSteps, wantStarted, wantAt)
			}
		}
		said(0, 0, 0)
		w.wake()
		said(1, 1, 1)
		w.wake() // in the middle of a step: there is another after it
		w.wake()
		said(1, 1, 1)
		hold <- struct{}{}
		said(2, 1, 1)
		hold <- struct{}{}
		said(2, 1, 0)
		w.wake()
		said(3, 2, 1)
		over = true
		w.wake()
		hold <- struct{}{}
		said(3, 2, 0) // what comes after the end is nobody's
		w.wake()
		said(3, 2, 0)
	})
}

// An incarnation that is reset while it asks for a runtime ends the life of one that was
// never started: there is nothing to build for it, and nothing to close.
func TestARuntimeThatWasNotStartedHasNoWork(t *testing.T) {
	rt := &resident{ops: []*stateOp{}}
	rt.life, rt.cancel = context.WithCancelCause(t.Context())
	rt.worker = worker{runner: run.Real, step: func() bool { t.Error("it has lived"); return true }}
	rt.end()
	if rt.worker.busy || rt.life.Err() == nil || rt.ops != nil {
		t.Errorf("busy %v, life %v, operations %v", rt.worker.busy, rt.life.Err(), rt.ops)
	}
}
