package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// onPost admits the messages of a POST.
func (s *state) onPost(p *Post, now time.Time, o *out) {
	var first wire.ID
	for _, m := range p.Messages {
		if m.Kind() == wire.Request {
			first = m.ID()
			break
		}
	}
	if p.Create {
		if s.meta != nil {
			refuse(p.Socket, Refuse(409, first, wire.InvalidRequest, "the session exists already"), o)
			return
		}
		if s.draining {
			refuse(p.Socket, Refuse(503, first, wire.InternalError, "the host is shutting down; send initialize again in a moment"), o)
			return
		}
		s.create(p, now, o)
	}
	if r := s.admissible(p, first); r != nil {
		if p.Create {
			s.uncreate(o)
		}
		refuse(p.Socket, r, o)
		return
	}
	if first == "" {
		var opening Opening
		for _, m := range p.Messages {
			if outcome := s.onNote(m, now, o); outcome != "" {
				opening.Outcome = outcome
			}
		}
		conclude(p.Socket, opening, o)
		return
	}
	st := &stream{id: postStream(p.Stream), post: true, born: true}
	st.prime = s.version(p) >= priming
	set(&s.streams, st.id, st)
	s.bind(st, p.Socket)
	s.touch(st)
	// All rows first: the stream must not end while a part of the POST is still to come.
	for i, m := range p.Messages {
		if m.Kind() != wire.Request {
			continue
		}
		r := &owed{
			ID: m.ID(), Method: m.Method(), Token: wire.ID(m.Param(wire.TokenOfRequest)), Epoch: s.epoch, At: now.UTC().Round(0), since: now,
			stream: st, ord: i, msg: m, trace: p.Trace, size: int64(len(m.Bytes())),
		}
		if m.Is("tools/call") {
			r.Tool = m.ParamString("name")
			r.Tool = strings.ToValidUTF8(r.Tool[:min(len(r.Tool), maxTool)], "")
		}
		st.owes = append(st.owes, r)
		s.live = append(s.live, r)
		s.liveBytes += r.size
	}
	for _, p := range [...]actor.Point{actor.BeforeCommit, actor.AfterCommit} {
		for _, r := range st.owes {
			o.do(reached{p, r})
		}
	}
	o.do(openSocket{p.Socket, Opening{Streaming: true}})
	if st.prime {
		s.prime(st, o)
	}
	for _, m := range p.Messages {
		if m.Kind() != wire.Request {
			s.onNote(m, now, o)
		}
	}
	for _, r := range slices.Clone(st.owes) {
		s.admit(r, p.Create, now, o)
	}
}

// maxLabel bounds what a ledger row repeats of a request, each in bytes: id, method
// and progress token. It keeps the row far below what storage takes in one value.
const maxLabel = 64 << 10

// maxTool bounds what a ledger row keeps of a tool's name, for what is said of it.
const maxTool = 256

// admissible decides whether the session can take a POST at all.
func (s *state) admissible(p *Post, id wire.ID) *Refusal {
	if r := s.check(p.Caller, id); r != nil {
		return r
	}
	requests, size, notes := 0, int64(0), int64(0)
	for _, m := range p.Messages {
		if m.Kind() != wire.Request {
			notes += weight(m)
			continue
		}
		requests++
		size += int64(len(m.Bytes()))
		if n := max(len(m.ID()), len(m.Method()), len(m.Param(wire.TokenOfRequest))); n > maxLabel {
			return Refuse(400, "", wire.InvalidRequest, "an id, a method or a progress token has %d bytes; the limit is %d", n, maxLabel)
		}
	}
	switch {
	case p.Batch && s.meta.Version != batching:
		return Refuse(400, id, wire.InvalidRequest, "batches exist only in protocol revision %s, and this session speaks %s", batching, s.meta.Version)
	case requests > 0 && s.draining:
		return Refuse(503, id, wire.InternalError, "the host is shutting down; send the request again in a moment")
	case requests > 0 && len(s.live)+requests > s.cfg.MaxOwed:
		return beyond("max_owed", 429, id, "%d requests of this session wait for an answer already; the limit is %d", len(s.live), s.cfg.MaxOwed)
	case requests > 0 && len(s.live) > 0 && s.liveBytes+size > s.cfg.MaxOwedBytes:
		return beyond("max_owed_bytes", 429, id, "%d bytes of requests of this session wait for an answer already; the limit is %d", s.liveBytes, s.cfg.MaxOwedBytes)
	case s.rt.phase == building && s.rt.noted > 0 && s.rt.noted+notes > s.cfg.MaxOwedBytes:
		return beyond("max_owed_bytes", 429, id, "%d bytes of notifications and replies wait for this session's server to start already; the limit is %d", s.rt.noted, s.cfg.MaxOwedBytes)
	case requests > 0 && s.logBytes > s.cfg.MaxLog:
		return beyond("max_log", 507, id, "%d bytes of answers wait for this session's client, and the limit is %d: resume the streams that were cut, or end the session", s.logBytes, s.cfg.MaxLog)
	case s.streams[postStream(p.Stream)] != nil:
		return Refuse(409, id, wire.InvalidRequest, "the stream exists already")
	}
	if requests == 0 {
		return nil
	}
	// Last: what is taken here is given back when the step is over, should it not be used.
	if there, ok := s.share.take(s.meta.Server, requests, s.cfg.MaxRequests); !ok {
		return beyond("max_requests", 503, id, "%d requests wait for an answer from the server %q, of all its sessions, and it may have %d; this one has not been executed: send it again in a moment", there, s.meta.Server, s.cfg.MaxRequests)
	}
	return nil
}

