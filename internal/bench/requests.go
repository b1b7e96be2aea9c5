package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// requests is a load on objects: each of some connections asks one object, waits for
// the answer, and asks the next one of its own; or all ask the same.
type requests struct {
	op          string // what stands at the end of the address
	want        string // what is answered; empty: the n-th count at the n-th time
	connections int
	objects     int
	prefix      string // of the objects' names
	warmup, d   time.Duration
	// once: each object is asked once, and the load ends with that.
	once    bool
	counted int64 // what each object has answered last; 0: not known
}

// asker is one connection's part of a load.
type asker struct {
	r       *requests
	n       int // of the connection
	object  int // the one that is asked
	asked   time.Time
	last    int64   // what one object for all has answered this connection
	counted []int64 // what each of its own objects has answered last
}

func (r *requests) asker(n int) *asker {
	a := &asker{r: r, n: n, object: n}
	if r.objects < r.connections {
		a.object = 0
	}
	a.counted = make([]int64, r.objects/r.connections+1)
	return a
}

// request is the next one to be sent.
func (a *asker) request(to []byte, address, path string) []byte {
	to = append(append(append(to, "GET "...), path...), a.r.prefix...)
	to = append(append(strconv.AppendInt(to, int64(a.object), 10), '/'), a.r.op...)
	return append(append(append(to, " HTTP/1.1\r\nHost: "...), address...), "\r\n\r\n"...)
}

// next goes on to the connection's next object; false: it has asked all of them, and
// that was wanted.
func (a *asker) next() bool {
	if a.r.objects >= a.r.connections {
		if a.object += a.r.connections; a.object >= a.r.objects {
			a.object = a.n
			return !a.r.once
		}
		return true
	}
	return !a.r.once
}

// check says what is wrong with an answer. Where an object belongs to one connection,
// that knows what comes after its first answer; where one counts for all, each sees it
// grow.
func (a *asker) check(status int, body []byte) error {
	if status != 200 {
		return fmt.Errorf("status %d: %.200s", status, body)
	}
	if want := a.r.want; want != "" {
		if string(body) != want {
			return fmt.Errorf("%s answered %.200q, want %s", a.r.op, body, want)
		}
		return nil
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(body)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s answered %.200q", a.r.op, body)
	}
	if a.r.objects < a.r.connections {
		if v <= a.last {
			return fmt.Errorf("%s answered %d after %d", a.r.op, v, a.last)
		}
		a.last = v
		return nil
	}
	last := &a.counted[a.object/a.r.connections]
	if *last == 0 {
		*last = cmp.Or(a.r.counted, v-1)
	}
	if *last++; v != *last {
		return fmt.Errorf("%s answered %d, and has answered %d before", a.r.op, v, *last-1)
	}
	return nil
}

var (
	endOfHead   = []byte("\r\n\r\n")
	lengthField = []byte("content-length:")
)

// parse takes an answer from what has been read. whole false: some of it is yet to
// come.
func parse(in []byte) (status int, body []byte, whole bool, err error) {
	head, rest, found := bytes.Cut(in, endOfHead)
	if !found {
		return 0, nil, false, nil
	}
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, nil, false, fmt.Errorf("no answer: %.100q", head)
	}
	if status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return 0, nil, false, fmt.Errorf("no answer: %.100q", head)
	}
	for len(head) > 0 {
		var line []byte
		line, head, _ = bytes.Cut(head, endOfHead[:2])
		if len(line) < len(lengthField) || !bytes.EqualFold(line[:len(lengthField)], lengthField) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(lengthField):])))
		switch {
		case err != nil || n < 0 || n > maxBody:
			return 0, nil, false, fmt.Errorf("no length: %.100q", line)
		case len(rest) < n:
			return 0, nil, false, nil
		case len(rest) > n:
			return 0, nil, false, errors.New("there is more than the answer")
		}
		return status, rest, true, nil
	}
	return 0, nil, false, errors.New("an answer without a Content-Length")
}
