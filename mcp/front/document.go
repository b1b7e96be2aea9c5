package front

import (
	"net/http"
	"strconv"
)

// reply answers with one JSON document. It returns when that has been handed to the
// system, or with why it could not be.
func (x *exchange) reply(document []byte) error {
	if err := x.r.Context().Err(); err != nil {
		return err // the system would take it, and nobody would read it
	}
	h := x.w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	h.Set(headerSession, x.id)
	x.w.WriteHeader(http.StatusOK)
	out := &sse{w: x.w, rc: http.NewResponseController(x.w), limit: x.f.o.WriteLimit, begun: true}
	if err := out.through(document); err != nil {
		return err
	}
	out.deadline()
	return out.rc.Flush()
}
