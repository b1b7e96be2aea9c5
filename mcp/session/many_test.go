package session_test

import (
	"context"
	"fmt"
	"os"
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
	before, files := runtime.NumGoroutine(), openFiles(t)
	overslept := sleeper()
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
	stalled := overslept() // what a machine that is busy with something else has added
	// A session waits for several goroutines one after the other, each of which may find the
	// machine busy.
	if late := max(idle/20, 250*time.Millisecond); worst > late+10*stalled {
		t.Errorf("a session was reclaimed %v after its own deadline, at most %v is allowed, and ten times the %v that the machine stood still", worst, late, stalled)
	}
	t.Logf("%d reclaimed, the latest %v after its deadline; a sleeper overslept by %v", n, worst, stalled)
	for c := range ids {
		oid := storage.ID{Class: session.Class, Name: c.id}
		w.within(5*time.Second, "no alarm is left", func() bool {
			a, err := w.store.Alarm(t.Context(), oid)
			return err == nil && a.At.IsZero()
		})
	}
	w.within(5*time.Second, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+5 })
	w.within(5*time.Second, "no file descriptor is left", func() bool { return openFiles(t) <= files })
}

// sleeper sleeps in short naps; the result ends it and says by how much the
// longest was too long.
func sleeper() (overslept func() time.Duration) {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		const nap = 5 * time.Millisecond
		var most time.Duration
		for {
			select {
			case <-stop:
				worst <- most
				return
			default:
			}
			begun := time.Now()
			time.Sleep(nap)
			most = max(most, time.Since(begun)-nap)
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-worst
	}
}

// openFiles counts this process's file descriptors, where the system tells.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
