package guard

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestIsLoopbackHost(t *testing.T) {
	for _, h := range []string{"localhost", "LocalHost:80", "a.localhost", "a.localhost:1", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80", "::1", "[::ffff:127.0.0.1]:1"} {
		if !isLoopbackHost(h) {
			t.Errorf("%s is not", h)
		}
	}
	for _, h := range []string{"", ":80", "localhost.evil.example", "evil-localhost", ".localhost", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0", "[::]:80", "128.0.0.1", "127.1", "[::ffff:10.0.0.1]"} {
		if isLoopbackHost(h) {
			t.Errorf("%s is", h)
		}
	}
}

// reached is a request on a connection to an address.
func reached(at, host, origin string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	r.Host = host
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	addr := &net.TCPAddr{IP: net.ParseIP(at), Port: 80}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		rules        Rules
		at, host, of string
		in           bool
	}{
		{Rules{}, "127.0.0.1", "localhost:80", "", true},
		{Rules{}, "127.0.0.1", "rebound.example", "", false},
		{Rules{Hosts: []string{"rebound.example"}}, "127.0.0.1", "rebound.example:80", "", true},
		{Rules{}, "10.0.0.1", "any.example", "", true},
		{Rules{Hosts: []string{"a.example"}}, "10.0.0.1", "any.example", "", false},
		{Rules{}, "127.0.0.1", "localhost", "http://localhost:3000", true},
		{Rules{}, "10.0.0.1", "a.example", "http://localhost:3000", false},
		{Rules{}, "10.0.0.1", "a.example", "https://a.example", true},
		{Rules{}, "127.0.0.1", "localhost", "https://evil.example", false},
		{Rules{Origins: []string{"https://b.example"}}, "127.0.0.1", "localhost", "https://b.example", true},
		{Rules{Origins: []string{"*"}}, "127.0.0.1", "localhost", "https://evil.example", true},
		{Rules{}, "127.0.0.1", "localhost", "null", false},
	} {
		if why := c.rules.Check(reached(c.at, c.host, c.of)); (why == "") != c.in {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

func TestHandler(t *testing.T) {
	served := 0
	h := Rules{Origins: []string{"https://b.example"}}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	answer := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := answer(reached("127.0.0.1", "localhost", "https://evil.example")); w.Code != http.StatusForbidden || served != 0 {
		t.Errorf("a foreign page gets %d", w.Code)
	}
	if w := answer(reached("127.0.0.1", "localhost", "https://b.example")); w.Code != http.StatusOK || served != 1 || w.Header().Get("Access-Control-Allow-Origin") != "https://b.example" {
		t.Errorf("a page that is allowed gets %d, %v", w.Code, w.Header())
	}
	r := reached("127.0.0.1", "localhost", "https://b.example")
	r.Method = http.MethodOptions
	r.Header.Set("Access-Control-Request-Method", "PUT")
	if w := answer(r); w.Code != http.StatusNoContent || served != 1 || w.Header().Get("Access-Control-Allow-Methods") != "PUT" {
		t.Errorf("a browser's question gets %d, %v", w.Code, w.Header())
	}
}
