package front

import (
	"net/http"

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
	if why := f.guarded.Load().Host(r); why != "" {
		return refuse(http.StatusForbidden, "", wire.InvalidRequest, "%s", why)
	}
	h.Add("Vary", "Origin")
	if why := f.guarded.Load().Origin(r); why != "" {
		return refuse(http.StatusForbidden, "", wire.InvalidRequest, "%s", why)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
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
