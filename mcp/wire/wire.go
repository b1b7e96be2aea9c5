// Package wire reads and writes JSON-RPC messages without losing a byte of what
// matters: a [Message] keeps its raw bytes and knows where its parts lie, so that
// an id is echoed as the client wrote it and a message is passed on with only its
// id exchanged.
//
// A message is decoded once, at the border; inside, only Messages travel.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Kind tells requests, notifications and responses apart.
type Kind uint8

const (
	Request      Kind = iota + 1 // has a method and an id
	Notification                 // has a method and no id
	Response                     // has a result or an error
)

// ID is the raw JSON of a request id or a progress token: `7`, `"7"` and `7.0`
// are three different IDs. The empty ID is none.
type ID string

// StringID is the ID whose JSON is the string s.
func StringID(s string) ID {
	b, _ := json.Marshal(s)
	return ID(b)
}

// Message is one JSON-RPC message. Its bytes are on one line and must not be
// modified. The zero Message is none.
type Message struct {
	raw    []byte
	kind   Kind
	method string
	id     span
	params span
	result span
	err    span
}

// span is a part of raw; empty when the part is absent (a JSON value is never empty).
type span struct{ from, to int32 }

func (m Message) at(s span) []byte { return m.raw[s.from:s.to] }

func (m Message) Kind() Kind            { return m.kind }
func (m Message) Bytes() []byte         { return m.raw }
func (m Message) Method() string        { return m.method }
func (m Message) ID() ID                { return ID(m.at(m.id)) }
func (m Message) Params() []byte        { return m.at(m.params) }
func (m Message) Result() []byte        { return m.at(m.result) }
func (m Message) Error() []byte         { return m.at(m.err) }
func (m Message) IsZero() bool          { return m.raw == nil }
func (m Message) String() string        { return string(m.raw) }
func (m Message) IsError() bool         { return m.err.to > m.err.from }
func (m Message) Is(method string) bool { return m.method == method }

// MarshalJSON makes a Message a part of a larger document as it stands.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.raw == nil {
		return []byte("null"), nil
	}
	return m.raw, nil
}

// Code is a JSON-RPC error code.
type Code int

const (
	ParseError     Code = -32700
	InvalidRequest Code = -32600
	MethodNotFound Code = -32601
	InvalidParams  Code = -32602
	InternalError  Code = -32603
	// LostExecution: the request was accepted and its execution lost in a reset.
	LostExecution Code = -32010
)

// SyntaxError says why bytes are not a message. Code is what the sender should
// be told; ID is the message's id where one could be read.
type SyntaxError struct {
	Code Code
	ID   ID
	Msg  string
}

func (e *SyntaxError) Error() string { return e.Msg }

func invalid(id ID, format string, a ...any) error {
	return &SyntaxError{InvalidRequest, id, fmt.Sprintf(format, a...)}
}

// Parse reads one message. Its errors are *SyntaxError.
func Parse(b []byte) (Message, error) {
	b, err := oneLine(b)
	if err != nil {
		return Message{}, err
	}
	return parse(b)
}

// ParseBody reads the body of a POST: one message, or a batch of at least one.
func ParseBody(b []byte) (ms []Message, batch bool, err error) {
	b, err = oneLine(b)
	if err != nil {
		return nil, false, err
	}
	if b[0] != '[' {
		m, err := parse(b)
		if err != nil {
			return nil, false, err
		}
		return []Message{m}, false, nil
	}
	gjson.Parse(text(b)).ForEach(func(_, v gjson.Result) bool {
		var m Message
		m, err = parse(b[v.Index : v.Index+len(v.Raw) : v.Index+len(v.Raw)])
		ms = append(ms, m)
		return err == nil
	})
	if err != nil {
		return nil, true, err
	}
	if len(ms) == 0 {
		return nil, true, invalid("", "the batch is empty")
	}
	return ms, true, nil
}

