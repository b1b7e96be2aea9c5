package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
)

func TestClientBearsTheToken(t *testing.T) {
	w := newWorld(t, secret)
	if _, err := w.client.Isolates(t.Context()); err != nil {
		t.Error(err)
	}
	without, err := admin.NewClient(w.admin.URL, "")
	check(t, err)
	_, err = without.Isolates(t.Context())
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusUnauthorized || !strings.Contains(e.Hint, "--admin-token-file") {
		t.Errorf("without the token: %v", err)
	}
}

// A host that is stopped, or hangs, takes the connection and says nothing.
func TestAHostThatDoesNotAnswerIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	c, err := admin.NewClient(l.Addr().String(), "")
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.Isolates(ctx)
	if e, ok := errors.AsType[*admin.Error](err); !ok || !strings.Contains(e.Text, "has not answered in time") || !strings.Contains(e.Hint, "may have been done") {
		t.Errorf("got %+v", err)
	}
}

// A client says why it has no answer, and what to do.
func TestClientExplainsItself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	closed := l.Addr().String()
	check(t, l.Close())
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	for address, want := range map[string]string{
		closed: "no host listens on " + closed,
		"unix:" + filepath.Join(t.TempDir(), "k.sock"):                                             "no host listens on unix:",
		serve(func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }):              "does not answer as a host's admin listener does: 404",
		serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }): "does not answer as a host's admin listener does",
		serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example", http.StatusTemporaryRedirect)
		}): "does not answer as a host's admin listener does: 307",
		serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }): "no answer from",
	} {
		c, err := admin.NewClient(address, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Isolates(t.Context())
		if e, ok := errors.AsType[*admin.Error](err); !ok || !strings.Contains(e.Text, want) || e.Hint == "" || e.Usage() {
			t.Errorf("%s: want %q, got %+v", address, want, err)
		}
	}
	for _, address := range []string{"", "9090", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:http", "unix:", "ftp://127.0.0.1:1"} {
		if _, err := admin.NewClient(address, ""); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}
