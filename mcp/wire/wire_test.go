package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		kind     Kind
		method   string
		id       ID
		params   string
		result   string
		err      string
	}{
		{"request", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, Request, "ping", "7", "", "", ""},
		{"params", `{"jsonrpc":"2.0","id":7,"method":"a","params":{"b":[1,{"c":"}"}]}}`, Request, "a", "7", `{"b":[1,{"c":"}"}]}`, "", ""},
		{"any order", `{"params":{},"method":"a","id":"x","jsonrpc":"2.0"}`, Request, "a", `"x"`, `{}`, "", ""},
		{"notification", `{"jsonrpc":"2.0","method":"a"}`, Notification, "a", "", "", "", ""},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{}}`, Response, "", "1", "", `{}`, ""},
		{"null result", `{"jsonrpc":"2.0","id":1,"result":null}`, Response, "", "1", "", `null`, ""},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, Response, "", "1", "", "", `{"code":1,"message":""}`},
		{"error to nothing", `{"jsonrpc":"2.0","id":null,"error":{}}`, Response, "", "null", "", "", `{}`},
		{"unknown members", `{"jsonrpc":"2.0","x":{"id":3},"id":1,"method":"a","y":[]}`, Request, "a", "1", "", "", ""},
		{"members in escapes", `{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":"\u0061","par\u0061ms":{}}`, Request, "a", "1", `{}`, "", ""},

		// Ids keep their digits, their quotes and their escapes.
		{"string id", `{"jsonrpc":"2.0","id":"7","method":"a"}`, Request, "a", `"7"`, "", "", ""},
		{"empty string id", `{"jsonrpc":"2.0","id":"","method":"a"}`, Request, "a", `""`, "", "", ""},
		{"escaped id", `{"jsonrpc":"2.0","id":"\u0041<\/\"","method":"a"}`, Request, "a", `"\u0041<\/\""`, "", "", ""},
		{"large id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"a"}`, Request, "a", `9007199254740993`, "", "", ""},
		{"huge id", `{"jsonrpc":"2.0","id":1e999,"method":"a"}`, Request, "a", `1e999`, "", "", ""},
		{"fractional id", `{"jsonrpc":"2.0","id":7.0,"method":"a"}`, Request, "a", `7.0`, "", "", ""},
		{"negative id", `{"jsonrpc":"2.0","id":-0,"method":"a"}`, Request, "a", `-0`, "", "", ""},

		// Space goes around and between, never within.
		{"space around", " \r\n\t{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", Notification, "a", "", "", "", ""},
		{"space between", `{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "a" , "params" : { "b" : 1 } }`, Request, "a", "1", `{ "b" : 1 }`, "", ""},
		{"lines between", "{\r\n\"jsonrpc\":\"2.0\",\n\"id\":\n1,\"method\":\"a\",\"params\":{\n}}", Request, "a", "1", `{}`, "", ""},
		{"a line feed between", "{\"jsonrpc\":\"2.0\",\n\"method\":\"a\"}", Notification, "a", "", "", "", ""},
		{"a carriage return between", "{\"jsonrpc\":\"2.0\",\r\"method\":\"a\"}", Notification, "a", "", "", "", ""},
		{"escaped lines stay", `{"jsonrpc":"2.0","method":"a","params":{"t":"\n\r"}}`, Notification, "a", "", `{"t":"\n\r"}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(m.Kind(), m.Method(), m.ID(), string(m.Params()), string(m.Result()), string(m.Error()))
			want := fmt.Sprint(c.kind, c.method, c.id, c.params, c.result, c.err)
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if m.IsError() != (c.err != "") || !m.Is(c.method) || m.IsZero() {
				t.Error("IsError, Is or IsZero is wrong")
			}
			if bytes.ContainsAny(m.Bytes(), "\r\n") {
				t.Errorf("not on one line: %q", m.Bytes())
			}
			if !strings.ContainsAny(c.in, "\r\n") && m.String() != c.in {
				t.Errorf("the bytes are not those that were read: %s", m)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		code Code
		id   ID
		says string
	}{
		{``, ParseError, "", "empty"},
		{" \n", ParseError, "", "empty"},
		{`{`, ParseError, "", "at byte 1"},
		{`{"jsonrpc":"2.0","method":"a"} x`, ParseError, "", "not JSON"},
		{`{"jsonrpc":"2.0","method":"a"}{}`, ParseError, "", "not JSON"},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", ParseError, "", "UTF-8"},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"\n\"}", ParseError, "", "not JSON"},
		{strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), ParseError, "", "not JSON"},
		{strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), ParseError, "", "not JSON"},
		{`7`, InvalidRequest, "", "object"},
		{`"jsonrpc"`, InvalidRequest, "", "object"},
		{`null`, InvalidRequest, "", "object"},
		{`[]`, InvalidRequest, "", "object"},
		{`{}`, InvalidRequest, "", "2.0"},
		{`{"jsonrpc":"1.0","id":1,"method":"a"}`, InvalidRequest, "1", "2.0"},
		{`{"jsonrpc":2.0,"id":1,"method":"a"}`, InvalidRequest, "1", "2.0"},
		{`{"jsonrpc":"2.0","id":1}`, InvalidRequest, "1", "result or an error"},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, InvalidRequest, "1", "method"},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, InvalidRequest, "1", "method"},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, InvalidRequest, "1", "method"},
		{`{"jsonrpc":"2.0","id":null,"method":"a"}`, InvalidRequest, "", "id must be"},
		{`{"jsonrpc":"2.0","id":true,"method":"a"}`, InvalidRequest, "", "id must be"},
		{`{"jsonrpc":"2.0","id":{},"method":"a"}`, InvalidRequest, "", "id must be"},
		{`{"jsonrpc":"2.0","id":[1],"result":1}`, InvalidRequest, "", "id must be"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, InvalidRequest, "1", "either"},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, InvalidRequest, "1", "either"},
		{`{"jsonrpc":"2.0","result":1}`, InvalidRequest, "", "needs an id"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":7}`, InvalidRequest, "1", "params"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":[]}`, InvalidRequest, "1", "params"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, InvalidRequest, "1", "params"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, InvalidRequest, "", "twice"},
		{`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"a"}`, InvalidRequest, "", "twice"},
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, InvalidRequest, "", "twice"},
		{`{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"a"}`, InvalidRequest, "", "twice"},
	} {
		_, err := Parse([]byte(c.in))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.60s: got %v", c.in, err)
			continue
		}
		if syntax.Code != c.code || syntax.ID != c.id || !strings.Contains(syntax.Msg, c.says) {
			t.Errorf("%.60s: got %d %q %q, want %d %q and %q in it", c.in, syntax.Code, syntax.ID, syntax.Msg, c.code, c.id, c.says)
		}
	}
}