// create makes the session of an initialize.
func (s *state) create(p *Post, now time.Time, o *out) {
	s.meta = &meta{Server: p.Caller.Server, Principal: p.Caller.Principal, Created: now.UTC().Round(0)}
	s.cfg = s.configured(p.Caller.Server)
	init := p.Messages[0]
	if !Known(init.ParamString("protocolVersion")) {
		// A newer revision than the host's: offer the newest that it speaks.
		init = init.WithParam("protocolVersion", []byte(`"`+latest+`"`))
		p.Messages = append([]wire.Message{init}, p.Messages[1:]...)
	}
	s.initParams = s.said.same(init.Params())
	o.put(keyMeta, encode(s.meta))
	o.put(keyInitialize, s.initParams)
	o.do(happened{SessionOpened, ""})
}

// uncreate takes back what create has done in this step: the initialize is refused, and
// nobody would ever use the session.
func (s *state) uncreate(o *out) {
	*o = out{}
	o.do(departed{s.meta.Server, s.meta.Principal.Subject})
	s.meta, s.initParams = nil, nil
}

// version is what the client of a POST understands: what was agreed on, or what
// it asks for.
func (s *state) version(p *Post) string {
	if p.Create {
		return p.Messages[0].ParamString("protocolVersion")
	}
	return s.meta.Version
}

// maxSubs bounds the subscriptions of a session, each of which a rebuilt runtime is
// told again.
const maxSubs = 1000

// admit stores a request's row and passes it on, or answers it here.
func (s *state) admit(r *owed, creating bool, now time.Time, o *out) {
	switch {
	case r.Method == "ping":
		s.discharge(r, wire.NewResult(r.ID, []byte("{}")), o)
		return
	case r.Method == "initialize" && !creating:
		s.discharge(r, wire.NewError(r.ID, wire.InvalidRequest, "the session is initialized already", nil), o)
		return
	case r.Method == "resources/subscribe" && len(s.subs) >= maxSubs:
		s.discharge(r, wire.NewError(r.ID, wire.InvalidRequest, fmt.Sprintf("the session has %d subscriptions, which is the limit; unsubscribe from some", maxSubs), nil), o)
		return
	case r.Method == "server/discover":
		s.discharge(r, wire.NewError(r.ID, wire.MethodNotFound, "server/discover is not a method of this session's protocol revision", nil), o)
		return
	}
	s.activity(now, o)
	if s.mayRepeat(r.msg) {
		r.Kept = r.msg.Bytes()
	}
	if s.rt.phase == ready {
		s.send(r, o)
	} else {
		s.rt.queue = append(s.rt.queue, r)
		if s.rt.phase == none {
			s.build(now, o)
		}
	}
	if r.Method == "initialize" {
		// Its row says at once that the runtime may have it, and so is not written
		// again: who has lost it initializes anew in any case.
		r.Gen, r.Started = s.rt.gen, true
		s.enter(r, o)
		r.Started = false
		return
	}
	s.enter(r, o)
}

