// Package guard refuses what a web page has sent by way of a browser that was led to
// believe that this server is the page's own (DNS rebinding), or from an origin that
// nobody has allowed. It is the same for every listener of a host.
package guard

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Rules say what is let in.
type Rules struct {
	// Hosts are the values of the Host header that are served, with or without a port
	// (without: any port); "*" allows all. On a connection to a loopback address the
	// loopback names are served in any case, and nothing else by default; on other
	// connections everything is served by default, and only the list when there is one.
	Hosts []string
	// Origins are the Origin headers that are served besides the server's own host; "*"
	// allows all. On a connection to a loopback address, loopback origins are served as
	// well.
	Origins []string
}

// Check says why a request is refused, and what to do about it. Empty: it is not.
func (g Rules) Check(r *http.Request) string { return cmp.Or(g.Host(r), g.Origin(r)) }

// Host is Check as far as the Host header goes.
func (g Rules) Host(r *http.Request) string {
	if g.host(r.Host, onLoopback(r)) {
		return ""
	}
	return fmt.Sprintf("The host %.100q is not served here. Use the server's own address, or allow the host with --allow-host %.300s (allow_hosts in a file).", r.Host, hostname(r.Host))
}

// Origin is Check as far as the Origin header goes.
func (g Rules) Origin(r *http.Request) string {
	if origin := r.Header.Get("Origin"); origin != "" && !g.origin(origin, r.Host, onLoopback(r)) {
		return fmt.Sprintf("The origin %.100q may not use this server. Allow it with --allow-origin %.300s (allow_origins in a file).", origin, origin)
	}
	return ""
}

// varies is shared: whoever adds to it gets another.
var varies = []string{"Origin"}

// Handler lets those in that Check does, and sees to it that pages of the origins that
// are allowed can read what is answered.
func (g Rules) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.Check(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		h := w.Header()
		if h["Vary"] == nil {
			h["Vary"] = varies
		} else {
			h.Add("Vary", "Origin")
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			h.Set("Access-Control-Allow-Origin", origin)
			if asked := r.Header.Get("Access-Control-Request-Method"); asked != "" && r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Methods", asked)
				h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
				h.Set("Access-Control-Max-Age", "7200") // the most that any browser keeps
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (g Rules) host(host string, local bool) bool {
	if local && isLoopbackHost(host) {
		return true
	}
	if !local && len(g.Hosts) == 0 {
		return true
	}
	name := hostname(host)
	return slices.ContainsFunc(g.Hosts, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, host) || strings.EqualFold(strings.Trim(allowed, "[]"), name)
	})
}

func (g Rules) origin(origin, host string, local bool) bool {
	if slices.ContainsFunc(g.Origins, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, origin)
	}) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return strings.EqualFold(u.Host, host) || local && isLoopbackHost(u.Host)
}

// onLoopback tells whether the client has reached the server by a loopback address.
func onLoopback(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return false
	}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback()
	}
	return isLoopbackHost(addr.String())
}

// isLoopbackHost judges a host, with or without a port, by its name alone.
func isLoopbackHost(host string) bool {
	name := hostname(host)
	if strings.EqualFold(name, "localhost") || len(name) > 10 && strings.EqualFold(name[len(name)-10:], ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// hostname is a host without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
