// Command object is what the part "objects" of the benchmarks measures: a program of
// one class, whose objects do what those of the peer do.
package main

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/kalpahost/kalpa"
	"github.com/kalpahost/kalpa/actor"
)

type object struct {
	state *actor.State
	n     int64
}

// ServeHTTP answers /noop with ok; /mem by counting in memory; /incr by counting
// durably; /fill by storing a KiB, and /load with its length.
func (o *object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var v []byte
	var err error
	switch r.URL.Path {
	case "/noop":
		_, _ = io.WriteString(w, "ok")
		return
	case "/mem":
		o.n++
		v = strconv.AppendInt(nil, o.n, 10)
	case "/incr":
		if v, err = o.state.Get("n"); err != nil {
			break
		}
		n, _ := strconv.ParseInt(string(v), 10, 64) // 0 where there is none yet
		v = strconv.AppendInt(nil, n+1, 10)
		err = o.state.Put("n", v)
	case "/fill":
		v, err = []byte("filled"), o.state.Put("state", make([]byte, 1<<10))
	case "/load":
		if v, err = o.state.Get("state"); err == nil {
			v = strconv.AppendInt(nil, int64(len(v)), 10)
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(v)
}

func main() {
	kalpa.Register(actor.Define("o", func(_ context.Context, s *actor.State) (*object, error) { return &object{state: s}, nil }).Serve())
	kalpa.Main()
}
