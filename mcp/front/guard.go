package front

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/mcp/wire"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerResume  = "Last-Event-ID"
	// headerOutcome says, with the 202 to an answer, what became of its question.
	headerOutcome = "Kalpa-Outcome"
)

// guard refuses requests that a web page has sent by way of a browser which was
// led to believe that this server is the page's own (DNS rebinding), or from an
// origin that nobody has allowed. To the others it sets the headers that let a
// page read the answer, whatever it will be.
func (f *Front) guard(h http.Header, r *http.Request) *Refusal {
	local := onLoopback(r)
	if !f.hostAllowed(r.Host, local) {
		return refuse(http.StatusForbidden, "", wire.InvalidRequest,
			"The host %.100q is not served here. Use the server's own address, or allow the host with --allow-host %.300s (allow_hosts in a file).", r.Host, hostname(r.Host))
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if !f.originAllowed(origin, r.Host, local) {
		return refuse(http.StatusForbidden, "", wire.InvalidRequest,
			"The origin %.100q may not use this server. Allow it with --allow-origin %.300s (allow_origins in a file).", origin, origin)
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, Kalpa-Outcome")
	return nil
}

// preflight answers a browser's question what a page may send.
func (f *Front) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Allow", methods)
	if r.Header.Get("Origin") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers",
			"Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id, Traceparent, Tracestate, Baggage")
		h.Set("Access-Control-Max-Age", "7200") // the most that any browser keeps
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *Front) hostAllowed(host string, local bool) bool {
	if local && isLoopbackHost(host) {
		return true
	}
	if !local && len(f.o.AllowedHosts) == 0 {
		return true
	}
	name := hostname(host)
	return slices.ContainsFunc(f.o.AllowedHosts, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, host) || strings.EqualFold(strings.Trim(allowed, "[]"), name)
	})
}

func (f *Front) originAllowed(origin, host string, local bool) bool {
	if slices.ContainsFunc(f.o.AllowedOrigins, func(allowed string) bool {
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
