package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kalpahost/kalpa/actor"
)

// counter is an object: one for each name, single-threaded, with storage of its own.
type counter struct{ state *actor.State }

var (
	counters = actor.Define("counter", func(_ context.Context, s *actor.State) (*counter, error) { return &counter{s}, nil })

	// add is how other objects, and the program itself, count.
	add = actor.Method(counters, "add", (*counter).add)
)

// total counts what all counters count.
const total = "total"

func (c *counter) add(_ context.Context, by int) (int, error) {
	v, err := c.state.Get("n")
	if err != nil {
		return 0, err
	}
	n := 0
	if v != nil {
		if n, err = strconv.Atoi(string(v)); err != nil {
			return 0, err
		}
	}
	if by == 0 {
		return n, nil
	}
	// Nobody else runs between Get and Put, and the result leaves when it is durable.
	return n + by, c.state.Put("n", strconv.AppendInt(nil, int64(n+by), 10))
}

// ServeHTTP answers GET with the count, and POST by counting: one, or ?by=N.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	by, err := 0, error(nil)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		by = 1
		if s := r.FormValue("by"); s != "" {
			by, err = strconv.Atoi(s)
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "GET reads, POST counts.", http.StatusMethodNotAllowed)
		return
	}
	if err != nil {
		http.Error(w, "by is not a number.", http.StatusBadRequest)
		return
	}
	n, err := c.add(r.Context(), by)
	if err == nil && by != 0 && c.state.ID().Name != total {
		// A call to another object, through a typed stub. While it waits others may use
		// this counter; it is sent again if the other is reset, and counts once.
		_, err = add.DoOnce(r.Context(), c.state.Stub(counters.ID(total)), by)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, n)
}
