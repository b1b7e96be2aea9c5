//go:build unix

package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// session is what the runtimes of the tests work for.
type session struct {
	sent   chan wire.Message // Send blocks while it is full
	exited chan error
	exits  atomic.Int32
	logs   *journal
	level  slog.Level
	reset  atomic.Bool // Send fails with ErrReset
	heap   atomic.Int64
}

func newSession() *session {
	return &session{sent: make(chan wire.Message, 16), exited: make(chan error, 4), logs: &journal{}, level: slog.LevelDebug}
}

func (s *session) ID() string               { return "s1" }
func (s *session) Server() string           { return "test" }
func (s *session) Principal() mcp.Principal { return mcp.Principal{} }
func (s *session) Epoch() uint64            { return 1 }
func (s *session) Handshake() mcp.Handshake { return mcp.Handshake{} }
func (s *session) State() mcp.State         { return nil }
func (s *session) Charge(n int64) (func(), error) {
	s.heap.Add(n)
	return func() { s.heap.Add(-n) }, nil
}
func (s *session) Exited(err error) { s.exits.Add(1); s.exited <- err }
func (s *session) Send(ctx context.Context, m wire.Message, about wire.ID) error {
	if s.reset.Load() {
		return mcp.ErrReset
	}
	select {
	case s.sent <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
func (s *session) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: s.level}))
}

// journal is a log that can be read while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

const patience = 20 * time.Second

func (s *session) next(t testing.TB) wire.Message {
	t.Helper()
	select {
	case m := <-s.sent:
		return m
	case err := <-s.exited:
		select {
		case m := <-s.sent: // it was there first
			s.exited <- err
			return m
		default:
			t.Fatalf("the server exited: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("no message; log:\n%s", s.logs)
	}
	panic("unreachable")
}

func (s *session) exit(t testing.TB) *ExitError {
	t.Helper()
	for {
		select {
		case err := <-s.exited:
			e, ok := errors.AsType[*ExitError](err)
			if !ok {
				t.Fatalf("Exited(%T %v), want an *ExitError", err, err)
			}
			return e
		case <-s.sent:
		case <-time.After(patience):
			t.Fatalf("Exited was not called; log:\n%s", s.logs)
		}
	}
}

// one is a server of the tests at work.
type one struct {
	*Runtime
	*session
	plugin *Plugin
	tag    string
}

func newTag() string { return fmt.Sprintf("%09d", rand.IntN(1_000_000_000)) }

// configOf makes the configuration of a server of the tests.
func configOf(t testing.TB, mode, tag string, change ...func(*Config)) Config {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Command: exe,
		Args:    []string{"-test.run=^$"},
		Env:     map[string]string{modeVar: mode, tagVar: tag, "TMPDIR": t.TempDir(), "GORACE": "atexit_sleep_ms=0"},
		Logger:  slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// start builds a server; the test fails if anything of it is left at the end.
func start(t testing.TB, mode string, change ...func(*Config)) one {
	t.Helper()
	tag := newTag()
	p := New(configOf(t, mode, tag, change...))
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := tagged(t, tag); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	s := newSession()
	r, err := p.Build(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return one{r.(*Runtime), s, p, tag}
}

func (o one) call(t testing.TB, method, params string) string {
	t.Helper()
	var p []byte
	if params != "" {
		p = []byte(params)
	}
	if err := o.Deliver(context.Background(), wire.NewRequest("1", method, p)); err != nil {
		t.Fatal(err)
	}
	for {
		m := o.next(t)
		if m.Kind() == wire.Response {
			return string(m.Result())
		}
	}
}

func (o one) waitFor(t testing.TB, method string) {
	t.Helper()
	if m := o.next(t); m.Method() != method {
		t.Fatalf("got %.200s, want %s", m, method)
	}
}

// eventually waits for something that is about to be so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after %v: %s", patience, what)
		}
	}
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}
