package sim

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// watch looks at the world from time to time, and keeps what is drawn later.
type watch struct {
	samples  []Sample
	answered []Latency
	marks    []Mark
	unsteady time.Time // the latest
	quiet    uint64    // alarms that had fired when the clients left
}

// MarkKind tells marks apart.
type MarkKind string

// The kinds of marks.
const (
	FaultMark  MarkKind = "fault"  // of the plan's
	StrikeMark MarkKind = "strike" // an armed one has struck
	ResetMark  MarkKind = "reset"  // of an isolate, or of an object that overran
	UpMark     MarkKind = "up"     // a host process has started
	DownMark   MarkKind = "down"   // and has ended
)

// Mark is something that went wrong, on the time axis.
type Mark struct {
	At   time.Duration
	Kind MarkKind
	What string
}

func (w *World) mark(kind MarkKind, what string) {
	w.watch.marks = append(w.watch.marks, Mark{w.s.now.Sub(w.start), kind, what})
}

// markFault marks a fault of the plan's.
func (w *World) markFault(f *Fault) {
	w.mark(FaultMark, f.Kind)
	switch f.Kind {
	case "strike", "reset-isolate": // told when it resets something
	case "reset-session":
		if id := w.sessionOf(f.N); id != "" {
			w.tales.tell("", id, AtSession, AtSession, true, "reset: %s", f.Cause)
		}
	default:
		w.tales.world("fault: " + f.Kind)
	}
}

// Sample is what the world holds at a moment.
type Sample struct {
	At        time.Duration
	Residents []int // by isolate
	Heap      []int64
}

// Latency is how long an answer took.
type Latency struct {
	At, Took time.Duration
	Lost     bool
}

// lookEvery is how often the world is looked at.
const lookEvery = time.Second

func (v *watch) resident(w *World) { v.sample(w) }

func (v *watch) sample(w *World) {
	if !w.record {
		return
	}
	s := Sample{At: w.s.now.Sub(w.start)}
	for i := range w.plan.Isolates {
		s.Residents = append(s.Residents, w.residents[i])
		var heap int64
		if w.host.up {
			heap = w.host.actors.Heap(i)
		}
		s.Heap = append(s.Heap, heap)
	}
	v.samples = append(v.samples, s)
}

// latency notes how long an answer took.
func (w *World) latency(r *request) {
	if w.record {
		w.watch.answered = append(w.watch.answered, Latency{r.done.Sub(w.start), r.done.Sub(r.sent), r.lost != nil})
	}
}

// graceOfLeases is how late an alarm may be moved to where it belongs.
const graceOfLeases = 5 * time.Second

// clientOf is the name of a session's client.
func (w *World) clientOf(session string) string {
	for _, c := range w.clients {
		if c.session == session {
			return c.name
		}
	}
	return "?"
}

// steady reports that the host has done what it does without delay for a while, by a
// clock that is right.
func (w *World) steady() bool {
	if w.clockMoved > 0 || w.host.p.paused || w.slowNet > 0 || w.stall > 0 || w.disk.blocked() {
		w.watch.unsteady = w.s.now
	}
	return w.s.now.Sub(w.watch.unsteady) > 2*graceOfLeases
}

// look checks what must hold at any moment.
func (w *World) look() {
	if w.over {
		return
	}
	w.s.After(lookEvery, w.look)
	w.watch.sample(w)
	h := w.host
	if !h.up {
		return
	}
	steady := w.steady()
	// I7: whatever is resident has an alarm that will look after it.
	for _, id := range sortedKeys(w.history.sessions) {
		s := w.history.sessions[id]
		if s.resident == nil || s.ended || h.closing || h.actors.Epoch(objectOf(id)) != s.resident.s.Epoch() {
			continue // or what is left of an incarnation that was reset, and ends by itself
		}
		epoch, a := w.disk.image.Head(objectOf(id))
		if epoch == 0 {
			continue // all that there is of it is on its way: a first runtime begins early
		}
		if a.At.IsZero() {
			w.history.violate("I7", "session %s has a runtime, and no alarm is armed", id)
		} else if rt := s.resident; rt.calls == 0 && !rt.ending && steady {
			// What is not used is looked after when the idle time-out has passed.
			used := rt.used
			if s.used.After(used) {
				used = s.used
			}
			late := a.At.Sub(used.Add(w.plan.Idle))
			switch {
			case w.s.now.Sub(used) < graceOfLeases || late < graceOfLeases:
				s.suspect = time.Time{}
			case !s.suspect.Equal(a.At): // it may be about to be closed
				s.suspect = a.At
			default:
				w.history.violate("I7", "session %s of client %s was last used at %v and its alarm is at %v, %v after its idle time-out", id, w.clientOf(id), used.Sub(w.start), a.At.Sub(w.start), late)
			}
		}
	}
	// I8: no alarm spins.
	fired := h.actors.Alarms().Fired
	if most := uint64(20 + 4*len(w.history.sessions)); fired > h.fired+most {
		w.history.violate("I8", "%d alarms have fired within %v for %d sessions", fired-h.fired, lookEvery, len(w.history.sessions))
	}
	h.fired = fired
	if steady {
		w.history.resting(h)
	}
	// I9: the gauge is the number of runtimes.
	var resident int
	for _, s := range w.history.sessions {
		resident += s.residents
	}
	if n := h.sessions.Residents(); !h.p.paused && n < int64(resident) {
		w.history.violate("I9", "%d runtimes are resident, and the gauge says %d", resident, n)
	}
	// I12: what is bounded is.
	if most := w.plan.Owed; most > 0 {
		for _, id := range sortedKeys(w.history.sessions) {
			if owed := len(w.disk.image.List(objectOf(id), storage.Range{Prefix: "q/"})); owed > most {
				w.history.violate("I12", "%d requests of session %s wait for their answers, and at most %d may", owed, id, most)
			}
		}
	}
	if st := h.front.Stats(); st.Bodies < 0 || st.Streams < 0 || st.Repeated > 0 {
		w.history.violate("I12", "the front's figures: %+v", st)
	}
}

