package front

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Refusal is a whole HTTP answer that says no: a status, and the JSON-RPC error
// that names what is wrong and what to do about it.
type Refusal struct {
	Status int
	Header http.Header // more headers, such as WWW-Authenticate; may be nil
	Body   wire.Message
}

// refuse builds a Refusal. The empty id stands for null.
func refuse(status int, id wire.ID, code wire.Code, format string, a ...any) *Refusal {
	return &Refusal{Status: status, Body: wire.NewError(id, code, fmt.Sprintf(format, a...), nil)}
}

// busy refuses what will do later.
func busy(id wire.ID, format string, a ...any) *Refusal {
	return refuse(http.StatusServiceUnavailable, id, wire.InternalError, format, a...).with("Retry-After", "1")
}

// unknown refuses what is addressed to a session that does not exist. Only this
// has the status 404: it makes clients begin anew.
func unknown(id wire.ID) *Refusal {
	return refuse(http.StatusNotFound, id, wire.InvalidRequest,
		"The session is not known here or has ended. Start a new one with initialize, without an %s header.", headerSession)
}

// refusalOf passes on what a session has refused.
func refusalOf(r *session.Refusal) *Refusal {
	no := &Refusal{Status: r.Status, Body: r.Body}
	if no.Status == http.StatusServiceUnavailable || no.Status == http.StatusTooManyRequests {
		no.with("Retry-After", "1")
	}
	return no
}

func (r *Refusal) with(name, value string) *Refusal {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(name, value)
	return r
}

func (r *Refusal) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.Header)
	writeJSON(w, r.Status, r.Body.Bytes())
}

// writeJSON answers with a whole JSON document.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone; nobody else to tell
}
