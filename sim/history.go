package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/storage"
)

// history is what happened that anybody outside could see, and the judge of it.
type history struct {
	w        *World
	requests []*request
	byN      map[string]*request
	sessions map[string]*seen
	crashes  []crash
	flushes  map[storage.ID]map[string]flush // by stream, of the host that runs
	streams  map[string][]*request           // of POSTs, as fronts have named them
	violated *Violation
	promises
}

// crash is the end of a host's process: up to when what it had written was durable, and
// when a read failed last.
type crash struct{ at, upTo, refused time.Time }

// Violation is an invariant that does not hold.
type Violation struct {
	Invariant string // "I1", or Panicked
	Text      string
	Step      uint64
	At        time.Duration // since the start of the world
}

// Panicked stands in an invariant's place where the real code has panicked.
const Panicked = "panic"

func (v *Violation) Error() string {
	return fmt.Sprintf("%s violated at step %d, %v: %s", v.Invariant, v.Step, v.At, v.Text)
}

// request is one JSON-RPC request of a model client's.
type request struct {
	n       string // which it is, in the whole world
	client  *client
	tool    string
	id      string // raw
	sent    time.Time
	taken   bool      // the head of a 200 has come: the front has accepted it
	refused bool      // it was refused, and has not run
	failed  bool      // the connection broke, and nothing is known
	given   bool      // the client has given up
	left    *Exchange // that the client has no event id of to resume it from

	answers int
	last    int // answers that were a front's last resort
	lost    *lostError
	value   string
	done    time.Time
	// runs is how often a runtime got it. stored: its row is on the disk, or about to be.
	runs   int
	stored bool
	// copies that something on the way has made of it. The host owes each an answer,
	// that may come on a GET: told are those that have.
	copies, told int
}

// lostError is what an error -32010 says.
type lostError struct {
	Reason             string
	Started, Retryable bool
}

// seen is a session as the world sees it.
type seen struct {
	epoch     uint64
	resident  *resident
	created   bool // its id has been told to a client
	ended     bool // a DELETE was sent
	last      time.Time
	residents int
	used      time.Time // a POST has arrived
	built     int       // runtimes, so far
	reaped    bool      // the last one has been closed in order
	lastOf    uint64    // its epoch
	suspect   time.Time // an alarm that seems too late
}

func newHistory(w *World) *history {
	return &history{w: w, byN: map[string]*request{}, sessions: map[string]*seen{}, flushes: map[storage.ID]map[string]flush{}, streams: map[string][]*request{}, promises: newPromises()}
}

func (h *history) session(id string) *seen {
	s := h.sessions[id]
	if s == nil {
		s = &seen{}
		h.sessions[id] = s
	}
	return s
}

// violate notes the first violation, and stops the world.
func (h *history) violate(invariant, format string, a ...any) {
	if h.violated == nil {
		h.violated = &Violation{invariant, fmt.Sprintf(format, a...), h.w.s.steps, h.w.s.now.Sub(h.w.start)}
		h.w.note("VIOLATION %v", h.violated)
		if !h.w.goOn {
			h.w.s.Stop()
		}
	}
}

func (h *history) add(r *request) {
	r.n = fmt.Sprintf("n%d", len(h.requests))
	h.requests = append(h.requests, r)
	h.byN[r.n] = r
}

// started is told by a runtime that it has got a request.
func (h *history) started(session, n string) {
	if r := h.byN[n]; r != nil {
		if r.runs++; r.runs > 1 && r.client.kind != Repeater && r.copies == 0 {
			h.w.sometimes("re-executed")
			if tool := r.tool; !h.w.plan.Reexecute || r.runs > 2 || !slices.Contains(repeatable, tool) {
				h.violate("I1", "request %s (%s) has run %d times", n, tool, r.runs)
			}
		}
		if !r.stored {
			h.w.sometimes("began early")
			if !h.w.plan.Early || !slices.Contains(repeatable, r.tool) {
				h.violate("I2", "request %s (%s) has begun, and is not stored", n, r.tool)
			}
		}
		if r.lost != nil && !r.lost.Started && r.client.kind != Repeater && r.copies == 0 {
			h.violate("I1", "request %s was lost with started: false, and the runtime got it after that", n)
		}
		if r.client.session != "" && r.client.session != session {
			h.violate("I1", "request %s of session %s reached the runtime of session %s", n, r.client.session, session)
		}
	}
}

// answered is told by a client of a response to a request. lastResort: the front
// wrote it without the session.
func (h *history) answered(r *request, value string, lost *lostError, lastResort bool) {
	if r.answers > 0 && r.copies > r.told {
		r.told++ // the one before was the copy's
		return
	}
	r.answers++
	if lastResort {
		r.last++
		h.w.sometimes("last resort")
	}
	switch {
	case r.answers-r.last > 1, r.answers > 1 && r.last == 0:
		h.violate("I1", "request %s (%s, id %s) was answered %d times", r.n, r.tool, r.id, r.answers)
	case lost != nil && !lost.Started && r.runs > 0 && r.client.kind != Repeater && r.copies == 0: // of two with one id, which?
		h.violate("I1", "request %s was lost with started: false, and a runtime had got it", r.n)
	}
	if lost != nil {
		h.w.sometimes("lost: " + lost.Reason)
	} else {
		r.value = value
	}
	// A last resort may be read behind what the session has said in its own words: it is
	// those that a host may tell again.
	if !lastResort || r.answers == 1 {
		r.done = h.w.s.now
		if lost != nil {
			r.lost = lost
		}
	}
	h.w.latency(r)
}