// rest judges a world in which all has come to rest.
func (w *World) rest() {
	h := w.host
	if !h.up {
		w.history.violate("I3", "the host does not start any more")
		return
	}
	for _, id := range sortedKeys(w.history.sessions) {
		if s := w.history.sessions[id]; s.residents != 0 {
			w.history.violate("I7", "session %s still has a runtime, %v after the last request", id, w.s.now.Sub(w.start)-w.plan.Length)
			return
		}
	}
	if n := h.sessions.Residents(); n != 0 {
		w.history.violate("I9", "nothing is resident, and the gauge says %d", n)
	}
	w.history.retired()
	w.history.end()
}

// left judges a world whose clients have left: no session is in memory.
func (w *World) left() {
	// I8: what is left to expire wakes a session now and then, and nothing else does.
	if fired, most := w.host.actors.Alarms().Fired-w.watch.quiet, uint64(20+3*len(w.history.sessions)); fired > most {
		w.history.violate("I8", "%d alarms have fired since the last client left, of %d sessions", fired, len(w.history.sessions))
	}
}

// inMemory are the sessions that have an incarnation, with its epoch.
func (w *World) inMemory() map[string]uint64 {
	in := map[string]uint64{}
	for _, id := range sortedKeys(w.history.sessions) {
		if epoch := w.host.actors.Epoch(objectOf(id)); epoch != 0 {
			in[id] = epoch
		}
	}
	return in
}

// evicted judges that what was in memory a while ago is not any more. An alarm may
// have woken a session meanwhile: then it is in another incarnation.
func (w *World) evicted(before map[string]uint64) {
	now := w.inMemory()
	for _, id := range sortedKeys(before) {
		if now[id] == before[id] {
			w.history.violate("I12", "session %s is in memory, and nobody uses it", id)
			return
		}
	}
}

// gone judges a world in which every session's lifetime has passed.
func (w *World) gone() {
	w.history.promised()
	if left := w.disk.image.Objects("mcp-session", "", 10); len(left) > 0 {
		rows := w.disk.image
		var keys []string
		for _, e := range rows.List(left[0], allRows) {
			keys = append(keys, e.Key)
		}
		_, alarm := rows.Head(left[0])
		w.history.violate("I8", "%d sessions are still stored after their lifetime: %s has %q and its alarm at %v", len(left), left[0], keys, alarm.At)
	}
}

// logged looks at what the host logs: of the resets that no fault of the plan's is at
// the moment, its log alone tells.
func (w *World) logged(r slog.Record) {
	var kind MarkKind
	switch r.Message {
	case "chaos strikes":
		kind = StrikeMark
	case "isolate reset", "object overran and is reset":
		kind = ResetMark
	default:
		return
	}
	attrs := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.String(); return true })
	what := attrs["cause"]
	switch {
	case kind == StrikeMark:
		w.sometimes(struck(attrs["point"], attrs["cause"]))
		what = strings.TrimSpace(fmt.Sprintf("%s %s %s", attrs["point"], attrs["scope"], what))
	case attrs["isolate"] != "":
		what = fmt.Sprintf("isolate %s, %s", attrs["isolate"], what)
		w.tales.isolate(attrs["isolate"], "reset: "+what)
	}
	w.mark(kind, what)
	if id, ok := strings.CutPrefix(attrs["object"], session.Class+"/"); ok {
		w.tales.tell("", id, AtSession, AtSession, true, "%s: %s", kind, what)
	}
}
