package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// ask is a request of the runtime's to the client.
type ask struct {
	id    wire.ID // as the runtime wrote it
	token wire.ID // its progress token, as the runtime wrote it; empty for none
	gen   uint64
	row   *owed // the client's request that it belongs to; nil when that is not known
	// approval is its durable record where a person is asked; nil for other requests,
	// which a machine answers and which nobody misses once the runtime is gone.
	approval *approval
}

// approval is the record of a question to a person. It outlives the runtime that
// asked, so that an answer that comes too late, or twice, is told what became of it.
type approval struct {
	ID    wire.ID   `json:"id"` // as the client sees it
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Outcome is the action of the first answer (accept, decline, cancel), "error",
	// or one of the Outcome constants; empty while the question is open.
	Outcome string    `json:"outcome,omitempty"`
	Done    time.Time `json:"done,omitzero"`

	until time.Time // Until, on the clock of the incarnation, which does not jump
}

// Outcomes of a question that its person did not answer in time.
const (
	// OutcomeTimeout: the approval time-out passed, and the runtime was told "decline".
	OutcomeTimeout = "approval_timeout"
	// OutcomeGone: the runtime that asked is gone, or the call in which it did.
	OutcomeGone = "runtime_gone"
	// OutcomeUndelivered: no stream had room for the question, and the runtime was told.
	OutcomeUndelivered = "undelivered"
	// OutcomeUnknown: nobody waits for this answer, and nobody remembers the question.
	OutcomeUnknown = "unknown"
)

const prefixApproval = "ap/"

func (a *approval) key() string { return prefixApproval + string(a.ID) }

// maxAsks bounds the requests of a runtime's that wait for the client's answer.
const maxAsks = 1000

// onAsk passes a request of the runtime's on to the client, under an id that no
// other incarnation uses.
func (s *state) onAsk(m wire.Message, about wire.ID, now time.Time, o *out) {
	if len(s.asks) >= maxAsks {
		o.do(deliver{s.rt.gen, wire.NewError(m.ID(), wire.InternalError, fmt.Sprintf("%d requests wait for the client already", maxAsks), nil)})
		return
	}
	s.askNext++
	id := wire.StringID(fmt.Sprintf("kalpa-%d-%d", s.epoch, s.askNext))
	a := &ask{id: m.ID(), gen: s.rt.gen, row: s.asking(about)}
	set(&s.asks, id, a)
	if a.token = wire.ID(m.Param(wire.TokenOfRequest)); a.token != "" {
		m = m.WithParam(wire.TokenOfRequest, []byte(id))
	}
	if m.Is("elicitation/create") {
		at := now.UTC().Round(0)
		a.approval = &approval{ID: id, At: at, Until: at.Add(s.cfg.ApprovalTimeout), until: now.Add(s.cfg.ApprovalTimeout)}
		s.approvals = append(s.approvals, a.approval)
		o.put(a.approval.key(), encode(a.approval))
		if a.row != nil && a.row.paused.IsZero() {
			a.row.paused = now
		}
	}
	s.route(m.WithID(id), about, o)
}

// asking finds the client's request that a request of the runtime's belongs to:
// the one it names, or the only one under way.
func (s *state) asking(about wire.ID) *owed {
	if r := s.rt.rows[outID(about)]; r != nil {
		return r
	}
	if len(s.rt.rows) == 1 {
		// In any order: there is one.
		for _, r := range s.rt.rows {
			return r
		}
	}
	return nil
}

// onReply takes the client's answer to a request of the runtime's. It returns
// what became of the question, where that is known and not the answer itself.
func (s *state) onReply(m wire.Message, now time.Time, o *out) (outcome string) {
	a := s.asks[m.ID()]
	if a == nil {
		for _, ap := range s.approvals {
			if ap.ID == m.ID() {
				s.logger().Info("answer to a question that is settled", "id", string(m.ID()), "outcome", ap.Outcome)
				return ap.Outcome
			}
		}
		s.logger().Info("answer to a request that nobody waits for", "id", string(m.ID()))
		return OutcomeUnknown
	}
	s.activity(now, o)
	if a.approval != nil {
		action := gjson.GetBytes(m.Result(), "action").Str
		if m.IsError() || action != "accept" && action != "decline" && action != "cancel" {
			action = "error"
		}
		s.settleAsk(m.ID(), a, action, now, o)
		outcome = action
	} else {
		delete(s.asks, m.ID())
	}
	if a.gen == s.rt.gen {
		s.tell(m.WithID(a.id), o)
	}
	return outcome
}

// onProgress takes the client's report on a request of the runtime's; what is said
// of one that is settled, or of a runtime that is gone, reaches nobody.
func (s *state) onProgress(m wire.Message, o *out) {
	if a := s.asks[wire.ID(m.Param(wire.TokenOfProgress))]; a != nil && a.token != "" {
		s.tell(m.WithParam(wire.TokenOfProgress, []byte(a.token)), o)
	}
}

// settleAsk records the outcome of a question and lets its request run on.
func (s *state) settleAsk(id wire.ID, a *ask, outcome string, now time.Time, o *out) {
	delete(s.asks, id)
	if a.approval == nil {
		return
	}
	a.approval.Outcome, a.approval.Done = outcome, now.UTC().Round(0)
	o.put(a.approval.key(), encode(a.approval))
	if r := a.row; r != nil && !r.paused.IsZero() && !s.pausedBy(r) {
		r.waited += now.Sub(r.paused)
		r.paused = time.Time{}
	}
}

// pausedBy reports whether a request still waits for a person.
func (s *state) pausedBy(r *owed) bool {
	for _, a := range s.asks {
		if a.row == r && a.approval != nil {
			return true
		}
	}
	return false
}

// expireAsk answers a question that nobody answered: the runtime is told
// "decline" and why, and the client that it need not answer any more.
func (s *state) expireAsk(id wire.ID, now time.Time, o *out) {
	a := s.asks[id]
	s.settleAsk(id, a, OutcomeTimeout, now, o)
	s.tell(wire.NewResult(a.id, []byte(`{"action":"decline","_meta":{"reason":"`+OutcomeTimeout+`"}}`)), o)
	note := wire.NewNotification("notifications/cancelled", []byte(`{"requestId":`+string(id)+`,"reason":"`+OutcomeTimeout+`"}`))
	if a.row != nil && indexOf(a.row.stream.owes, a.row) >= 0 {
		s.append(s.carrier(a.row.stream), note, "", o)
		return
	}
	s.route(note, "", o)
}

// dropAsks settles what a runtime that is gone had asked.
func (s *state) dropAsks(now time.Time, o *out) {
	for _, id := range sortedKeys(s.asks) {
		s.settleAsk(id, s.asks[id], OutcomeGone, now, o)
	}
}

// forgetApprovals deletes the records whose answers nobody will repeat any more.
func (s *state) forgetApprovals(now time.Time, o *out) {
	for len(s.approvals) > 0 && !s.approvals[0].keptUntil(s.cfg).After(now) {
		o.delete(s.approvals[0].key())
		s.approvals = s.approvals[1:]
	}
}

// keptUntil is when a record may go: the ceiling of a paused session after the
// question was asked.
func (a *approval) keptUntil(cfg *Server) time.Time { return a.At.Add(cfg.PausedCeiling) }

func (s *state) loadApproval(value []byte) error {
	a := &approval{}
	if err := json.Unmarshal(value, a); err != nil {
		return err
	}
	s.approvals = append(s.approvals, a)
	return nil
}
