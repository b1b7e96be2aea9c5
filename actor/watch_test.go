package actor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// Who watches hears of the reset of an object, with its cause, and of that of an isolate as one.
func TestResetsAreTold(t *testing.T) {
	l := newLab(t, actor.Options{EvictAfter: -1, Isolates: 1})
	var mu sync.Mutex
	var told []string
	isolates := 0
	l.Watch(actor.Watcher{
		Reset: func(e *actor.Error, isolate int) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.ID.Name+" "+e.Cause.String())
			if e.Epoch == 0 || isolate != 0 {
				t.Errorf("epoch %d, isolate %d", e.Epoch, isolate)
			}
		},
		IsolateReset: func(_ int, c actor.Cause, objects int, _ error) { isolates += objects },
	})
	for _, name := range []string{"a", "b", "c"} {
		l.must(name, func(_ context.Context, s *actor.State) error { return s.Put("k", []byte("v")) })
	}
	l.Reset(thingID("a"), actor.CPULimit, nil)
	if _, err := l.ResetIsolate(0, actor.MemoryLimit, nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a cpu_limit"}; !slices.Equal(told, want) || isolates != 2 {
		t.Errorf("told of %v, and of %d objects of isolates", told, isolates)
	}
}

// An object that is removed is gone, whether it is in memory or at rest, and what is
// sent to it finds nothing.
func TestAnObjectThatIsRemovedIsGone(t *testing.T) {
	l := newLab(t, actor.Options{EvictAfter: -1})
	for _, at := range []string{"in memory", "at rest"} {
		l.must("a", func(_ context.Context, s *actor.State) error { return s.Put("k", []byte("v")) })
		if at == "at rest" {
			l.Reset(thingID("a"), actor.Aborted, nil)
		}
		if err := l.Remove(t.Context(), thingID("a")); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		l.has("a", "")
		if err := l.Remove(t.Context(), thingID("a")); !errors.Is(err, storage.ErrNoObject) {
			t.Errorf("%s, removed twice: %v", at, err)
		}
	}
}
