package front

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// sse writes the events of one response. Small pieces are gathered; what is large
// goes to the connection as it is. Every write has WriteLimit for each 64 KiB, so
// that a client which does not read can't hold the writer for ever.
type sse struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
	buf   *[]byte // gathered and not yet written; from buffers
	begun bool    // the head has been written
}

const (
	gatherUpTo  = 32 << 10 // beyond it, what is gathered is written
	writeAtOnce = 64 << 10
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// newSSE prepares the response. Nothing is sent before flush.
func newSSE(w http.ResponseWriter, session string, limit time.Duration) *sse {
	h := w.Header()
	h.Set("Content-Type", typeStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // else nginx gathers events
	h.Set(headerSession, session)
	return &sse{w: w, rc: http.NewResponseController(w), limit: limit, buf: buffers.Get().(*[]byte)}
}

// close gives up what the writer holds. It does not end the response.
func (s *sse) close() {
	if cap(*s.buf) <= 2*gatherUpTo {
		*s.buf = (*s.buf)[:0]
		buffers.Put(s.buf)
	}
	s.buf = nil
}

// event writes one event. Data is on one line, as [wire.Message] keeps it; without
// data the event only tells the client its id.
func (s *sse) event(id string, data []byte) error {
	b := *s.buf
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if len(data) > 0 {
		b = append(b, "event: message\n"...)
	}
	b = append(b, "data: "...)
	if len(data) > gatherUpTo {
		*s.buf = b
		if err := s.write(); err != nil {
			return err
		}
		if err := s.through(data); err != nil {
			return err
		}
		b = *s.buf
	} else {
		b = append(b, data...)
	}
	*s.buf = append(b, "\n\n"...)
	if len(*s.buf) > gatherUpTo {
		return s.write()
	}
	return nil
}

// comment writes what clients skip.
func (s *sse) comment(text string) {
	*s.buf = append(append(append(*s.buf, ": "...), text...), "\n\n"...)
}

// retry tells the client how long to wait before it resumes the stream.
func (s *sse) retry(d time.Duration) {
	*s.buf = strconv.AppendInt(append(*s.buf, "retry: "...), max(d.Milliseconds(), 1), 10)
	*s.buf = append(*s.buf, "\n\n"...)
}

// whole says that nothing will be written after what is gathered. If that is all there
// ever was, the response has a length and goes out in one piece.
func (s *sse) whole() {
	if !s.begun {
		s.w.Header().Set("Content-Length", strconv.Itoa(len(*s.buf)))
	}
}

// flush sends all that has been written, the headers too.
func (s *sse) flush() error {
	if err := s.write(); err != nil {
		return err
	}
	s.deadline()
	return s.rc.Flush()
}

func (s *sse) write() error {
	err := s.through(*s.buf)
	*s.buf = (*s.buf)[:0]
	return err
}

func (s *sse) through(b []byte) error {
	if !s.begun {
		s.begun = true
		s.w.WriteHeader(http.StatusOK)
	}
	for len(b) > 0 {
		n := min(len(b), writeAtOnce)
		s.deadline()
		if _, err := s.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// deadline gives the next write its time. The server takes it away again when the
// response is over.
func (s *sse) deadline() {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.limit)) //nolint:forbidigo // the deadline of a connection is by the system's clock; recorders have none
}
