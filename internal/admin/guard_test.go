package admin_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const secret = "0123456789abcdef0123456789abcdef"

// Each threat that the package's documentation names, and what is let through
// beside it.
func TestWhoMayAskWhat(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}
	loopback6 := &net.TCPAddr{IP: net.IPv6loopback, Port: 9090}
	public := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 9090}
	socket := &net.UnixAddr{Name: "/run/kalpa.sock", Net: "unix"}
	type header = map[string]string
	for _, c := range []struct {
		threat string
		token  string
		local  net.Addr
		line   string // method, path
		host   string
		header header
		want   int
	}{
		{"none: a command on this machine", "", loopback, "GET /v1/isolates", "127.0.0.1:9090", nil, 200},
		{"none: by name", "", loopback, "GET /v1/isolates", "localhost:9090", nil, 200},
		{"none: by another port, as through a tunnel", "", loopback, "GET /v1/isolates", "localhost:19090", nil, 200},
		{"none: over IPv6", "", loopback6, "GET /v1/isolates", "[::1]:9090", nil, 200},
		{"none: the unix socket has permissions", "", socket, "GET /v1/isolates", "kalpa", nil, 200},
		{"none: a page of the listener's own", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": "http://127.0.0.1:9090", "Sec-Fetch-Site": "same-origin"}, 200},
		{"none: an address typed into a browser", "", loopback, "GET /v1/isolates", "127.0.0.1:9090", header{"Sec-Fetch-Site": "none"}, 200},

		{"DNS rebinding: a name that leads here", "", loopback, "GET /v1/isolates", "evil.example:9090", nil, 403},
		{"DNS rebinding: to healthz too", "", loopback, "GET /healthz", "evil.example", nil, 403},
		{"DNS rebinding: a name that looks like ours", "", loopback, "GET /v1/isolates", "localhost.evil.example:9090", nil, 403},
		{"DNS rebinding: a name that looks like an address", "", loopback, "GET /v1/isolates", "127.0.0.1.evil.example", nil, 403},
		{"DNS rebinding: with its own origin", "", loopback, "POST /v1/reset", "evil.example:9090", header{"Origin": "http://evil.example:9090"}, 403},
		{"DNS rebinding: another address", "", loopback, "GET /v1/isolates", "192.0.2.7:9090", nil, 403},
		{"no Host", "", loopback, "GET /v1/isolates", "", nil, 403},

		{"CSRF: a page posts", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": "https://evil.example"}, 403},
		{"CSRF: a page of another port of this machine", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": "http://127.0.0.1:3000"}, 403},
		{"CSRF: a sandboxed page", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": "null"}, 403},
		{"CSRF: an empty origin", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": ""}, 403},
		{"CSRF: a page deletes", "", loopback, "DELETE /v1/chaos", "127.0.0.1:9090", header{"Origin": "https://evil.example"}, 403},
		{"CSRF: an image or a script", "", loopback, "GET /metrics", "127.0.0.1:9090", header{"Sec-Fetch-Site": "cross-site"}, 403},
		{"CSRF: another port, as a browser calls it", "", loopback, "GET /v1/sessions", "127.0.0.1:9090", header{"Sec-Fetch-Site": "same-site"}, 403},
		{"CSRF: through a socket that is passed on", "", socket, "POST /v1/reset", "kalpa", header{"Origin": "https://evil.example"}, 403},
		{"CSRF: with the token in hand", secret, loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Origin": "https://evil.example", "Authorization": "Bearer " + secret}, 403},
		{"CSRF: a form", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		{"CSRF: a form of plain text", "", loopback, "POST /v1/chaos", "127.0.0.1:9090", header{"Content-Type": "text/plain"}, 415},
		{"CSRF: no type at all", "", loopback, "POST /v1/reset", "127.0.0.1:9090", header{"Content-Type": ""}, 415},

		{"other machines: reachable without a token", "", public, "GET /v1/isolates", "127.0.0.1:9090", nil, 403},
		{"other machines: healthz as well", "", public, "GET /healthz", "192.0.2.7:9090", nil, 403},
		{"other machines: no token given", secret, public, "GET /v1/isolates", "192.0.2.7:9090", nil, 401},
		{"other machines: nor for metrics", secret, public, "GET /metrics", "192.0.2.7:9090", nil, 401},
		{"other machines: a wrong token", secret, public, "POST /v1/reset", "192.0.2.7:9090", header{"Authorization": "Bearer " + secret[1:] + "0"}, 401},
		{"other machines: a part of the token", secret, public, "POST /v1/reset", "192.0.2.7:9090", header{"Authorization": "Bearer " + secret[:31]}, 401},
		{"other machines: an empty token", secret, public, "POST /v1/reset", "192.0.2.7:9090", header{"Authorization": "Bearer "}, 401},
		{"other machines: another scheme", secret, public, "POST /v1/reset", "192.0.2.7:9090", header{"Authorization": "Basic " + secret}, 401},
		{"other machines: health is no secret", secret, public, "GET /healthz", "kalpa.example", nil, 200},
		{"none: the token, under any name", secret, public, "POST /v1/reset", "kalpa.example", header{"Authorization": "Bearer " + secret}, 200},
		{"none: the scheme has no case", secret, public, "GET /metrics", "kalpa.example", header{"Authorization": "bearer " + secret}, 200},

		{"other users: the loopback address has a token", secret, loopback, "GET /v1/isolates", "127.0.0.1:9090", nil, 401},
		{"other users: and the socket", secret, socket, "GET /v1/isolates", "kalpa", nil, 401},
		{"an address that is not known", "", nil, "GET /v1/isolates", "127.0.0.1:9090", nil, 403},
	} {
		t.Run(c.threat, func(t *testing.T) {
			w := newWorld(t, c.token)
			method, path, _ := strings.Cut(c.line, " ")
			body := `{"isolate":1}`
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.local), method, path, strings.NewReader(body))
			r.Host = c.host
			r.Header.Set("Content-Type", "application/json")
			for k, v := range c.header {
				r.Header[http.CanonicalHeaderKey(k)] = []string{v}
			}
			answer := httptest.NewRecorder()
			w.handler.ServeHTTP(answer, r)
			if answer.Code != c.want {
				t.Errorf("%s of host %q with %v: %d %s, want %d", c.line, c.host, c.header, answer.Code, answer.Body, c.want)
			}
			if (answer.Header().Get("WWW-Authenticate") != "") != (c.want == http.StatusUnauthorized) {
				t.Errorf("%d with WWW-Authenticate %q", answer.Code, answer.Header().Get("WWW-Authenticate"))
			}
			if strings.Contains(answer.Body.String(), secret) || answer.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("the answer gives away what it must not")
			}
		})
	}
}

// What the table says about addresses holds for a real listener.
func TestListenerTellsItsOwnAddress(t *testing.T) {
	w := newWorld(t, "")
	c, err := net.Dial("tcp", w.admin.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"))
	check(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "403") {
		t.Errorf("%q, %v", line, err)
	}
}
