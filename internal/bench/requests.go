package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// requests is a load on objects: each of some connections asks one object, and then the
// next one of its own; or all ask the same.
type requests struct {
	op          string // what stands at the end of the address
	want        string // what is answered; empty: the n-th count at the n-th time
	connections int
	objects     int
	prefix      string // of the objects' names
	warmup, d   time.Duration
	// once: each object is asked once, and the load ends with that.
	once bool
	// fresh: the objects are others in each round.
	fresh   bool
	counted int64 // what each object has answered last; 0: not known
}

// load is that of all connections that have something to ask.
func (r requests) load() *load {
	l := &load{warmup: r.warmup, d: r.d, once: r.once}
	for n := range r.connections {
		if a := r.asker(n); a.object < r.objects {
			l.talkers = append(l.talkers, a)
		}
	}
	return l
}

// asker is one connection's part of a load.
type asker struct {
	r       requests
	n       int     // of the connection
	object  int     // the one that is asked
	last    int64   // what one object for all has answered this connection
	counted []int64 // what each of its own objects has answered last
}

func (r requests) asker(n int) *asker {
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

func (a *asker) answer(r response) (done bool, err error) { return true, a.check(r.status, r.body) }

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
