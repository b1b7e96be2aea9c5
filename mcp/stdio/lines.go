package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"
)

// lines reads lines up to a length. A longer one is thrown away as it comes, so
// that no more than max bytes are ever kept.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, max int) *lines {
	return &lines{bufio.NewReaderSize(r, 16<<10), max}
}

// longLine is what is kept of a line that was too long: its size and its ends.
type longLine struct {
	size       int64
	head, tail []byte
}

const (
	// keptEnds is how much is kept of each end, in bytes.
	keptEnds = 512
	// endless is how many times longer than the limit a line may get.
	endless = 16
)

var errEndless = errors.New("a line does not end")

// next returns the next line, without its end, as bytes that the caller may
// keep; or what is kept of it when it was too long, whose size is then not 0. The
// last line needs no end.
func (l *lines) next() (line []byte, skipped longLine, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		switch {
		case skipped.size > 0:
			skipped.add(part)
			if skipped.size > int64(l.max)*endless {
				return nil, longLine{}, errEndless
			}
		case len(line)+len(part) > l.max:
			skipped.add(line)
			skipped.add(part)
			line = nil
		default:
			line = append(line, part...)
		}
		switch {
		case ended:
			return line, skipped, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(line) > 0 || skipped.size > 0):
			return line, skipped, nil
		default:
			return nil, longLine{}, err
		}
	}
}

func (l *longLine) add(part []byte) {
	l.size += int64(len(part))
	l.head = append(l.head, part[:min(len(part), keptEnds-len(l.head))]...)
	l.tail = append(l.tail, part[max(0, len(part)-keptEnds):]...)
	l.tail = append([]byte(nil), l.tail[max(0, len(l.tail)-keptEnds):]...)
}

// tail keeps the last max bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	max int
	b   []byte
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	if over := len(t.b) + len(p) - t.max; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
}

// String is what is kept, made fit to stand in an error: text, and no controls
// that a terminal would obey.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.b
	if len(b) == t.max { // the first line is most likely a part of one
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)-1 {
			b = b[i+1:]
		}
	}
	return strings.TrimSpace(printable(b))
}

func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(b), "\ufffd"))
}

// excerpt is the beginning of a child's output, for a log.
func excerpt(b []byte) string {
	if len(b) > 200 {
		return printable(b[:200]) + "..."
	}
	return printable(b)
}