func TestValuesLieSoDeepAndNoDeeper(t *testing.T) {
	for depth, ok := range map[int]bool{10_000: true, 10_001: false} {
		inner := depth - 2 // the message, and its params
		_, err := Parse([]byte(`{"jsonrpc":"2.0","method":"a","params":{"a":` + strings.Repeat("[", inner) + strings.Repeat("]", inner) + `}}`))
		if (err == nil) != ok {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
	// Many that do not lie in each other are no matter.
	if _, err := Parse([]byte(`{"jsonrpc":"2.0","method":"a","params":{"a":[[]` + strings.Repeat(",[]", 20_000) + `]}}`)); err != nil {
		t.Error(err)
	}
}

func TestParseBody(t *testing.T) {
	const a, b = `{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"jsonrpc":"2.0", "method":"b"}`
	for _, c := range []struct {
		in    string
		want  []string
		batch bool
		bad   bool
	}{
		{in: a, want: []string{a}},
		{in: "\n" + a + "\n", want: []string{a}},
		{in: "[" + a + "]", want: []string{a}, batch: true},
		{in: " [ " + a + " , " + b + " ] ", want: []string{a, b}, batch: true},
		{in: "[]", batch: true, bad: true},
		{in: "[" + a + ",7]", batch: true, bad: true},
		{in: "[[" + a + "]]", batch: true, bad: true},
		{in: "[" + a, bad: true},
		{in: "7", bad: true},
		{in: "", bad: true},
	} {
		ms, batch, err := ParseBody([]byte(c.in))
		if (err != nil) != c.bad || batch != c.batch {
			t.Errorf("%s: batch=%t, %v", c.in, batch, err)
			continue
		}
		if err != nil {
			if ms != nil {
				t.Errorf("%s: messages beside an error", c.in)
			}
			continue
		}
		if fmt.Sprint(ms) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %s, want %s", c.in, ms, c.want)
		}
	}
}

// TestBatchKeepsApart: what is done to one message of a batch does not show in
// another, although they were read from the same bytes.
func TestBatchKeepsApart(t *testing.T) {
	const a = `{"jsonrpc":"2.0","id":1,"method":"a"}`
	ms, _, err := ParseBody([]byte("[" + a + "," + a + "]"))
	if err != nil {
		t.Fatal(err)
	}
	_ = append(ms[0].Bytes(), "XXXXXXXX"...)
	if ms[1].String() != a {
		t.Errorf("the second message is now %s", ms[1])
	}
}

// TestWithIDKeepsAllElse: an id that is exchanged and exchanged back leaves the
// message as it was, byte for byte, and every part where it belongs.
func TestWithIDKeepsAllElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t, Request, Response)
		id := drawID(t, "new id")
		n := m.WithID(id)
		if n.ID() != id || n.Kind() != m.Kind() || n.Method() != m.Method() {
			t.Fatalf("%s became %s", m, n)
		}
		for _, part := range [][2][]byte{{m.Params(), n.Params()}, {m.Result(), n.Result()}, {m.Error(), n.Error()}} {
			if !bytes.Equal(part[0], part[1]) {
				t.Fatalf("%s became %s: %s is now %s", m, n, part[0], part[1])
			}
		}
		again, err := Parse(n.Bytes())
		if err != nil || fmt.Sprintf("%#v", again) != fmt.Sprintf("%#v", n) {
			t.Fatalf("%s is not what Parse makes of it: %v", n, err)
		}
		if back := n.WithID(m.ID()); !bytes.Equal(back.Bytes(), m.Bytes()) {
			t.Fatalf("%s came back as %s", m, back)
		}
	})
}

