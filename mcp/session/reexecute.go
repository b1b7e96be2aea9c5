package session

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Reexecute says which lost calls a session runs again instead of answering that
// they were lost: tools/call, of a tool whose server says in its annotations that a
// repetition does no harm. What else was lost is answered as lost.
//
// The session asks the runtime for its tools, once for each generation and when the
// list has changed. A call of a tool that may be repeated keeps its message in the
// ledger. When its execution is lost, to a reset or to the end of the runtime alone,
// it goes to the next generation, if the list that this one gives allows it still. It
// does so once, and the time of its admission stays what it was: a call that is lost
// again, or that has run into its ceiling, is answered.
type Reexecute string

// The modes.
const (
	// ReexecuteNever: nothing is run again, and nobody is asked for tools.
	ReexecuteNever Reexecute = "never"
	// ReexecuteReadOnly: tools that have readOnlyHint.
	ReexecuteReadOnly Reexecute = "read-only"
	// ReexecuteIdempotent: these, and tools that have idempotentHint.
	ReexecuteIdempotent Reexecute = "idempotent"
)

// allows judges what a tool's annotations say.
func (mode Reexecute) allows(h hints) bool {
	return mode != ReexecuteNever && h&readOnly != 0 || mode == ReexecuteIdempotent && h&idempotent != 0
}

// maxKept bounds a message that the ledger keeps, in bytes. A larger call is not run
// again.
const maxKept = 1 << 20

// repeat takes from a list of tools which may be repeated, and decides what waits for it.
func (s *state) repeat(tools map[string]hints, o *out) {
	repeatable := map[string]bool{}
	for name, h := range tools {
		if s.cfg.Reexecute.allows(h) {
			repeatable[name] = true
		}
	}
	switch {
	case maps.Equal(repeatable, s.repeatable):
	case len(repeatable) == 0:
		o.delete(keyRepeatable)
	default:
		o.put(keyRepeatable, encode(sortedKeys(repeatable)))
	}
	s.repeatable = repeatable
	for _, r := range slices.Clone(s.rt.queue) {
		if !s.mayRepeat(r.msg) {
			s.lose(r, r.why, o)
			continue
		}
		s.rt.queue = slices.DeleteFunc(s.rt.queue, func(q *owed) bool { return q == r })
		s.send(r, o)
		s.enter(r, o)
	}
}

// loadRepeatable reads what an incarnation before has learned.
func (s *state) loadRepeatable(value []byte) error {
	var names []string
	if err := json.Unmarshal(value, &names); err != nil {
		return err
	}
	s.repeatable = map[string]bool{}
	for _, name := range names {
		s.repeatable[name] = true
	}
	return nil
}

// mayRepeat tells whether a request may be run again if it is lost.
func (s *state) mayRepeat(m wire.Message) bool {
	if s.cfg.Reexecute == ReexecuteNever || len(m.Bytes()) > maxKept {
		return false
	}
	tool, plain := plainCall(m)
	return plain && s.repeatable[tool]
}

// again has a lost call wait for the next generation, where it may be run once more.
// False: it must be answered.
func (s *state) again(r *owed, why Loss, now time.Time, o *out) bool {
	if s.cfg == nil || s.cfg.Reexecute == ReexecuteNever || r.Kept == nil || r.Again || s.draining || why.Reason == actor.Shutdown.String() ||
		!now.Before(r.since.Add(s.cfg.RunningCeiling)) {
		return false
	}
	m, err := wire.Parse(r.Kept)
	if err != nil {
		s.logger().Error("a request that the ledger keeps does not parse", "error", err)
		return false
	}
	s.logger().Info("lost call is run again", "tool", r.Tool, "reason", why.Reason, "epoch", r.Epoch, "generation", r.Gen)
	delete(s.rt.rows, r.out)
	r.msg, r.Again, r.why, r.Epoch, r.Gen, r.out = m, true, why, s.epoch, 0, 0
	s.rt.queue = append(s.rt.queue, r)
	s.enter(r, o)
	o.again++
	return true
}