// unconfirmed is how long a host may know only in memory that an answer has been
// flushed: one that is killed within it may answer again on a GET.
const unconfirmed = 2 * time.Second

// maxTurn is how long a turn may go on.
const maxTurn = 35 * time.Second

// copied notes that a copy of a request is sent.
func (h *history) copied(body []byte) {
	if r := h.byN[gjson.GetBytes(body, "params.arguments.n").String()]; r != nil {
		r.copies++
	}
}

// ofACopy reports that an answer to an id may be that of a copy of a request, and takes
// it as such.
func (h *history) ofACopy(c *client, id string) bool {
	for _, r := range h.requests {
		if r.client == c && r.id == id && r.copies > r.told {
			r.told++
			h.w.sometimes("a copy was answered on a GET")
			return true
		}
	}
	return false
}

// toldAgain reports that an answer may be one more to a request that has been answered,
// by somebody who may not have known that for good: a front as its last resort, after
// which the session answers in its own words, once; or a host that ended before it could
// note it, after which the next one says the same. lost is nil for a result.
func (h *history) toldAgain(r *request, lost *lostError) bool {
	if r.last > 0 && r.answers == r.last {
		r.answers++
		r.lost, r.done = lost, h.w.s.now // a host that ends now tells that again
		h.w.sometimes("told again after a last resort")
		return true
	}
	if lost == nil && r.lost != nil && r.last > 0 && r.answers > r.last {
		// The error that was taken for its second answer was its twin's: errors don't say
		// whose they are.
		for o := range h.twins(r) {
			if o.last > 0 && o.answers == o.last {
				o.answers++
				o.lost, o.done = r.lost, r.done
				r.lost, r.done = nil, h.w.s.now
				return true
			}
		}
	}
	return h.notNoted(r, lost) || h.twinsAgain(r, lost)
}

// twins are the client's other requests with the same id.
func (h *history) twins(r *request) iter.Seq[*request] {
	return func(yield func(*request) bool) {
		for _, o := range h.requests {
			if o != r && o.client == r.client && o.id == r.id && !yield(o) {
				return
			}
		}
	}
}

// twinsAgain reports that an error may be the answer to r, since what was taken for that
// said what its twin had been told, and may have been told the twin again.
func (h *history) twinsAgain(r *request, lost *lostError) bool {
	if lost == nil || r.lost == nil || r.answers != 1 {
		return false
	}
	for o := range h.twins(r) {
		if h.notNoted(o, r.lost) {
			r.lost, r.done = lost, h.w.s.now
			return true
		}
	}
	return false
}

// notNoted reports that a host may tell an answer again that has come: the one before it
// ended before it could note that.
func (h *history) notNoted(r *request, lost *lostError) bool {
	if r.answers == 0 || (lost == nil) != (r.lost == nil) || lost != nil && *lost != *r.lost {
		return false
	}
	within := unconfirmed
	if slices.ContainsFunc(h.requests, func(o *request) bool { return o.client == r.client && o.tool == "spin" }) {
		within = maxTurn // while a turn goes on, nothing is confirmed
	}
	if slices.ContainsFunc(h.crashes, func(c crash) bool {
		return c.at.Add(within).After(r.done) && (r.done.Add(within).After(c.upTo) || c.refused.After(r.done))
	}) {
		h.w.sometimes("told again by a host that was killed")
		return true
	}
	return false
}

// gone reports that the answer was sent, and was on its way when the client's connection
// broke, of which it can resume nothing: then nobody can tell.
func (r *request) gone() bool {
	return r.left != nil && bytes.Contains(r.left.lost, []byte(`"id":`+r.id+`,`))
}

// end judges what can be judged only when all has come to rest.
func (h *history) end() {
	for _, r := range h.requests {
		c := r.client
		if r.taken && r.answers == 0 && !r.given && !r.gone() && c.kind.resumes() && c.session != "" && !h.session(c.session).ended {
			h.violate("I1", "request %s (%s, id %s, sent at %v) of client %s was accepted and never answered", r.n, r.tool, r.id, r.sent.Sub(h.w.start), c.name)
			return
		}
		if r.refused && r.runs > 0 && r.copies == 0 {
			h.violate("I1", "request %s was refused, and a runtime got it", r.n)
			return
		}
	}
	h.counters()
}

// counters judges what sessions have counted.
func (h *history) counters() {
	bySession := map[string][]increment{}
	for _, r := range h.requests {
		if r.tool != "incr" || r.client.session == "" {
			continue
		}
		op := increment{sent: r.sent.Sub(h.w.start)}
		for range r.copies {
			bySession[r.client.session] = append(bySession[r.client.session], op)
		}
		if r.refused || r.lost != nil && !r.lost.Started && r.client.kind != Repeater {
			continue
		}
		if r.value != "" {
			op.answer, _ = strconv.Atoi(r.value)
			op.done = r.done.Sub(h.w.start)
		} else if r.runs == 0 {
			continue // nobody has run it
		}
		bySession[r.client.session] = append(bySession[r.client.session], op)
	}
	for _, id := range sortedKeys(bySession) {
		if !linearizable(bySession[id]) {
			h.violate("I3", "the counter of session %s is not linearizable: %v", id, bySession[id])
			return
		}
	}
}

func sortedIDs[V any](m map[storage.ID]V) []storage.ID {
	ids := slices.Collect(maps.Keys(m))
	slices.SortFunc(ids, func(a, b storage.ID) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name)) })
	return ids
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
