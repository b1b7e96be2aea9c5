package oracle

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAProgramIsReadAsItIsWritten(t *testing.T) {
	p, err := Parse(`
# a comment
backend kv
object a
  alarm 2
    ~setAlarm +1h
object u unique
call 1 a
  putMany k{3} "a b" "x\n"{2} v
  list prefix=k limit=2 reverse=true start="a b" x=y
  transaction
    !put x 1
  throw not today
reached p 2
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Program{
		Backend: "kv",
		Objects: []Object{
			{Name: "a", Handlers: map[string][]Op{"alarm 2": {{Name: "setAlarm", Args: []string{"+1h"}, Text: "setAlarm +1h", Detached: true}}}},
			{Name: "u", Kind: "unique", Handlers: map[string][]Op{}},
		},
		Steps: []Step{
			{Verb: "call", Args: []string{"1", "a"}, Line: 8, Ops: []Op{
				{Name: "put", Args: []string{"kkk", "a b", "x\nx\n", "v"}, Text: `putMany k{3} "a b" "x\n"{2} v`, Pairs: true},
				{
					Name: "list", Args: []string{"x=y"}, Text: `list prefix=k limit=2 reverse=true start="a b" x=y`,
					Opts: map[string]any{"prefix": "k", "limit": 2, "reverse": true, "start": "a b"},
				},
				{Name: "transaction", Args: []string{}, Text: "transaction", Body: []Op{{Name: "put", Args: []string{"x", "1"}, Text: "put x 1", Rethrow: true}}},
				{Name: "throw", Args: []string{"not today"}, Text: "throw not today"},
			}},
			{Verb: "reached", Args: []string{"p", "2"}, Line: 14},
		},
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
}

func TestAProgramThatIsNoneIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"cal 1 a\n  note":           `line 1: there is no step "cal"`,
		"call 1\n  note":            "line 1: call takes 2 to 2 arguments",
		"call 1 a":                  "line 1: call and send have ops below them",
		"end 1\n  note":             "line 1: call and send have ops below them",
		"object a\n  alrm\n":        `line 2: there is no handler "alrm"`,
		"object a b c":              "line 1: object takes a name",
		"call 1 a\n   note":         "line 2: indentation",
		"call 1 a\n    note":        "line 2: indentation",
		"call 1 a\n  put \"x 1":     "line 2:",
		"call 1 a\n  put x{many} 1": `line 2: "{many}" is not {n}`,
		"backend disk":              `line 1: there is no step "backend"`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// An op that the runtime's side does not know would be recorded as an error.
func TestEveryOpIsKnownToWorkerd(t *testing.T) {
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  (?:async )?(\w+)[(:]`).FindAllStringSubmatch(worker[strings.Index(worker, "const perform"):], -1) {
		known[m[1]] = true
	}
	var look func(name string, all []Op)
	look = func(name string, all []Op) {
		for _, op := range all {
			if !known[op.Name] {
				t.Errorf("%s: worker.mjs has no op %q", name, op.Name)
			}
			look(name, op.Body)
		}
	}
	for _, f := range read(t) {
		for _, o := range f.Program.Objects {
			for _, h := range o.Handlers {
				look(f.Name, h)
			}
		}
		for _, s := range f.Program.Steps {
			look(f.Name, s.Ops)
		}
	}
	if !known["put"] || known["nonsense"] {
		t.Error("the ops of worker.mjs are not found")
	}
}

func TestErrorsAreComparedByWhatTheyAre(t *testing.T) {
	got := Comparable("1 put x ! RangeError: Keys cannot be larger than 2048 bytes. A key of size 2049 was provided. [remote]\n" +
		"1 Error: boom [remote durableObjectReset]\n1 Error: A call waited [overloaded]\n")
	want := "1 put x ! not a key\n1 Error: boom [durableObjectReset]\n1 Error: A call waited [overloaded]\n"
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
}
