package admin_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/demo"
	"github.com/kalpahost/kalpa/mcp/front"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a host of the demo server, with its front and its admin API.
type world struct {
	t        *testing.T
	store    storage.Store
	host     *actor.Host
	sessions *session.Service
	handler  *admin.API
	front    *httptest.Server
	admin    *httptest.Server
	client   *admin.Client
	log      *syncedLog // of the admin API
}

// syncedLog keeps what is logged.
type syncedLog struct {
	mu sync.Mutex
	strings.Builder
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func newWorld(t *testing.T, token string) *world {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store := storage.NewMemory()
	host, err := actor.NewHost(actor.Options{Store: store, Logger: quiet, Kill: func() {}})
	check(t, err)
	sessions, err := session.NewService(host, session.Options{Servers: []session.Server{{Name: "demo", Plugin: demo.Plugin()}}})
	check(t, err)
	f, err := front.New(front.Options{Sessions: sessions, Server: "demo", Logger: quiet, At: sessions.At})
	check(t, err)
	check(t, host.Start())
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	w := &world{t: t, store: store, host: host, sessions: sessions, log: &syncedLog{}}
	w.handler = admin.New(admin.Options{Host: host, Sessions: sessions, Logger: slog.New(slog.NewTextHandler(w.log, nil)), Health: ok, Metrics: ok, Token: token})
	w.front, w.admin = httptest.NewServer(f), httptest.NewServer(w.handler)
	w.client, err = admin.NewClient(strings.TrimPrefix(w.admin.URL, "http://"), token)
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		w.handler.Close()
		w.admin.Close()
		check(t, f.Shutdown(ctx))
		w.front.Close()
		check(t, host.Shutdown(ctx))
		check(t, sessions.Wait(ctx))
		check(t, store.Close())
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// open opens a session and returns its id.
func (w *world) open() string {
	w.t.Helper()
	r := w.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	return r.Header.Get("Mcp-Session-Id")
}

// call calls a tool and returns the body of the answer.
func (w *world) call(id, tool, args string) string {
	w.t.Helper()
	return w.post(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)).Status
}

func (w *world) post(id, body string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.front.URL, strings.NewReader(body))
	check(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if id != "" {
		r.Header.Set("Mcp-Session-Id", id)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(w.t, err)
	response.Status = string(text)
	return response
}
