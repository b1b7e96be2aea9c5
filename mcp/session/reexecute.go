package session

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

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

// allows judges a tool's annotations. A hint that is missing says no.
func (mode Reexecute) allows(annotations gjson.Result) bool {
	hint := func(name string) bool { return annotations.Get(name).Type == gjson.True }
	return mode != ReexecuteNever && hint("readOnlyHint") || mode == ReexecuteIdempotent && hint("idempotentHint")
}

const (
	// maxKept bounds a message that the ledger keeps, in bytes. A larger call is not
	// run again.
	maxKept = 1 << 20
	// maxRepeatable bounds the tools of which a session knows that they may be
	// repeated. Further ones are not.
	maxRepeatable = 1000
	// maxToolPages bounds the pages of a list of tools. What stands on further ones is
	// not known, and not repeated.
	maxToolPages = 100
)

// toolList is a list of tools that is being asked for.
type toolList struct {
	pages int
	stale bool            // it has changed meanwhile
	tools map[string]bool // whether the tool may be repeated
}

// learn asks the runtime for its tools, where anybody wants to know and the client
// has said that the handshake is over: before that, servers refuse.
func (s *state) learn(o *out) {
	switch {
	case s.cfg.Reexecute == ReexecuteNever || s.initialized == nil:
		return
	case s.rt.list != nil:
		s.rt.list.stale = true
		return
	}
	s.rt.list = &toolList{tools: map[string]bool{}}
	if !gjson.GetBytes(s.result, "capabilities.tools").Exists() {
		s.learned(o)
		return
	}
	s.request(listTools, nil, o)
}

const listTools = "tools/list"

// unlearn forgets what the client was told has changed.
func (s *state) unlearn(o *out) {
	if s.cfg.Reexecute == ReexecuteNever {
		return
	}
	s.repeatable = nil
	o.delete(keyRepeatable)
	if s.rt.phase == ready {
		s.learn(o)
	}
}

// onTools takes a page of the list.
func (s *state) onTools(m wire.Message, o *out) {
	l := s.rt.list
	if m.IsError() {
		s.logger().Warn("the server does not list its tools: no lost call is run again", "error", string(m.Error()))
		clear(l.tools)
		s.learned(o)
		return
	}
	l.pages++
	for _, tool := range gjson.GetBytes(m.Result(), "tools").Array() {
		name := tool.Get("name").Str
		_, twice := l.tools[name]
		if twice || len(l.tools) < maxRepeatable {
			l.tools[name] = !twice && len(name) <= maxTool && s.cfg.Reexecute.allows(tool.Get("annotations"))
		}
	}
	if cursor := gjson.GetBytes(m.Result(), "nextCursor"); cursor.Str != "" {
		if l.pages < maxToolPages {
			s.request(listTools, encode(map[string]string{"cursor": cursor.Str}), o)
			return
		}
		s.logger().Warn("the list of tools has too many pages: calls of tools on further ones are not run again", "pages", l.pages)
	}
	s.learned(o)
}

// learned ends the list: what waited for it is run again, or answered.
func (s *state) learned(o *out) {
	l := s.rt.list
	s.rt.list = nil
	if l.stale {
		s.learn(o)
		return
	}
	maps.DeleteFunc(l.tools, func(_ string, repeatable bool) bool { return !repeatable })
	switch {
	case maps.Equal(l.tools, s.repeatable):
	case len(l.tools) == 0:
		o.delete(keyRepeatable)
	default:
		o.put(keyRepeatable, encode(sortedKeys(l.tools)))
	}
	s.repeatable = l.tools
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
	if s.cfg.Reexecute == ReexecuteNever || !m.Is("tools/call") || len(m.Bytes()) > maxKept || !s.repeatable[m.ParamString("name")] {
		return false
	}
	// The server must not read another name, and what it makes of a task is not known.
	var params map[string]json.RawMessage
	var name string
	return json.Unmarshal(m.Params(), &params) == nil && json.Unmarshal(params["name"], &name) == nil &&
		s.repeatable[name] && name == m.ParamString("name") && params["task"] == nil
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
