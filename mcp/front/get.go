package front

import (
	"net/http"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// get serves a stream that the session may write to at any time, or with
// Last-Event-ID the rest of an earlier stream. It holds nothing of the session
// but the socket, and lives at most StreamAge.
func (f *Front) get(w http.ResponseWriter, r *http.Request, caller session.Caller) *Refusal {
	if no := checkAccept(r, typeStream); no != nil {
		return no
	}
	id, no := f.existing(r, caller)
	if no != nil {
		return no
	}
	resume := r.Header.Get(headerResume)
	if resume != "" {
		if _, err := session.ParseEventID(resume); err != nil {
			return refuse(http.StatusBadRequest, "", wire.InvalidRequest,
				"%s: %v. Send the id of the last event that was received, or none.", headerResume, err)
		}
	}
	if no := f.stream(""); no != nil {
		return no
	}
	defer f.release()
	x := f.newExchange(w, r, caller, id)
	x.parkAt = x.now().Add(f.o.StreamAge)
	x.status = http.StatusNoContent // nothing to come back for: it tells an event source to stop
	get := session.Get{Socket: x.socket, Caller: caller, Stream: session.StreamFrom(f.o.Text()), After: resume}
	x.again = func(s *session.Socket, after string) session.Event {
		again := get
		again.Socket = s
		if after != "" {
			again.After = after
		}
		return &again
	}
	return x.run(&get)
}

// delete ends the session.
func (f *Front) delete(w http.ResponseWriter, r *http.Request, caller session.Caller) *Refusal {
	id, no := f.existing(r, caller)
	if no != nil {
		return no
	}
	x := f.newExchange(w, r, caller, id)
	x.status = http.StatusNoContent
	x.again = func(s *session.Socket, _ string) session.Event { return &session.Delete{Socket: s, Caller: caller} }
	return x.run(&session.Delete{Socket: x.socket, Caller: caller})
}

// existing is the session that a request without a body is addressed to.
func (f *Front) existing(r *http.Request, caller session.Caller) (string, *Refusal) {
	if no := f.noBody(r); no != nil {
		return "", no
	}
	if no := checkVersion(caller.Version, ""); no != nil {
		return "", no
	}
	id, no := sessionOf(r, "")
	if no == nil && id == "" {
		no = missingSession("")
	}
	return id, no
}
