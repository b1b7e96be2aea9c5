package stdio

import (
	"errors"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestAnInvalidAnswerIsStillAnAnswer(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}`: "7",
		`{"jsonrpc":"2.0","id":7}`:                                       "7",
		`{"jsonrpc":"1.0","id":7,"result":{}}`:                           "7",
		`{"jsonrpc":"2.0","id":7,"method":"x","result":{}}`:              "",
		`{"jsonrpc":"2.0","result":{}}`:                                  "",
		`{"jsonrpc":"2.0","method":"notifications/x","params":7}`:        "",
		`{"jsonrpc":"2.0","id":7,"method":"sampling/create","params":7}`: "",
	} {
		_, err := wire.Parse([]byte(line))
		if err == nil {
			t.Fatalf("%s is valid", line)
		}
		m, ok := invalidAnswer([]byte(line), err)
		if ok != (want != "") || ok && (string(m.ID()) != want || !m.IsError()) {
			t.Errorf("%s: answered with %s", line, m)
		}
	}
}

func TestAnAnswerThatIsTooLongIsStillAnAnswer(t *testing.T) {
	pad := `"` + strings.Repeat("x", 5000) + `"`
	for _, c := range []struct {
		line, id string
		lost     bool
	}{
		{`{"jsonrpc":"2.0","id":12,"result":` + pad + `}`, "12", false},
		{`{"id":12,"jsonrpc":"2.0","error":` + pad + `}`, "12", false},
		{`{"result":` + pad + `,"jsonrpc":"2.0","id":12}`, "12", false},
		{`{"jsonrpc":"2.0","result":` + pad + `,"id":12}`, "12", false},
		{`{"result":[` + pad + `],"id":12,"jsonrpc":"2.0"}`, "12", false},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":` + pad + `}`, "", false},
		{`{"jsonrpc":"2.0","id":12,"method":"sampling/createMessage","params":` + pad + `}`, "", false},
		{`{"jsonrpc":"2.0","result":{"a":[` + pad + `,{"id":3}]}}`, "", true},
		{`a banner ` + pad, "", false},
	} {
		l := newLines(strings.NewReader(c.line+"\n{}\n"), 1000)
		_, long, err := l.next()
		if err != nil || long.size != int64(len(c.line)) {
			t.Fatalf("%.40s: %d bytes of %d, %v", c.line, long.size, len(c.line), err)
		}
		m, ok, lost := longAnswer(long, 1000)
		if ok != (c.id != "") || lost != c.lost || ok && (string(m.ID()) != c.id || !m.IsError()) {
			t.Errorf("%.60s: answered with %s, lost %v", c.line, m, lost)
		}
		if next, _, err := l.next(); err != nil || string(next) != "{}" {
			t.Errorf("the next line is %q, %v", next, err)
		}
	}
}

func TestALineThatDoesNotEndIsGivenUp(t *testing.T) {
	l := newLines(strings.NewReader(strings.Repeat("x", 1000*(endless+1))), 1000)
	if _, _, err := l.next(); !errors.Is(err, errEndless) {
		t.Fatalf("got %v", err)
	}
}
