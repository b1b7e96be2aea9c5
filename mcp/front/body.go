package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// firstRead is how much of a body is expected before any of it has come; a client
// that announces more gets more as it delivers.
const firstRead = 64 << 10

// body is what a POST has sent, and what it takes of the front's MaxBodies.
type body struct {
	f     *Front
	bytes []byte
}

// release gives back what the body took.
func (b *body) release() { b.f.bodies.Add(-int64(cap(b.bytes))) }

// bodyBy gives the body of a request its time. It holds for a body that nobody
// wants as well: the server reads what is left of it before it answers. When all
// is read, the server takes the time away again, so that a stream has its own.
func (f *Front) bodyBy(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.o.BodyLimit)) //nolint:forbidigo // the deadline of a connection is by the system's clock; recorders have none
	}
}

// readBody reads a body within MaxBody, MaxBodies and BodyLimit. The caller
// releases it when it is no longer held, also after a refusal.
func (f *Front) readBody(w http.ResponseWriter, r *http.Request) (*body, *Refusal) {
	b := &body{f: f}
	most := f.limits.Load().MaxBody
	if r.ContentLength > most {
		return b, tooLarge(most)
	}
	in := http.MaxBytesReader(w, r.Body, most)
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength, firstRead) + 1 // one more, to see the end without growing
	}
	for {
		if no := b.grow(size); no != nil {
			return b, no
		}
		for len(b.bytes) < cap(b.bytes) {
			n, err := in.Read(b.bytes[len(b.bytes):cap(b.bytes)])
			b.bytes = b.bytes[:len(b.bytes)+n]
			if err == io.EOF {
				return b, nil
			}
			if err != nil {
				return b, f.readFailed(err)
			}
		}
		size = 2 * int64(cap(b.bytes))
	}
}

// grow makes room for size bytes and charges for them.
func (b *body) grow(size int64) *Refusal {
	if f := b.f; f.bodies.Add(size-int64(cap(b.bytes))) > f.o.MaxBodies {
		f.bodies.Add(int64(cap(b.bytes)) - size)
		return busy("", "The server holds as many request bodies as it may (%d bytes). Send the request again in a moment.", f.o.MaxBodies)
	}
	grown := make([]byte, len(b.bytes), size)
	copy(grown, b.bytes)
	b.bytes = grown
	return nil
}

func (f *Front) readFailed(err error) *Refusal {
	var tooMuch *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &tooMuch):
		return tooLarge(tooMuch.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "", wire.InvalidRequest, "The body did not come within %v. Send it faster.", f.o.BodyLimit)
	default:
		return refuse(http.StatusBadRequest, "", wire.ParseError, "The body could not be read: %v.", err)
	}
}

func tooLarge(most int64) *Refusal {
	return refuse(http.StatusRequestEntityTooLarge, "", wire.InvalidRequest, "The body is larger than %d bytes. Send less at once.", most)
}

// noBody refuses a body where there should be none, but for a few bytes that say
// nothing: a stream must not begin while there is more to read.
func (f *Front) noBody(r *http.Request) *Refusal {
	if r.ContentLength == 0 {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r.Body, 1<<10))
	if err != nil {
		return f.readFailed(err)
	}
	if n == 1<<10 {
		return refuse(http.StatusRequestEntityTooLarge, "", wire.InvalidRequest, "A %s has no body. Send messages with POST.", r.Method)
	}
	return nil
}
