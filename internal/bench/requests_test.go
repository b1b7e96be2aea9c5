package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every answer of a load is looked at: what is not what the object must say is bad.
func TestWhatAnObjectMustAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		r       requests
		answers []string
		bad     int // the first that is
	}{
		"a no-op":                     {requests{op: "noop", want: "ok", connections: 1, objects: 1}, []string{"ok", "ok", "no"}, 2},
		"its own objects count":       {requests{op: "incr", connections: 2, objects: 4}, []string{"5", "1", "6", "2", "6"}, 4},
		"that has counted before":     {requests{op: "incr", connections: 1, objects: 1, counted: 7}, []string{"8", "9", "11"}, 2},
		"one counts for all":          {requests{op: "incr", connections: 2, objects: 1}, []string{"3", "9", "10", "10"}, 3},
		"what is no number is no sum": {requests{op: "incr", connections: 2, objects: 1}, []string{"3", "four"}, 1},
	} {
		a := c.r.asker(0)
		for i, answer := range c.answers {
			if err := a.check(200, []byte(answer)); (err != nil) != (i == c.bad) {
				t.Errorf("%s: answer %d: %v", name, i, err)
			}
			a.next()
		}
		if err := a.check(503, []byte(c.answers[0])); err == nil {
			t.Errorf("%s: a 503 is taken", name)
		}
	}
}

func TestEachObjectIsAskedOnce(t *testing.T) {
	r := requests{op: "mem", connections: 4, objects: 10, prefix: "x", once: true}
	asked := map[string]int{}
	for n := range r.connections {
		a := r.asker(n)
		for more := true; more; more = a.next() {
			asked[strings.Fields(string(a.request(nil, "host", "/")))[1]]++
		}
	}
	if len(asked) != r.objects || asked["/x9/mem"] != 1 {
		t.Errorf("asked: %v", asked)
	}
}

// Objects that are to be new are asked by names that no round before has used, and not
// before the load is measured.
func TestEachRoundHasNewObjects(t *testing.T) {
	counts := map[string]int{}
	var mu sync.Mutex
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		counts[r.URL.Path]++
		fmt.Fprint(w, counts[r.URL.Path])
	}))
	defer h.Close()
	r := requests{op: "incr", prefix: "o", connections: 2, objects: 4, d: 100 * time.Millisecond, fresh: true}
	asked := 0
	for round := range 2 {
		s, err := r.turn(&server{endpoint: h.URL + "/"}, round)
		if err != nil || s.bad > 0 {
			t.Fatalf("round %d: %v, %d are bad, the first: %v", round, err, s.bad, s.first)
		}
		asked += len(s.took)
	}
	answered := 0
	for _, n := range counts {
		answered += n
	}
	// What was under way at the end of a round is not counted.
	if most := asked + 2*r.connections; len(counts) != 2*r.objects || answered > most {
		t.Errorf("%d objects of 8, %d requests of which %d are counted", len(counts), answered, asked)
	}
}
