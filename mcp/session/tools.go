package session

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// hints are what a server says of a tool in its annotations. One that is missing, or no
// boolean, says no.
type hints uint8

const (
	readOnly hints = 1 << iota
	idempotent
)

func hintsOf(annotations gjson.Result) (h hints) {
	if annotations.Get("readOnlyHint").Type == gjson.True {
		h |= readOnly
	}
	if annotations.Get("idempotentHint").Type == gjson.True {
		h |= idempotent
	}
	return h
}

const (
	// maxHinted bounds the tools of which a session knows what their server says. Of
	// further ones nothing is known.
	maxHinted = 1000
	// maxToolPages bounds the pages of a list of tools, likewise.
	maxToolPages = 100
)

// toolList is a list of tools that is being asked for.
type toolList struct {
	pages int
	stale bool // it has changed meanwhile
	tools map[string]hints
}

const listTools = "tools/list"

// learn asks the runtime for its tools, when the client has said that the handshake is
// over: before that, servers refuse.
func (s *state) learn(o *out) {
	switch {
	case s.initialized == nil:
		return
	case s.rt.list != nil:
		s.rt.list.stale = true
		return
	}
	s.rt.asked = true
	s.rt.list = &toolList{tools: map[string]hints{}}
	if !gjson.GetBytes(s.result, "capabilities.tools").Exists() {
		s.learned(o)
		return
	}
	s.request(listTools, nil, o)
}

// inquire: the runtime takes requests, and the handshake is over. Where lost calls may be
// run again, its tools must be known from the first call on.
func (s *state) inquire(o *out) {
	if s.cfg.Reexecute != ReexecuteNever {
		s.learn(o)
	}
}

// unlearn forgets what the client was told has changed, and asks again where that was asked
// for, or would be by now.
func (s *state) unlearn(o *out) {
	s.rt.readOnly = nil
	if s.repeatable != nil {
		s.repeatable = nil
		o.delete(keyRepeatable)
	}
	if s.rt.phase == ready && (s.rt.asked || s.cfg.Reexecute != ReexecuteNever) {
		s.learn(o)
	}
}

// onTools takes a page of the list.
func (s *state) onTools(m wire.Message, o *out) {
	l := s.rt.list
	if m.IsError() {
		s.logger().Warn("the server does not list its tools: none of them counts as harmless", "error", string(m.Error()))
		clear(l.tools)
		s.learned(o)
		return
	}
	l.pages++
	for _, tool := range gjson.GetBytes(m.Result(), "tools").Array() {
		name := tool.Get("name").Str
		_, twice := l.tools[name]
		switch {
		case !twice && len(l.tools) >= maxHinted:
		case twice || len(name) > maxTool:
			l.tools[name] = 0
		default:
			l.tools[name] = hintsOf(tool.Get("annotations"))
		}
	}
	if cursor := gjson.GetBytes(m.Result(), "nextCursor"); cursor.Str != "" {
		if l.pages < maxToolPages {
			s.request(listTools, encode(map[string]string{"cursor": cursor.Str}), o)
			return
		}
		s.logger().Warn("the list of tools has too many pages: tools on further ones do not count as harmless", "pages", l.pages)
	}
	s.learned(o)
}

// learned ends the list.
func (s *state) learned(o *out) {
	l := s.rt.list
	s.rt.list = nil
	if l.stale {
		s.learn(o)
		return
	}
	s.rt.readOnly = s.said.same(nameSet(l.tools, readOnly))
	if s.cfg.Reexecute != ReexecuteNever {
		s.repeat(l.tools, o)
	}
}

// nameSet is the names of the tools that have a hint, as has reads them: sorted, with a
// zero byte before and behind each. What is beyond the bound of [said] is left out, for
// sessions share it.
func nameSet(tools map[string]hints, h hints) []byte {
	set := []byte{0}
	for _, name := range sortedKeys(tools) {
		if tools[name]&h != 0 && len(set)+len(name) < maxSaid && !strings.Contains(name, "\x00") {
			set = append(append(set, name...), 0)
		}
	}
	return set
}

// has tells whether a set of names has one.
func has(set []byte, name string) bool {
	var buf [64]byte
	return bytes.Contains(set, append(append(append(buf[:0], 0), name...), 0))
}

// plainCall is the tool that a tools/call names. It is plain where the server can't read
// another name, and nothing is asked for that is not known here, as a task is.
func plainCall(m wire.Message) (tool string, plain bool) {
	if !m.Is("tools/call") {
		return "", false
	}
	names := 0
	plain = true
	gjson.ParseBytes(m.Params()).ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "name":
			names++
			tool, plain = v.Str, names == 1 && v.Type == gjson.String
		case "arguments", "_meta":
		default:
			plain = false
		}
		return plain
	})
	return tool, plain && names == 1
}
