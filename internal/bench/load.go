package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// load is what a turn asks of a server: each talker asks over a connection of its
// own, waits for the answer, and asks again.
type load struct {
	talkers   []talker
	warmup, d time.Duration
	// once: each talker ends by itself, and all that it does is measured.
	once bool
	// spread is the time over which the first requests are spread. What one takes is
	// measured from when it was due, and not from when the driver came to it.
	spread time.Duration
}

// talker says what one connection asks.
type talker interface {
	// request appends the next one to what is sent to an address.
	request(to []byte, address, path string) []byte
	// answer looks at what has come. done: with it something has been done that is
	// counted and timed; it may have taken more than one request.
	answer(r response) (done bool, err error)
	// next goes on; false: the talker has asked all that it wants to.
	next() bool
}

// sample is what one turn of a load has measured.
type sample struct {
	rate float64         // of what was done and good, a second
	took []time.Duration // sorted
	bad  int64
	// first is what was wrong with the first answer that was bad.
	first error
}

func (s *sample) fault(err error) {
	if s.bad++; s.first == nil {
		s.first = err
	}
}

// all runs a load of which nothing may be bad.
func (l *load) all(endpoint string) (sample, error) {
	s, err := l.run(endpoint)
	return s, errors.Join(err, s.first)
}

// response is one answer, whole. It lasts until the next one is read.
type response struct {
	status     int
	head, body []byte
}

var (
	endOfHead    = []byte("\r\n\r\n")
	endOfLine    = endOfHead[:2]
	lengthField  = []byte("content-length")
	codingField  = []byte("transfer-encoding")
	closingField = []byte("connection")
)

// field is the value of a header field, nil if there is none.
func (r response) field(name []byte) []byte {
	for head := r.head; len(head) > 0; {
		var line []byte
		line, head, _ = bytes.Cut(head, endOfLine)
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], name) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// parse takes an answer from what has been read. whole false: some of it is yet to
// come. A body in chunks is put together where it lies.
func parse(in []byte) (r response, whole bool, err error) {
	head, rest, found := bytes.Cut(in, endOfHead)
	if !found {
		return r, false, nil
	}
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return r, false, fmt.Errorf("no answer: %.100q", head)
	}
	if r.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return r, false, fmt.Errorf("no answer: %.100q", head)
	}
	r.head = head
	switch length := r.field(lengthField); {
	case r.status == 204: // it has no body
	case length != nil:
		n, err := strconv.Atoi(string(length))
		switch {
		case err != nil || n < 0 || n > maxBody:
			return r, false, fmt.Errorf("no length: %.100q", length)
		case len(rest) < n:
			return r, false, nil
		}
		r.body, rest = rest[:n], rest[n:]
	case bytes.EqualFold(r.field(codingField), []byte("chunked")):
		// Only a body that has ended is looked at: its last chunk is empty.
		if !bytes.HasSuffix(rest, []byte("0\r\n\r\n")) {
			return r, false, nil
		}
		if r.body, rest, whole, err = dechunk(rest); !whole || err != nil {
			return r, false, err
		}
	default:
		return r, false, errors.New("an answer with neither a Content-Length nor chunks")
	}
	if len(rest) > 0 {
		return r, false, errors.New("there is more than the answer")
	}
	return r, true, nil
}

// dechunk puts a body together. It is asked when the end of what has been read looks
// like the end of a body, which it may not be: then nothing is changed.
func dechunk(in []byte) (body, rest []byte, whole bool, err error) {
	end := 0
	for _, move := range []bool{false, true} {
		rest, end = in, 0
		for {
			size, after, found := bytes.Cut(rest, endOfLine)
			if !found {
				return nil, nil, false, nil
			}
			n, err := strconv.ParseUint(string(size), 16, 32)
			switch {
			case err != nil || n > maxBody:
				return nil, nil, false, fmt.Errorf("no chunk: %.100q", size)
			case uint64(len(after)) < n+2:
				return nil, nil, false, nil
			case !bytes.Equal(after[n:n+2], endOfLine):
				return nil, nil, false, errors.New("a chunk that does not end where it says")
			}
			rest = after[n+2:]
			if n == 0 {
				break
			}
			if move {
				copy(in[end:], after[:n])
			}
			end += int(n) //nolint:gosec // it is bounded above
		}
	}
	return in[:end], rest, true, nil
}
