package run_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSignalRemembersOnce(t *testing.T) {
	s := run.Real.Signal()
	s.Set()
	s.Set()
	s.Wait()
	woken := make(chan struct{})
	run.Real.Go(func() { s.Wait(); close(woken) })
	select {
	case <-woken:
		t.Fatal("a signal that was set twice woke twice")
	default:
	}
	s.Set()
	<-woken
}

func TestAfterDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := run.Real.Signal()
	run.Real.AfterDone(ctx, s.Set)
	if stop := run.Real.AfterDone(ctx, func() { t.Error("called after stop") }); !stop() || stop() {
		t.Error("stop takes it back once")
	}
	cancel()
	s.Wait()
}

// A signal that was given back begins anew, and is one waiter's.
func TestASignalThatWasGivenBackIsNotSet(t *testing.T) {
	for range 100 {
		s := run.Real.Signal()
		s.Set()
		run.Free(s)
		a, b := run.Real.Signal(), run.Real.Signal()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if run.WaitDone(ctx, run.Real, a) || run.WaitDone(ctx, run.Real, b) || a == b {
			t.Fatal("it is set, or two have it")
		}
	}
}