// oneLine checks that b is JSON in UTF-8 and returns it without surrounding
// space and on one line: line breaks can only be space between tokens.
func oneLine(b []byte) ([]byte, error) {
	b = bytes.Trim(b, " \t\r\n")
	if len(b) == 0 {
		return nil, &SyntaxError{ParseError, "", "the message is empty"}
	}
	if !utf8.Valid(b) {
		return nil, &SyntaxError{ParseError, "", "the message is not UTF-8"}
	}
	if !valid(b) {
		msg := "the message is not JSON"
		var syntax *json.SyntaxError
		if err := json.Unmarshal(b, new(json.RawMessage)); errors.As(err, &syntax) {
			msg = fmt.Sprintf("the message is not JSON: %v at byte %d", err, syntax.Offset)
		}
		return nil, &SyntaxError{ParseError, "", msg}
	}
	if bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0 {
		var c bytes.Buffer
		c.Grow(len(b))
		if err := json.Compact(&c, b); err != nil {
			return nil, &SyntaxError{ParseError, "", err.Error()}
		}
		b = c.Bytes()
	}
	return b, nil
}

// maxDepth is how deep encoding/json lets values lie in each other.
const maxDepth = 10_000

// valid is json.Valid, but quicker where the value can't lie too deep: gjson does not count.
func valid(b []byte) bool {
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) > maxDepth {
		return json.Valid(b)
	}
	return gjson.ValidBytes(b)
}

// text is b as a string without a copy, for reading what nobody modifies.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parse reads one message from valid JSON on one line.
func parse(b []byte) (Message, error) {
	m := Message{raw: b}
	root := gjson.Parse(text(b))
	if !root.IsObject() {
		return m, invalid("", "a message must be a JSON object")
	}
	var version string
	var err error
	var seen [6]bool
	root.ForEach(func(k, v gjson.Result) bool {
		s := span{int32(v.Index), int32(v.Index + len(v.Raw))}
		var i int
		switch k.Str {
		case "jsonrpc":
			version = v.Str // not kept
		case "id":
			i, m.id = 1, s
		case "method":
			i, m.method = 2, strings.Clone(v.Str)
			if v.Type != gjson.String || v.Str == "" {
				err = invalid(m.ID(), "the method must be a string")
			}
		case "params":
			i, m.params = 3, s
		case "result":
			i, m.result = 4, s
		case "error":
			i, m.err = 5, s
		default:
			return true
		}
		if seen[i] {
			err = invalid("", "the member %q stands twice", k.Str)
		}
		seen[i] = true
		return err == nil
	})
	if err != nil {
		return m, err
	}
	id := m.ID()
	switch {
	case id == "":
	case id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9':
	case id == "null" && m.method == "":
	default:
		return m, invalid("", "an id must be a string or a number, not %.20s", id)
	}
	hasResult, hasError := seen[4], seen[5]
	switch {
	case version != "2.0":
		return m, invalid(id, `"jsonrpc" must be "2.0"`)
	case m.method != "" && (hasResult || hasError):
		return m, invalid(id, "a message has either a method or a result")
	case m.method != "":
		m.kind = Notification
		if id != "" {
			m.kind = Request
		}
		if p := m.Params(); len(p) > 0 && p[0] != '{' { // JSON-RPC knows arrays as well, MCP does not
			return m, invalid(id, "params must be an object")
		}
	case hasResult == hasError:
		return m, invalid(id, "a response has either a result or an error")
	case id == "":
		return m, invalid("", "a response needs an id")
	default:
		m.kind = Response
	}
	return m, nil
}

// WithID returns the message with its id exchanged and all else as it was.
func (m Message) WithID(id ID) Message {
	if m.id.to == m.id.from {
		panic("wire: WithID on a message without an id")
	}
	if string(m.raw[m.id.from:m.id.to]) == string(id) {
		return m
	}
	return m.splice(m.id, []byte(id))
}

