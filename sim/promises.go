package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// promises are what objects that are no sessions have acknowledged, and what became of
// it.
type promises struct {
	calls     int
	reminders map[string]*reminder
	all       []*reminder // in order
	rings     map[storage.ID][]*reminder
	epochs    map[storage.ID]uint64
	added     map[storage.ID][]increment
	counts    map[storage.ID]int  // the highest that was acknowledged
	awake     map[storage.ID]bool // a keep-alive was never released
	clerks    map[storage.ID]*clerk
}

func newPromises() promises {
	return promises{
		reminders: map[string]*reminder{}, rings: map[storage.ID][]*reminder{}, epochs: map[storage.ID]uint64{},
		added: map[storage.ID][]increment{}, counts: map[storage.ID]int{}, awake: map[storage.ID]bool{}, clerks: map[storage.ID]*clerk{},
	}
}

func (h *history) remind(n string, id storage.ID) *reminder {
	r := &reminder{n: n, id: id}
	h.reminders[n] = r
	h.all = append(h.all, r)
	return r
}

// began is told of each incarnation of an object.
func (h *history) began(id storage.ID, epoch uint64) {
	if was := h.epochs[id]; epoch <= was {
		h.violate("I4", "an incarnation of %s has epoch %d, after one with epoch %d", id, epoch, was)
	}
	h.epochs[id] = epoch
}

// written is told of each batch that is about to land on the disk.
func (h *history) written(b *storage.Write) {
	if newest := h.epochs[b.ID]; b.Epoch < newest {
		h.violate("I4", "a commit of %s lands with epoch %d, and the incarnation with epoch %d has begun", b.ID, b.Epoch, newest)
	}
	h.moved(b)
	h.admitted(b)
}

// fired is told that a reminder is run.
func (h *history) fired(n string) {
	r := h.reminders[n]
	if r == nil {
		return
	}
	r.fired++
	h.w.sometimes("an alarm of " + r.id.Class)
	if r.fired > 1 {
		h.w.sometimes("an alarm twice")
	}
	if now := h.w.now(); now+h.w.clockMoved < r.at {
		h.violate("I6", "the alarm of %s fires %v before its time", r.id, r.at-now)
	}
	if now := h.w.now(); now > r.at+time.Second {
		h.w.sometimes("an alarm late")
	}
}

// add1 notes an increment.
func (h *history) add1(on *host, id storage.ID, do func() (int, error)) {
	ops := h.added[id]
	at := len(ops)
	h.added[id] = append(ops, increment{sent: h.w.now()})
	n, err := do() // the process may be gone before it returns
	if err != nil {
		return
	}
	op := &h.added[id][at]
	op.answer, op.done = n, h.w.now()
	if !h.w.disk.holds(id, "count", strconv.Itoa(n)) {
		h.violate("I2", "%s has answered %d, which is not durable", id, n)
	}
	h.counts[id] = max(h.counts[id], n)
}

// kept judges what a host that starts finds on the disk.
func (h *history) kept() {
	for _, id := range sortedIDs(h.counts) {
		n := h.counts[id]
		if got, _ := strconv.Atoi(string(h.w.disk.image.Get(id, "count"))); got < n {
			h.violate("I3", "%s has answered %d, and after a restart %d is stored", id, n, got)
			return
		}
	}
	// A bell writes what it is to ring for together with its alarm.
	for _, id := range sortedIDs(h.rings) {
		last := string(h.w.disk.image.Get(id, "last"))
		_, a := h.w.disk.image.Head(id)
		if r := h.reminders[last]; r != nil && r.set && r.fired == 0 && a.At.IsZero() {
			h.violate("I6", "%s is stored to ring for %s, and after a restart no alarm is", id, last)
			return
		}
	}
}

// resting looks for alarms of clerks that have nothing left to do.
func (h *history) resting(on *host) {
	for _, id := range sortedIDs(h.clerks) {
		c := h.clerks[id]
		if c.h != on || c.holds > 0 || c.shut || c.open > 0 || h.w.s.now.Sub(c.used) < graceOfLeases || on.actors.Epoch(id) != c.state.Epoch() ||
			slices.ContainsFunc(h.all, func(r *reminder) bool { return r.id == id && r.fired == 0 }) {
			continue
		}
		if _, a := h.w.disk.image.Head(id); !a.At.IsZero() {
			h.violate("I8", "%s has had nothing left to do for %v, and its alarm is armed, for %v", id, h.w.s.now.Sub(c.used), a.At.Sub(h.w.start))
		}
	}
}

// promised judges the objects when all has come to rest.
func (h *history) promised() {
	for _, r := range h.all {
		if r.acked && !r.void && r.fired == 0 {
			h.violate("I6", "the alarm of %s (%s) was acknowledged, due at %v, and never fired", r.id, r.n, r.at)
			return
		}
	}
	for _, id := range sortedIDs(h.epochs) {
		if _, a := h.w.disk.image.Head(id); !a.At.IsZero() && id.Class != "mcp-session" && !h.awake[id] {
			h.violate("I8", "%s has nothing left to do, and its alarm is armed, for %v", id, a.At)
			return
		}
	}
	for _, id := range sortedIDs(h.added) {
		if !linearizable(h.added[id]) {
			h.violate("I5", "the counter of %s is not linearizable", id)
			return
		}
	}
}
