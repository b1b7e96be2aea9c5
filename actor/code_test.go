package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// What the last host before an update has lost was lost to the update, for as long as
// nothing newer is known; what earlier hosts have lost, and later ones, was not.
func TestAnUpdateEndsWhatTheHostBeforeItRan(t *testing.T) {
	dir := t.TempDir()
	var epochs []uint64
	for n, tc := range []struct {
		version string
		updated []int // the hosts whose incarnations the update has ended
	}{
		{"1", nil}, {"1", nil}, {"", nil}, {"2", []int{1, 2}}, {"2", []int{1, 2}}, {"3", []int{4}}, {"3", []int{4}},
	} {
		store, err := pebble.Open(pebble.Options{Dir: dir, Durability: storage.Relaxed, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		h, err := actor.NewHost(actor.Options{Store: store, Logger: quiet, Version: tc.version})
		if err != nil {
			t.Fatal(err)
		}
		things.Register(h)
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		l := lab{t, h}
		l.must("a", func(_ context.Context, s *actor.State) error { epochs = append(epochs, s.Epoch()); return nil })
		if tc.version != "" {
			for i, epoch := range epochs {
				want := actor.NoCause
				for _, u := range tc.updated {
					if i == u {
						want = actor.CodeUpdated
					}
				}
				if got := h.EndedBy(epoch); got != want {
					t.Errorf("at host %d: what host %d ran was ended by %q, want %q", n, i, got, want)
				}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A class that has new code in a running host: exactly its objects begin anew, and
// what they were doing says why it was lost.
func TestRedeployResetsTheObjectsOfOneClass(t *testing.T) {
	p := newPressed(t, actor.Options{})
	if err := p.get(p.hoards("h", 1, false)); err != nil {
		t.Fatal(err)
	}
	other := p.Epoch(hoarderID("h"))
	p.must("a", func(context.Context, *actor.State) error { return nil })
	begun, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	lost := p.begin("b", func(ctx context.Context, s *actor.State) error {
		close(begun)
		return s.Await(ctx, func(context.Context) error { <-end; return nil })
	})
	<-begun
	if n, err := p.Redeploy("thing"); n != 2 || err != nil {
		t.Errorf("%d objects were reset: %v", n, err)
	}
	if err := p.get(lost); actor.CauseOf(err) != actor.CodeUpdated {
		t.Errorf("what was under way ended with %v", err)
	}
	if p.Epoch(hoarderID("h")) != other {
		t.Error("an object of another class was reset")
	}
	if _, err := p.Redeploy("nothing"); err == nil {
		t.Error("a class that does not exist was redeployed")
	}
	p.must("b", func(context.Context, *actor.State) error { return nil })
}
