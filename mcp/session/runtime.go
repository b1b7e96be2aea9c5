package session

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

const shutdown = actor.Shutdown

// build asks for the next generation of the runtime.
func (s *state) build(now time.Time, o *out) {
	gen := s.rt.gen + 1
	queue, waiting := s.rt.queue, s.rt.waiting
	s.rt = runtime{phase: building, gen: gen, since: now, queue: queue, waiting: waiting, noted: s.rt.noted}
	first := slices.ContainsFunc(queue, func(r *owed) bool { return r.Method == initializing })
	o.do(build{gen, first})
}

// onBuilt begins the handshake: the client's own initialize if it is still
// waiting, else the recorded one, whose answer the client does not see.
func (s *state) onBuilt(e built, now time.Time, o *out) {
	if e.gen != s.rt.gen || s.rt.phase != building {
		return
	}
	if e.err != nil {
		s.buildFailed(e.err, now, o)
		return
	}
	for _, r := range s.rt.queue {
		if r.Method == "initialize" {
			s.rt.queue = s.rt.queue[1:]
			s.send(r, o) // its row says so already
			return
		}
	}
	s.request("initialize", s.initParams, o)
}

// request sends a request of the session's own to the runtime.
func (s *state) request(method string, params []byte, o *out) {
	s.rt.next++
	set(&s.rt.own, s.rt.next, method)
	o.do(deliver{s.rt.gen, wire.NewRequest(numberID(s.rt.next), method, params)})
}

// send passes a request on to the runtime under an id of ours. The row that says
// so commits first, unless the call changes nothing: until then, started is false.
func (s *state) send(r *owed, o *out) {
	s.rt.next++
	r.out, r.Gen, r.Started = s.rt.next, s.rt.gen, true
	set(&s.rt.rows, r.out, r)
	m := r.msg.WithID(numberID(r.out))
	if r.Token != "" {
		m = m.WithParam(wire.TokenOfRequest, []byte(numberID(r.out)))
	}
	switch r.Method {
	case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		r.told = r.msg.Params()
	}
	m = traced(m, r.trace)
	if s.mayBegin(r) {
		o.do(begin{s.rt.gen, m})
	} else {
		o.do(deliver{s.rt.gen, m})
	}
	r.msg = wire.Message{}
	o.do(reached{actor.AfterDelivery, r})
	if r.Method == "tools/call" {
		s.called(o)
	}
}

// opened ends the handshake: what else the client had said is told again, and
// then what waits.
func (s *state) opened(o *out) {
	s.rt.phase = ready
	o.do(opened{s.rt.gen})
	if s.initialized != nil {
		o.do(deliver{s.rt.gen, mustParse(s.initialized)})
	}
	if s.level != nil {
		s.request("logging/setLevel", s.level, o)
	}
	for _, uri := range sortedKeys(s.subs) {
		s.request("resources/subscribe", s.subs[uri], o)
	}
	for _, m := range s.rt.waiting {
		o.do(deliver{s.rt.gen, m})
	}
	queue := s.rt.queue
	s.rt.waiting, s.rt.noted, s.rt.queue = nil, 0, nil
	for _, r := range queue {
		if r.Again { // not before this generation has said that it may
			s.rt.queue = append(s.rt.queue, r)
			continue
		}
		s.send(r, o)
		s.enter(r, o)
	}
	s.inquire(o)
}

// onMessage takes a message of the runtime's. What an older generation still
// says is dropped.
func (s *state) onMessage(e fromRuntime, now time.Time, o *out) {
	if e.gen != s.rt.gen || s.rt.phase != building && s.rt.phase != ready || !s.alive() {
		return
	}
	m := e.msg
	switch m.Kind() {
	case wire.Response:
		s.onAnswer(m, now, o)
	case wire.Request:
		if m.Is("ping") {
			o.do(deliver{s.rt.gen, wire.NewResult(m.ID(), []byte("{}"))})
			return
		}
		s.onAsk(m, e.about, now, o)
	case wire.Notification:
		s.onNotification(m, e.about, now, o)
	}
}

func (s *state) onNotification(m wire.Message, about wire.ID, now time.Time, o *out) {
	switch m.Method() {
	case "notifications/progress":
		r := s.rt.rows[outID(wire.ID(m.Param(wire.TokenOfProgress)))]
		if r == nil || r.Token == "" {
			return // of a request that is answered already, or whose client did not ask
		}
		m = m.WithParam(wire.TokenOfProgress, []byte(r.Token))
		s.append(s.carrier(r.stream), m, "", o)
		return
	case "notifications/tools/list_changed":
		s.unlearn(o)
	case "notifications/cancelled":
		theirs := wire.ID(m.Param("requestId"))
		for _, id := range slices.Sorted(maps.Keys(s.asks)) { // a runtime may have asked twice with one id
			if a := s.asks[id]; a.id == theirs && a.gen == s.rt.gen {
				s.settleAsk(id, a, "cancelled", now, o)
				s.route(m.WithParam("requestId", []byte(id)), about, o)
				return
			}
		}
		return
	}
	s.route(m, about, o)
}

