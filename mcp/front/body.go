package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/time/rate"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// A body of up to firstRead bytes is read as it comes, into memory of its own. A large one
// is read into pieces that are used again, at a pace, and made one when all has come: so
// what is refused in the end takes little of the processors, and never much at once. To
// find, clear, copy and collect fresh memory costs several times what reading into it does.
const (
	// firstRead is how much of a body is expected before any of it has come, in bytes; a
	// client that announces more gets more as it delivers.
	firstRead = 64 << 10
	// largePace is how fast all large bodies of the process are read together, in bytes a
	// second for each processor. Reading 1 MiB takes about a millisecond of one.
	largePace = 64 << 20
	// largeBurst is what is read at once when nothing was for a while, in bytes.
	largeBurst = 1 << 20
	// largeDebt is how far readers run ahead of that before they wait, in bytes: a processor
	// that wakes up for every piece has more to do with that than with reading.
	largeDebt = 512 << 10
	// largeKept is what is kept for the next large body, in bytes.
	largeKept = 16 << 20
)

var (
	spare     = pieces{most: largeKept / pieceSize}
	largeRate = rate.NewLimiter(rate.Limit(largePace*runtime.GOMAXPROCS(0)), largeBurst)
)

// paced waits until so many bytes more of a large body may be read.
func paced(ctx context.Context, bytes int) error {
	if now := time.Now(); largeRate.TokensAt(now) > -largeDebt { //nolint:forbidigo // the pace is the machine's
		largeRate.ReserveN(now, bytes)
		return nil
	}
	return largeRate.WaitN(ctx, bytes)
}

// body is what a POST has sent, and what it takes of the front's MaxBodies.
type body struct {
	f     *Front
	bytes []byte   // all of it, once it has come
	parts [][]byte // until then, what has come; all but the first are pieces
	took  int64    // of MaxBodies
}

// release gives back what the body took.
func (b *body) release() {
	b.giveBack()
	b.f.bodies.Add(-b.took)
	b.took = 0
}

// giveBack has no parts left.
func (b *body) giveBack() {
	for i, part := range b.parts {
		if i > 0 {
			spare.giveBack((*piece)(part[:pieceSize]))
		}
	}
	b.parts = nil
}

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
	first := int64(512)
	if r.ContentLength > 0 {
		first = min(r.ContentLength, firstRead) + 1 // one more, to see the end without growing
	}
	// Small bodies have room beside large ones.
	large := min(max(most, f.o.MaxBodies/4*3), f.o.MaxBodies)
	for {
		var no *Refusal
		switch n := len(b.parts); {
		case n == 0:
			no = b.begin(first)
		case n == 1 && cap(b.parts[0]) < firstRead:
			no = b.double()
		default:
			if err := f.pace(r.Context(), pieceSize); err != nil {
				return b, f.readFailed(err)
			}
			no = b.another(large)
		}
		if no != nil {
			return b, no
		}
		last := &b.parts[len(b.parts)-1]
		for len(*last) < cap(*last) {
			n, err := in.Read((*last)[len(*last):cap(*last)])
			*last = (*last)[:len(*last)+n]
			if err == io.EOF {
				b.join()
				return b, nil
			}
			if err != nil {
				return b, f.readFailed(err)
			}
		}
	}
}

// begin makes room for so many bytes.
func (b *body) begin(size int64) *Refusal {
	if no := b.charge(size, b.f.o.MaxBodies); no != nil {
		return no
	}
	b.parts = [][]byte{make([]byte, 0, size)}
	return nil
}

// double makes the one part twice as large.
func (b *body) double() *Refusal {
	was := b.parts[0]
	if no := b.charge(int64(cap(was)), b.f.o.MaxBodies); no != nil {
		return no
	}
	b.parts[0] = append(make([]byte, 0, 2*cap(was)), was...)
	return nil
}

// another makes room for a piece more, when all bodies are within most with it.
func (b *body) another(most int64) *Refusal {
	if no := b.charge(pieceSize, most); no != nil {
		return no
	}
	b.parts = append(b.parts, spare.take()[:0])
	return nil
}

// charge counts so many bytes more, when all bodies are within most with them.
func (b *body) charge(more, most int64) *Refusal {
	if f := b.f; f.bodies.Add(more) > most {
		f.bodies.Add(-more)
		return busy("", "The server holds as many request bodies as it may (%d bytes). Send the request again in a moment.", most)
	}
	b.took += more
	return nil
}

// join makes one of the parts.
func (b *body) join() {
	if b.bytes = b.parts[0]; len(b.parts) > 1 {
		b.bytes = bytes.Join(b.parts, nil)
	}
	b.giveBack()
	b.f.bodies.Add(int64(cap(b.bytes)) - b.took)
	b.took = int64(cap(b.bytes))
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