// TestWithParamKeepsAllElse: likewise for a param, on paths that are there.
func TestWithParamKeepsAllElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t, Request)
		old := m.Param(TokenOfRequest)
		if old == nil {
			t.Skip("no token")
		}
		n := m.WithParam(TokenOfRequest, []byte(`"k"`))
		if got := n.Param(TokenOfRequest); string(got) != `"k"` {
			t.Fatalf("the token of %s is %s", n, got)
		}
		if n.ID() != m.ID() || n.Method() != m.Method() {
			t.Fatalf("%s became %s", m, n)
		}
		if back := n.WithParam(TokenOfRequest, old); !bytes.Equal(back.Bytes(), m.Bytes()) {
			t.Fatalf("%s came back as %s", m, back)
		}
	})
}

func TestParam(t *testing.T) {
	m := must(Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":"x\u0041","u":7,"_meta":{"progressToken":"t","a.b/c":1}}}`)))
	for path, want := range map[string]string{"n": `"x\u0041"`, "u": "7", "_meta.progressToken": `"t"`, `_meta.a\.b/c`: "1", "none": "", "u.x": "", "n.x": ""} {
		if got := string(m.Param(path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if m.ParamString("n") != "xA" || m.ParamString("u") != "" || m.ParamString("none") != "" {
		t.Error("ParamString is wrong")
	}
	if none := must(Parse([]byte(`{"jsonrpc":"2.0","method":"a"}`))); none.Param("n") != nil || none.ParamString("n") != "" {
		t.Error("a message without params has one")
	}
}

// TestWithParamMakesTheWay: what is not there is made, in params that are not
// there either, and a member of another kind in between gives way.
func TestWithParamMakesTheWay(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`:                              `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{}}`:                  `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":"s"}}`:       `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":[1]}}`:       `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":null}}`:      `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":5}}}`,
		`{"params":{"b":"<"},"id":1,"method":"a","jsonrpc":"2.0"}`:           `{"params":{"b":"<","_meta":{"progressToken":5}},"id":1,"method":"a","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","\u0070arams":{"_meta":{}}}`:   `{"jsonrpc":"2.0","id":1,"method":"a","\u0070arams":{"_meta":{"progressToken":5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","x":{"params":1},"params":{}}`: `{"jsonrpc":"2.0","id":1,"method":"a","x":{"params":1},"params":{"_meta":{"progressToken":5}}}`,
	} {
		m := must(Parse([]byte(in)))
		if got := m.WithParam(TokenOfRequest, []byte("5")).String(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
		if m.String() != in {
			t.Errorf("%s was changed to %s", in, m)
		}
	}
}

func TestBuild(t *testing.T) {
	for want, m := range map[string]Message{
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`:                                                                   NewRequest("7", "ping", nil),
		`{"jsonrpc":"2.0","id":"x","method":"a/b","params":{}}`:                                                      NewRequest(`"x"`, "a/b", []byte("{}")),
		`{"jsonrpc":"2.0","method":"n","params":{"a":"<"}}`:                                                          NewNotification("n", []byte(`{"a":"<"}`)),
		`{"jsonrpc":"2.0","id":1.0,"result":{"a":1}}`:                                                                NewResult("1.0", []byte(`{"a":1}`)),
		`{"jsonrpc":"2.0","id":"<\u0041>","error":{"code":-32600,"message":"a < b & c"}}`:                            NewError(`"<\u0041>"`, InvalidRequest, "a < b & c", nil),
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"m\n","data":{"retryable":true,"why":"<\n>"}}}`: NewError("", LostExecution, "m\n", map[string]any{"why": "<\n>", "retryable": true}),
	} {
		if m.String() != want {
			t.Errorf("got %s, want %s", m, want)
		}
	}
	if id := StringID(`a"<`); id != `"a\"\u003c"` {
		t.Errorf("got %s", id)
	}
}

func TestMarshalJSON(t *testing.T) {
	m := NewResult("1", []byte(`{"a":1}`))
	b, err := json.Marshal(map[string]Message{"m": m, "none": {}})
	if err != nil || string(b) != `{"m":{"jsonrpc":"2.0","id":1,"result":{"a":1}},"none":null}` {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestWithIDOfTheSameIDCopiesNothing(t *testing.T) {
	m := NewResult("12", []byte(`{"a":1}`))
	if n := m.WithID("12"); &n.Bytes()[0] != &m.Bytes()[0] {
		t.Error("an id was exchanged for itself")
	}
	if n := m.WithID(`"12"`); string(n.ID()) != `"12"` || string(m.ID()) != "12" {
		t.Errorf("the ids are %s and %s", n.ID(), m.ID())
	}
}

func TestWithIDPanicsWithoutID(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a notification was given an id")
		}
	}()
	NewNotification("a", nil).WithID("1")
}

// drawID draws an id as clients write them.
func drawID(t *rapid.T, label string) ID {
	return ID(rapid.SampledFrom([]string{`1`, `0`, `-7`, `7.0`, `9007199254740993`, `1e400`, `""`, `"a"`, `"7"`, `"\u0041\""`, `"é<>&"`}).Draw(t, label))
}

// drawMessage draws a message: its members in any order, with space in between.
func drawMessage(t *rapid.T, kinds ...Kind) Message {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\t", "  "})
	value := rapid.SampledFrom([]string{`{}`, `{"id":1}`, `{"a":[1,2,{"b":"}\""}]}`, `{ "_meta" : {"progressToken": 7 } , "z":1}`,
		`{"_meta":{"x":1,"progressToken":"p"}}`, `{"_meta":{"progressToken":{"a":[]}}}`, `{"_m\u0065ta":{"progressToken":1}}`, `{"é":[null]}`, `{"_meta":"s"}`})
	members := []string{`"jsonrpc":"2.0"`}
	member := func(name, value string) {
		if rapid.IntRange(0, 9).Draw(t, "escape") == 0 {
			name = fmt.Sprintf(`\u%04x%s`, name[0], name[1:])
		}
		members = append(members, `"`+name+`"`+space.Draw(t, "space")+`:`+space.Draw(t, "space")+value)
	}
	member("id", string(drawID(t, "id")))
	if rapid.SampledFrom(kinds).Draw(t, "kind") == Request {
		member("method", `"tools/call"`)
		member("params", value.Draw(t, "params"))
	} else {
		member(rapid.SampledFrom([]string{"result", "error"}).Draw(t, "outcome"), value.Draw(t, "value"))
	}
	if rapid.Bool().Draw(t, "more") {
		member("extra", value.Draw(t, "extra"))
	}
	var b strings.Builder
	b.WriteString("{")
	for i, s := range rapid.Permutation(members).Draw(t, "order") {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(space.Draw(t, "space") + s + space.Draw(t, "space"))
	}
	b.WriteString("}")
	m, err := Parse([]byte(b.String()))
	if err != nil {
		t.Fatalf("%s: %v", b.String(), err)
	}
	return m
}

// FuzzParse: whatever comes in, Parse agrees with encoding/json on what it accepts,
// keeps it on one line, and nothing that may be done to a message panics.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","\u0069d":"7","method":"a","\u0070arams":{"_m\u0065ta":{"progressToken":"t"}}}`,
		"[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},\n{\"jsonrpc\":\"2.0\",\"id\":1e5,\"result\":[\"]\"]}]",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"é\ud800"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":[{"_meta":{"progressToken":1}}]}`,
		`{"jsonrpc":"2.0","method":"a","params":{"_meta":[{"progressToken":1}]}}`,
		`{"":{},"jsonrpc":"2.0","id":-0.0E-1,"result":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ms, batch, err := ParseBody(in)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Code != ParseError && syntax.Code != InvalidRequest {
				t.Fatalf("not a SyntaxError: %v", err)
			}
			if (syntax.Code == ParseError) == (json.Valid(in) && utf8.Valid(in)) {
				t.Fatalf("code %d for %q", syntax.Code, in)
			}
			NewError(syntax.ID, syntax.Code, syntax.Msg, nil)
			return
		}
		if !batch && len(ms) != 1 || len(ms) == 0 {
			t.Fatalf("%d messages, batch=%t", len(ms), batch)
		}
		for _, m := range ms {
			probe(t, m)
		}
	})
}

func probe(t *testing.T, m Message) {
	if bytes.ContainsAny(m.Bytes(), "\r\n") || !json.Valid(m.Bytes()) {
		t.Fatalf("not JSON on one line: %q", m.Bytes())
	}
	var std map[string]json.RawMessage // the last of members with equal names wins; Parse has refused those
	if err := json.Unmarshal(m.Bytes(), &std); err != nil {
		t.Fatal(err)
	}
	var method string
	_ = json.Unmarshal(std["method"], &method)
	for _, p := range []struct {
		name string
		got  []byte
	}{{"id", []byte(m.ID())}, {"params", m.Params()}, {"result", m.Result()}, {"error", m.Error()}} {
		if string(std[p.name]) != string(p.got) {
			t.Fatalf("%s of %s: got %s, encoding/json has %s", p.name, m, p.got, std[p.name])
		}
	}
	if method != m.Method() {
		t.Fatalf("method of %s: got %q, encoding/json has %q", m, m.Method(), method)
	}
	m.ParamString("name")
	if m.ID() != "" {
		if back := m.WithID(`"k"`).WithID(m.ID()); !bytes.Equal(back.Bytes(), m.Bytes()) {
			t.Fatalf("%s came back as %s", m, back)
		}
	}
	for _, path := range []string{TokenOfRequest, TokenOfProgress, "requestId"} {
		old := m.Param(path)
		if old == nil && m.Kind() != Response {
			m.WithParam(path, []byte("1"))
		}
		if old == nil {
			continue
		}
		n := m.WithParam(path, []byte(`"k"`))
		if string(n.Param(path)) != `"k"` {
			t.Fatalf("%s of %s was set and is %s", path, n, n.Param(path))
		}
		if back := n.WithParam(path, old); !bytes.Equal(back.Bytes(), m.Bytes()) {
			t.Fatalf("%s came back as %s", m, back)
		}
	}
}
