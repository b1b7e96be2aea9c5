package session_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// lives notes when each session's runtime last answered and when it was closed.
type lives struct {
	mu       sync.Mutex
	answered map[string]time.Time
	closed   map[string]time.Time
}

type mortal struct {
	l *lives
	s mcp.Session
}

func (m *mortal) Deliver(ctx context.Context, msg wire.Message) error {
	switch {
	case msg.Is("initialize"):
		return m.s.Send(ctx, wire.NewResult(msg.ID(), []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)), "")
	case msg.Kind() == wire.Request:
		m.l.mu.Lock()
		m.l.answered[m.s.ID()] = time.Now()
		m.l.mu.Unlock()
		return m.s.Send(ctx, wire.NewResult(msg.ID(), []byte(`{}`)), "")
	}
	return nil
}

func (m *mortal) Close(context.Context) error {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	m.l.closed[m.s.ID()] = time.Now()
	return nil
}

// Ten thousand sessions are each used once: each runtime is reclaimed on its own
// clock, and nothing is left of any (I7, I8, I9).
func TestTenThousandIdleSessionsLeaveNothing(t *testing.T) {
	const idle = 4 * time.Second
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	l := &lives{answered: map[string]time.Time{}, closed: map[string]time.Time{}}
	w := newWorld(t, func(s *session.Server) {
		s.IdleTimeout, s.Retention, s.Lifetime = idle, time.Second, -1
		s.Plugin = mcp.PluginFunc(func(_ context.Context, ms mcp.Session) (mcp.Runtime, error) { return &mortal{l, ms}, nil })
	})
	before := runtime.NumGoroutine()
	ids := make(chan *client, n)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range work {
				c := w.open1()
				c.post(call(fmt.Sprint(i), "x")).wait()
				ids <- c
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	close(ids)
	w.within(idle*3+10*time.Second, "all are reclaimed", func() bool { return w.svc.Residents() == 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.closed) != n {
		t.Fatalf("%d runtimes were closed, want %d", len(l.closed), n)
	}
	var worst time.Duration
	for id, at := range l.closed {
		if early := l.answered[id].Add(idle).Sub(at); early > 5*time.Millisecond {
			t.Fatalf("session %s was reclaimed %v before its time", id, early)
		}
		worst = max(worst, at.Sub(l.answered[id].Add(idle)))
	}
	t.Logf("%d reclaimed, the latest %v after its deadline", n, worst)
	for c := range ids {
		oid := storage.ID{Class: session.Class, Name: c.id}
		w.within(5*time.Second, "no alarm is left", func() bool {
			a, err := w.store.Alarm(t.Context(), oid)
			return err == nil && a.At.IsZero()
		})
	}
	w.within(5*time.Second, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+5 })
}
