package actor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// The actor of an incarnation ends when that is reset, and does not wait for code that goes
// on in vain: in a turn, in a critical section that awaits, in a constructor.
func TestAnAbandonedTurnDoesNotKeepTheActor(t *testing.T) {
	store := storage.NewMemory()
	defer store.Close()
	h, err := NewHost(Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	hangs, release := make(chan struct{}), make(chan struct{})
	hang := func(context.Context) error { hangs <- struct{}{}; <-release; return nil }
	ended := make(chan struct{})
	class := Define("stuck", func(ctx context.Context, s *State) (*State, error) {
		if strings.HasPrefix(s.ID().Name, "constructor") {
			_ = hang(ctx)
			ended <- struct{}{}
		}
		return s, nil
	})
	turn := Method(class, "turn", func(_ *State, ctx context.Context, _ int) (int, error) {
		defer func() { ended <- struct{}{} }()
		return 0, hang(ctx)
	})
	section := Method(class, "section", func(s *State, ctx context.Context, _ int) (int, error) {
		defer func() { ended <- struct{}{} }()
		return 0, s.Critical(ctx, func(ctx context.Context) error { return s.Await(ctx, hang) })
	})
	class.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Shutdown(context.Background())
	for name, call := range map[string]Call[int, int]{"turn": turn, "section": section, "constructor": turn} {
		id := class.ID(name)
		p := call.Start(t.Context(), h.Stub(id), 0)
		<-hangs
		pid := h.dir.incarnation(id).pid
		h.Reset(id, Aborted, nil)
		if _, err := p.Wait(t.Context()); CauseOf(err) != Aborted {
			t.Errorf("%s: the call came to %v", name, err)
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, there := h.sys.ProcessRegistry.Get(pid); !there {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s: it is still there", name)
				break
			}
		}
		release <- struct{}{}
		<-ended
	}
}
