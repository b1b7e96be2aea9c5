package admin_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/admin"
)

// While a host comes up its health can be asked, by whom the API would let in, and
// nothing else.
func TestBeforeTheAPIIsUpHealthIsAnswered(t *testing.T) {
	line := func(status int, text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) })
	}
	open := admin.Early(admin.Options{Health: line(200, "lives"), Ready: line(503, "not yet")})
	closed := admin.Early(admin.Options{Health: line(200, "lives"), Ready: line(503, "not yet"), Token: secret})
	for _, c := range []struct {
		serve        http.Handler
		method, path string
		host         string
		status       int
		text         string
	}{
		{open, "GET", "/healthz", "127.0.0.1:9090", 200, "lives"},
		{open, "GET", "/readyz", "127.0.0.1:9090", 503, "not yet"},
		{open, "GET", "/v1/overview", "127.0.0.1:9090", 503, "the host is starting"},
		{open, "PUT", "/healthz", "127.0.0.1:9090", 405, "takes no PUT"},
		{open, "GET", "/healthz", "evil.example", 403, "is not served here"},
		{closed, "GET", "/healthz", "kalpa.example", 200, "lives"},
		{closed, "GET", "/v1/overview", "kalpa.example", 401, "asks for a token"},
	} {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), c.method, c.path, nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		c.serve.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %s to %s: %d %s", c.method, c.path, c.host, w.Code, w.Body)
		}
	}
}