// onNote handles what needs no answer: a notification or a response. It returns
// the outcome of the question that a response answers.
func (s *state) onNote(m wire.Message, now time.Time, o *out) (outcome string) {
	if m.Kind() == wire.Response {
		return s.onReply(m, now, o)
	}
	switch m.Method() {
	case "notifications/initialized":
		s.initialized = s.said.same(m.Bytes())
		o.put(keyInitialized, s.initialized)
		if s.rt.phase != ready {
			return "" // the handshake will tell it
		}
	case "notifications/cancelled":
		s.cancel(m, o)
		return ""
	case "notifications/progress":
		s.onProgress(m, o)
		return ""
	}
	s.tell(m, o)
	if m.Is("notifications/initialized") {
		s.inquire(o)
	}
	return ""
}

// tell passes a note on to the runtime; without a runtime nobody needs it.
func (s *state) tell(m wire.Message, o *out) {
	switch s.rt.phase {
	case ready:
		o.do(deliver{s.rt.gen, m})
	case building:
		s.rt.waiting = append(s.rt.waiting, m)
		s.rt.noted += weight(m)
	case none, closing:
	}
}

// cancel takes a request back: the row goes, the front is released without an
// answer, and the runtime is told. Which request is meant must be clear.
func (s *state) cancel(m wire.Message, o *out) {
	id := wire.ID(m.Param("requestId"))
	var found []*owed
	for _, r := range s.live {
		if r.ID == id && r.Method != "initialize" {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		s.logger().Info("cancellation ignored: it must name one request in flight", "id", string(id), "matches", len(found))
		return
	}
	r := found[0]
	s.settleRow(r, o)
	o.settle(r, wire.Message{})
	if r.out != 0 {
		s.tell(m.WithParam("requestId", encode(r.out)), o)
	}
	s.finish(r.stream, o)
}

// discharge answers a row: its event is stored and its row deleted in one
// commit. The first answer counts; a row that is gone is left alone.
func (s *state) discharge(r *owed, answer wire.Message, o *out) {
	if !s.settleRow(r, o) {
		return
	}
	o.settle(r, answer)
	if r.lost == "" {
		o.do(reached{actor.AfterResult, r})
	}
	s.append(s.carrier(r.stream), answer, r.ID, o)
	s.finish(r.stream, o)
}

// lose answers a row with a loss.
func (s *state) lose(r *owed, l Loss, o *out) {
	l.Started, l.Epoch, l.Tool = r.Started, r.Epoch, r.Tool
	r.lost = l.Reason
	s.discharge(r, l.Answer(r.ID), o)
	if r.Method == "initialize" {
		s.end("not_initialized", o)
	}
}

// enter writes a row into the ledger, strike takes it out.
func (s *state) enter(r *owed, o *out) {
	if !s.seams.NoLedger {
		o.put(r.key(), encode(r))
	}
}

func (s *state) strike(r *owed, o *out) {
	if !s.seams.NoLedger {
		o.delete(r.key())
	}
}

// settleRow removes a row from the ledger; false when it was gone already.
func (s *state) settleRow(r *owed, o *out) bool {
	i := indexOf(r.stream.owes, r)
	if i < 0 {
		return false
	}
	r.stream.owes = slices.Delete(r.stream.owes, i, i+1)
	if r.out != 0 && s.rt.rows[r.out] == r {
		s.activity(s.now, o) // the idle time begins when nothing is at work any more
	}
	if i := indexOf(s.live, r); i >= 0 {
		s.live = slices.Delete(s.live, i, i+1)
		s.liveBytes -= r.size
	}
	if i := indexOf(s.rt.queue, r); i >= 0 {
		s.rt.queue = slices.Delete(s.rt.queue, i, i+1)
	}
	delete(s.rt.rows, r.out)
	for _, id := range sortedKeys(s.asks) {
		if s.asks[id].row == r { // what it asked for does not matter any more
			s.settleAsk(id, s.asks[id], OutcomeGone, s.now, o)
		}
	}
	s.strike(r, o)
	s.touch(r.stream)
	return true
}

func indexOf(rows []*owed, r *owed) int {
	for i, o := range rows {
		if o == r {
			return i
		}
	}
	return -1
}

// numberID is the id of a request toward a runtime.
func numberID(n int64) wire.ID {
	return wire.ID(strconv.FormatInt(n, 10))
}