// route stores a message of the runtime's own on the stream that may carry it:
// that of the request it belongs to; else, when just one request is under way,
// that request's; else the GET stream. Without any it is held for the next one.
func (s *state) route(m wire.Message, about wire.ID, o *out) {
	if r := s.rt.rows[outID(about)]; r != nil {
		s.append(s.carrier(r.stream), m, "", o)
		return
	}
	if s.rt.phase == ready && !general(m.Method()) {
		var only *stream
		// In any order: whether they have one stream is the same in each.
		for _, r := range s.rt.rows {
			if only != nil && only != r.stream {
				only = nil
				break
			}
			only = r.stream
		}
		if only != nil {
			s.append(s.carrier(only), m, "", o)
			return
		}
	}
	if s.get != nil && (s.get.socket != nil || s.get.resumable()) {
		s.append(s.get, m, "", o)
		return
	}
	s.hold(m, o)
}

// general: the message concerns no request.
func general(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return true
	}
	return false
}

// hold keeps a message until a stream can carry it; past the bound the oldest goes.
func (s *state) hold(m wire.Message, o *out) {
	s.heldNext++
	s.held = append(s.held, heldRow{s.heldNext, m})
	o.put(heldKey(s.heldNext), m.Bytes())
	s.heldBytes += int64(len(m.Bytes()))
	for len(s.held) > s.cfg.MaxHeld || len(s.held) > 1 && s.heldBytes > s.cfg.MaxLog/4 {
		oldest := s.held[0]
		s.held = s.held[1:]
		s.heldBytes -= int64(len(oldest.msg.Bytes()))
		o.delete(heldKey(oldest.n))
		if a, asked := s.asks[oldest.msg.ID()]; asked {
			s.settleAsk(oldest.msg.ID(), a, OutcomeUndelivered, s.now, o)
			o.do(deliver{s.rt.gen, wire.NewError(a.id, wire.InternalError, "the client has opened no stream to be asked on", nil)})
		}
	}
}

// onAnswer discharges the row that the runtime has answered.
func (s *state) onAnswer(m wire.Message, now time.Time, o *out) {
	out := outID(m.ID())
	if method, ok := s.rt.own[out]; ok {
		delete(s.rt.own, out)
		s.onOwnAnswer(method, m, now, o)
		return
	}
	r := s.rt.rows[out]
	if r == nil {
		return // cancelled, expired, or never asked
	}
	if r.Method == "initialize" {
		s.onInitialized(r, m, now, o)
		return
	}
	if !m.IsError() {
		s.record(r, o)
	}
	s.discharge(r, m.WithID(r.ID), o)
}

// onInitialized answers the client's own initialize and records what was agreed.
func (s *state) onInitialized(r *owed, m wire.Message, now time.Time, o *out) {
	var err error
	version := gjson.GetBytes(m.Result(), "protocolVersion").Str
	switch {
	case m.IsError():
		err = fmt.Errorf("the server refused initialize: %s", m.Error())
		s.discharge(r, m.WithID(r.ID), o)
		s.end("not_initialized", o)
	case !Known(version):
		err = fmt.Errorf("the server speaks protocol revision %q, which this host does not know", version)
		s.discharge(r, wire.NewError(r.ID, wire.InternalError, err.Error(), nil), o)
		s.end("not_initialized", o)
	default:
		s.meta.Version, s.result = version, s.said.same(m.Result())
		o.put(keyMeta, encode(s.meta))
		o.put(keyResult, s.result)
		s.opened(o)
		s.discharge(r, m.WithID(r.ID), o)
		return
	}
	s.closeRuntime(closedBuild, err, now, o)
}

// onOwnAnswer handles the answers that the client does not see.
func (s *state) onOwnAnswer(method string, m wire.Message, now time.Time, o *out) {
	if method == listTools {
		s.onTools(m, o)
		return
	}
	if method != "initialize" {
		if m.IsError() {
			s.logger().Warn("the rebuilt server refused a part of the handshake", "method", method, "error", string(m.Error()))
		}
		return
	}
	version := gjson.GetBytes(m.Result(), "protocolVersion").Str
	switch {
	case m.IsError():
		s.buildFailed(fmt.Errorf("the server refused initialize: %s", m.Error()), now, o)
	case s.meta.Version != "" && version != s.meta.Version:
		s.buildFailed(fmt.Errorf("the rebuilt server speaks protocol revision %q, and the session agreed on %q", version, s.meta.Version), now, o)
	default:
		s.announce(m.Result(), o)
		s.opened(o)
	}
}

