package front

import (
	"errors"
	"net/http"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// post serves messages from the client. Requests are answered on a stream; for
// the rest the session's word that it has them, 202, is all.
func (f *Front) post(w http.ResponseWriter, r *http.Request, caller session.Caller) *Refusal {
	if no := checkContentType(r); no != nil {
		return no
	}
	if no := checkAccept(r, typeJSON, typeStream); no != nil {
		return no
	}
	b, no := f.readBody(w, r)
	defer b.release()
	if no != nil {
		return no
	}
	ms, batch, err := wire.ParseBody(b.bytes)
	owes := owedFor(ms)
	if no := checkVersion(caller.Version, owes.id()); no != nil {
		return no
	}
	if err != nil {
		return malformed(err)
	}
	if no := checkEra(ms); no != nil {
		return no
	}
	if no := f.checkBatch(ms, batch, caller.Version); no != nil {
		return no
	}
	id, no := sessionOf(r, owes.id())
	if no != nil {
		return no
	}
	creates := id == ""
	if creates {
		if !ms[0].Is("initialize") || ms[0].Kind() != wire.Request {
			return missingSession(owes.id())
		}
		id = session.IDFrom(f.o.Text(), f.o.Clock.Now())
	}
	if owes != nil {
		if no := f.stream(owes.id()); no != nil {
			return no
		}
		defer f.release()
	}
	x := f.newExchange(w, r, caller, id)
	x.about, x.owes, x.batch, x.creates = owes.id(), owes, batch, creates
	if owes == nil {
		x.status = http.StatusAccepted
	} else {
		x.expireAt = x.now().Add(f.deadline())
		x.brief = f.limits.Load().JSON && len(owes) == 1 && !batch
	}
	x.begin(ms)
	x.stream = session.StreamFrom(f.o.Text())
	p := &session.Post{Socket: x.socket, Caller: caller, Stream: x.stream, Messages: ms, Batch: batch, Create: creates, Trace: x.trace()}
	x.again = func(s *session.Socket, after string) session.Event {
		return &session.Attach{Socket: s, Post: *p, After: after}
	}
	no = x.run(p)
	x.tell(no)
	return no
}

// malformed explains why a body is not what it should be.
func malformed(err error) *Refusal {
	syntax := &wire.SyntaxError{Code: wire.ParseError}
	errors.As(err, &syntax)
	return refuse(http.StatusBadRequest, syntax.ID, syntax.Code, "The body is not a JSON-RPC message: %v.", err)
}

// checkBatch refuses batches where the protocol has none. Without a version header
// only the session knows.
func (f *Front) checkBatch(ms []wire.Message, batch bool, version string) *Refusal {
	if !batch {
		return nil
	}
	if version != "" && version != versionBatch {
		return refuse(http.StatusBadRequest, "", wire.InvalidRequest,
			"Protocol version %s has no batches. Send each message in a POST of its own.", version)
	}
	if len(ms) > f.o.MaxBatch {
		return refuse(http.StatusRequestEntityTooLarge, "", wire.InvalidRequest,
			"The batch has %d messages, more than %d. Send fewer at once.", len(ms), f.o.MaxBatch)
	}
	for _, m := range ms {
		if m.Is("initialize") {
			return refuse(http.StatusBadRequest, "", wire.InvalidRequest, "initialize stands in a batch. Send it in a POST of its own.")
		}
	}
	return nil
}

// maxSessionID is the length beyond which a session id can't be one of ours.
const maxSessionID = 128

// sessionOf reads the session id, empty when there is none. An id that can't be
// ours does not reach storage.
func sessionOf(r *http.Request, about wire.ID) (string, *Refusal) {
	id := r.Header.Get(headerSession)
	if len(id) > maxSessionID {
		return "", unknown(about)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return "", unknown(about)
		}
	}
	return id, nil
}

func missingSession(about wire.ID) *Refusal {
	return refuse(http.StatusBadRequest, about, wire.InvalidRequest,
		"The %s header is missing. Begin with initialize, and send the session id of its response with every later request.", headerSession)
}