// splice returns the message with one of its parts exchanged.
func (m Message) splice(old span, part []byte) Message {
	raw := make([]byte, 0, len(m.raw)+len(part)-int(old.to-old.from))
	raw = append(raw, m.raw[:old.from]...)
	raw = append(raw, part...)
	raw = append(raw, m.raw[old.to:]...)
	shift := int32(len(raw) - len(m.raw))
	m.raw = raw
	for _, s := range []*span{&m.id, &m.params, &m.result, &m.err} {
		if *s == old {
			s.to += shift
		} else if s.from >= old.to && s.to > s.from {
			s.from += shift
			s.to += shift
		}
	}
	return m
}

// Param returns the raw JSON at a path in the params ("name", "_meta.progressToken"),
// nil when there is none.
func (m Message) Param(path string) []byte {
	if len(m.Params()) == 0 {
		return nil
	}
	r := gjson.GetBytes(m.Params(), path)
	if !r.Exists() {
		return nil
	}
	return []byte(r.Raw)
}

// ParamString is the string at a path in the params, "" when there is none.
func (m Message) ParamString(path string) string {
	r := gjson.GetBytes(m.Params(), path)
	if r.Type != gjson.String {
		return ""
	}
	return r.Str
}

// WithParam returns the message with the raw JSON at a path in the params set and
// all else as it was. What is in the way and no object gives way.
func (m Message) WithParam(path string, value []byte) Message {
	params := m.Params()
	if len(params) == 0 {
		params = []byte("{}")
	}
	for i, c := range path {
		if outer := gjson.GetBytes(params, path[:i]); c == '.' && outer.Exists() && !outer.IsObject() {
			params = setRaw(params, path[:i], []byte("{}"))
		}
	}
	params = setRaw(params, path, value)
	if m.params.to > m.params.from {
		return m.splice(m.params, params)
	}
	end := len(m.raw) - 1 // before the last brace
	raw := append(append(m.raw[:end:end], `,"params":`...), params...)
	return must(parse(append(raw, '}')))
}

func setRaw(doc []byte, path string, value []byte) []byte {
	doc, err := sjson.SetRawBytes(doc, path, value)
	if err != nil {
		panic("wire: " + err.Error()) // a path that is none
	}
	return doc
}

func must(m Message, err error) Message {
	if err != nil {
		panic("wire: " + err.Error() + ": " + string(m.raw))
	}
	return m
}

// Path of the token in a request, and in the notification that reports progress.
const (
	TokenOfRequest  = "_meta.progressToken"
	TokenOfProgress = "progressToken"
)

// NewRequest builds a request. params is raw JSON, or nil.
func NewRequest(id ID, method string, params []byte) Message {
	return build(`{"jsonrpc":"2.0","id":`+string(id)+`,"method":`, quote(method), params)
}

// NewNotification builds a notification. params is raw JSON, or nil.
func NewNotification(method string, params []byte) Message {
	return build(`{"jsonrpc":"2.0","method":`, quote(method), params)
}

func build(head string, method, params []byte) Message {
	b := append([]byte(head), method...)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	return must(parse(append(b, '}')))
}

func quote(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}

// NewResult builds the response to id. result is raw JSON.
func NewResult(id ID, result []byte) Message {
	b := make([]byte, 0, len(id)+len(result)+36)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	return must(parse(append(append(b, result...), '}')))
}

// NewError builds an error response; the empty id stands for null. data is
// marshalled unless it is nil.
func NewError(id ID, code Code, message string, data any) Message {
	if id == "" {
		id = "null"
	}
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.WriteString(string(id))
	b.WriteString(`,"error":`)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Code    Code   `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{code, message, data})
	if err != nil {
		panic("wire: " + err.Error())
	}
	b.Truncate(b.Len() - 1) // Encode ends the line
	b.WriteByte('}')
	return must(parse(b.Bytes()))
}