// announce tells the client when a rebuilt runtime offers something else than
// the one it knew.
func (s *state) announce(result []byte, o *out) {
	before, after := gjson.GetBytes(s.result, "capabilities"), gjson.GetBytes(result, "capabilities")
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if before.Get(kind).Raw != after.Get(kind).Raw {
			s.route(wire.NewNotification("notifications/"+kind+"/list_changed", nil), "", o)
		}
	}
	if !bytes.Equal(s.result, result) {
		s.result = s.said.same(result)
		o.put(keyResult, result)
	}
}

// record keeps what a rebuilt runtime must be told.
func (s *state) record(r *owed, o *out) {
	switch r.Method {
	case "logging/setLevel":
		s.level = r.told
		o.put(keyLevel, s.level)
	case "resources/subscribe":
		name := subName(gjson.GetBytes(r.told, "uri").Str)
		set(&s.subs, name, r.told)
		o.put(prefixSub+name, r.told)
	case "resources/unsubscribe":
		name := subName(gjson.GetBytes(r.told, "uri").Str)
		delete(s.subs, name)
		o.delete(prefixSub + name)
	}
}

// subName is what a subscription's row is named by: its URI, or where that is too
// long for a key, a digest.
func subName(uri string) string {
	if len(uri) <= 1024 {
		return uri
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(uri)))
}

// buildFailed answers everything that waited for the runtime.
func (s *state) buildFailed(err error, now time.Time, o *out) {
	l := Lost(ReasonBuild)
	l.Detail = err.Error()
	for _, r := range s.ofGeneration() {
		if r.Again { // of a call that an earlier generation has seen, this says too little
			s.lose(r, l, o)
			continue
		}
		l.Started, l.Epoch, l.Tool = r.Started, r.Epoch, r.Tool
		r.lost = l.Reason
		data := l
		data.Detail = "" // the message says it, for people who see nothing else
		s.discharge(r, wire.NewError(r.ID, wire.InternalError, sentences[ReasonBuild]+" "+l.Detail, data), o)
		if r.Method == "initialize" {
			s.end("not_initialized", o)
		}
	}
	s.closeRuntime(closedBuild, err, now, o)
}

// ofGeneration lists the rows that the present runtime is to answer.
func (s *state) ofGeneration() []*owed { return append([]*owed(nil), s.live...) }

// onExited: the runtime has ended by itself.
func (s *state) onExited(e exited, now time.Time, o *out) {
	if e.gen != s.rt.gen || s.rt.phase == none || s.rt.phase == closing {
		return
	}
	err := e.err
	if err == nil {
		err = errExited
	}
	s.logger().Warn("runtime exited", "generation", e.gen, "error", err)
	if s.rt.phase == building {
		s.buildFailed(err, now, o)
		return
	}
	l := lostToExit(err)
	l.Detail = err.Error()
	for _, r := range s.ofGeneration() {
		if !s.again(r, l, now, o) {
			s.lose(r, l, o)
		}
	}
	s.closeRuntime(closedExited, nil, now, o)
}

var errExited = fmt.Errorf("the server ended without a reason")

// endGeneration answers what the runtime owes as lost, and closes it.
func (s *state) endGeneration(l Loss, why ending, now time.Time, o *out) {
	for _, r := range s.ofGeneration() {
		s.lose(r, l, o)
	}
	s.closeRuntime(why, nil, now, o)
}

// closeRuntime begins to close the runtime; what comes meanwhile waits and builds
// the next once it is reaped.
func (s *state) closeRuntime(why ending, err error, now time.Time, o *out) {
	if s.rt.phase == none || s.rt.phase == closing {
		return
	}
	s.rt.phase, s.rt.since = closing, now
	s.rt.rows, s.rt.own, s.rt.waiting, s.rt.noted = nil, nil, nil, 0
	s.dropAsks(now, o)
	o.do(closeRuntime{s.rt.gen, why, err, now.Sub(s.active)})
}

func (s *state) onClosed(e closed, now time.Time, o *out) {
	if e.gen != s.rt.gen || s.rt.phase != closing {
		return
	}
	s.rt.phase, s.rt.since = none, now
	if len(s.rt.queue) > 0 && s.alive() {
		s.build(now, o)
	}
}

// outID reads an id or a token of ours; 0 when it is none.
func outID(id wire.ID) int64 {
	var n int64
	for _, c := range []byte(id) {
		if c < '0' || c > '9' || n > 1<<52 {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func cancelled(out int64) wire.Message {
	return wire.NewNotification("notifications/cancelled", []byte(fmt.Sprintf(`{"requestId":%d}`, out)))
}

var errBuildTimeout = fmt.Errorf("it was not ready within the build time-out")

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil // as most are, each turn
	}
	return slices.Sorted(maps.Keys(m))
}

func mustParse(b []byte) wire.Message {
	m, err := wire.Parse(b)
	if err != nil {
		panic("session: a stored message does not parse: " + err.Error())
	}
	return m
}
