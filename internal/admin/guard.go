package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard lets through what may be asked by who asks it. See "Security" in the
// package's documentation.
func guard(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := judge(token, r); e != nil {
			if e.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="kalpa admin"`)
			}
			write(w, e)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func judge(token string, r *http.Request) *Error {
	forbidden := func(text, hint string) *Error {
		return &Error{Status: http.StatusForbidden, Text: text, Hint: hint}
	}
	if origin := r.Header.Get("Origin"); len(r.Header.Values("Origin")) > 0 && !own(origin, r.Host) {
		return forbidden("a page of the origin "+quote(origin)+" may not use this host", "browsers may, from pages of the admin listener itself")
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "" || site == "none" || site == "same-origin":
	case consoles(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
		// A link that a person has followed, to a page of ours that they will see.
	default:
		return forbidden("a page of another site ("+quote(site)+") may not use this host", "browsers may, from pages of the admin listener itself")
	}
	if token == "" {
		switch address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); {
		case address == nil:
			return forbidden("the address of the listener is not known", "")
		case address.Network() == "unix": // the file's permissions say who may
		case !loopback(hostname(address.String())):
			return forbidden("this listener can be reached from other machines and has no token", "")
		case !local(r.Host):
			return forbidden("the host "+quote(r.Host)+" is not served here", "use the listener's own address, or give the host an admin token")
		}
		return nil
	}
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || consoles(r) {
		return nil
	}
	if scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " "); !ok || !strings.EqualFold(scheme, "Bearer") || !same(given, token) {
		return &Error{Status: http.StatusUnauthorized, Text: "this host's admin API asks for a token, and the request does not bear it",
			Hint: "kalpa commands take it from --admin-token-file or KALPA_ADMIN_TOKEN; others send the header Authorization: Bearer TOKEN"}
	}
	return nil
}

// same compares in a time that says nothing of where the two differ, nor of how
// long the token is.
func same(given, token string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// own tells whether an origin is that of the listener's own pages.
func own(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && strings.EqualFold(u.Host, host)
}

// local tells whether a Host header can be meant for this machine alone: no name
// that somebody else's name server answers for.
func local(host string) bool {
	name := hostname(host)
	return strings.EqualFold(name, "localhost") || loopback(name)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hostname is a host without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func quote(s string) string { return `"` + s[:min(len(s), 100)] + `"` }
