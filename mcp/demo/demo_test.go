package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/demo"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each case calls a tool with arguments (raw JSON) and says what must be in the
// answer's text; "error: " in front of it means isError.
func TestToolsAnswer(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	for _, c := range []struct{ tool, arguments, want string }{
		{"echo", `{"text":"Grüße, <b>\u2028 \"ça\""}`, "Grüße, <b>\u2028 \"ça\""},
		{"echo", `{"text":""}`, ""},
		{"echo", `{}`, `error: the arguments are invalid: `},
		{"echo", `{"text":7}`, `error: the arguments are invalid: `},
		{"echo", `{"text":"a","more":1}`, `more`},
		{"add", `{"a":1,"b":2}`, "3"},
		{"add", `{"a":0.5,"b":-3}`, "-2.5"},
		{"add", `{"a":1e300,"b":1e300}`, "2e+300"},
		{"add", `{"a":1.7e308,"b":1.7e308}`, "error: the sum is too large"},
		{"add", `{"a":1e999,"b":1}`, "error: "},
		{"add", `{"a":"1","b":2}`, `error: the arguments are invalid: `},
		{"add", `{"a":1}`, `error: the arguments are invalid: `},
		{"add", `{"a":null,"b":2}`, `error: the arguments are invalid: `},
		{"sleep", `{"ms":0}`, "slept 0 ms"},
		{"sleep", `{"ms":-1}`, "error: ms must be between 0 and 600000, not -1"},
		{"sleep", `{"ms":600001}`, "error: ms must be between 0 and 600000, not 600001"},
		{"sleep", `{"ms":1,"steps":0}`, "error: steps must be between 1 and 1000, not 0"},
		{"sleep", `{"ms":-1,"steps":-1}`, "error: ms must be between 0 and 600000, not -1\nsteps must be"},
		{"sleep", `{"ms":1.5}`, `error: `},
		{"sleep", `{"ms":1e30}`, `error: `},
		{"fail", `{}`, "error: this tool always fails"},
		{"ask", `{"question":"Why?"}`, "error: this client can't ask a person"},
		{"ask", `{"question":" "}`, "error: question must not be empty"},
		{"alloc", `{"mib":0}`, "error: mib must be between 1 and 4096, not 0"},
		{"alloc", `{"mib":-5}`, "error: mib must be between 1 and 4096, not -5"},
		{"alloc", `{"mib":5000}`, "error: mib must be between 1 and 4096, not 5000"},
		{"free", `{}`, "freed 0 MiB"},
		{"spin", `{"ms":3}`, "spun 3 ms"},
		{"spin", `{"ms":60001}`, "error: ms must be between 0 and 60000, not 60001"},
	} {
		got := h.Call(c.tool, json.RawMessage(c.arguments)).String()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.tool, c.arguments, got, c.want)
		}
	}
	if m := h.Answer(h.GoCall("nonesuch", struct{}{})); !strings.Contains(string(m.Error()), "nonesuch") {
		t.Errorf("an unknown tool: %s", m)
	}
}

func TestHintsSayWhatAToolDoes(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	var list struct {
		Tools []struct {
			Name        string
			Description string
			Annotations struct {
				ReadOnlyHint, IdempotentHint bool
				DestructiveHint              *bool
			}
		}
	}
	if err := json.Unmarshal(h.Do("tools/list", nil).Result(), &list); err != nil {
		t.Fatal(err)
	}
	changing := map[string]bool{"incr": true, "alloc": true, "free": true}
	if len(list.Tools) != 9 {
		t.Errorf("%d tools", len(list.Tools))
	}
	for _, tool := range list.Tools {
		a := tool.Annotations
		if a.ReadOnlyHint == changing[tool.Name] || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
		if changing[tool.Name] && (a.DestructiveHint == nil || *a.DestructiveHint || a.IdempotentHint != (tool.Name == "free")) {
			t.Errorf("%s: %+v", tool.Name, a)
		}
	}
}

func TestTheCounterOutlivesTheRuntimeAndBelongsToTheSession(t *testing.T) {
	p, state := demo.Plugin(), new(gosdktest.State)
	n := 0
	for range 3 {
		h := gosdktest.Start(t, p, gosdktest.Options{State: state})
		for range 2 {
			n++
			if got := h.Call("incr", nil).String(); got != fmt.Sprint(n) {
				t.Errorf("incr: %s, want %d", got, n)
			}
		}
		h.Close()
	}
	other := gosdktest.Start(t, p, gosdktest.Options{ID: "other"})
	if got := other.Call("incr", nil).String(); got != "1" {
		t.Errorf("incr of another session: %s", got)
	}
	damaged := new(gosdktest.State)
	if err := damaged.Put(t.Context(), "demo/counter", []byte("x")); err != nil {
		t.Fatal(err)
	}
	h := gosdktest.Start(t, p, gosdktest.Options{State: damaged})
	if got := h.Call("incr", nil).String(); !strings.Contains(got, "error: the counter is damaged") {
		t.Errorf("incr: %s", got)
	}
}

func TestTheCounterCountsEachCallOnce(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	seen := make(map[string]bool)
	var ids []wire.ID
	for range 50 {
		ids = append(ids, h.GoCall("incr", nil))
	}
	for _, id := range ids {
		got := h.Result(id).String()
		if seen[got] {
			t.Errorf("%s twice", got)
		}
		seen[got] = true
	}
}

func TestSleepReportsProgressToWhoAsked(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	id := h.GoCall("sleep", map[string]any{"ms": 40, "steps": 4})
	start := time.Now()
	h.Result(id)
	if d := time.Since(start); d < 35*time.Millisecond {
		t.Errorf("slept %v", d)
	}
	var got []string
	for _, s := range h.Sent() {
		if s.Is("notifications/progress") {
			got = append(got, fmt.Sprintf("%s %s %s/%s", s.About, s.Param("progressToken"), s.Param("progress"), s.Param("total")))
		}
	}
	want := fmt.Sprintf(`[%s "p%[1]s" 1/4 %[1]s "p%[1]s" 2/4 %[1]s "p%[1]s" 3/4 %[1]s "p%[1]s" 4/4]`, id)
	if fmt.Sprint(got) != want {
		t.Errorf("progress %v, want %s", got, want)
	}
	before := len(h.Sent())
	h.Do("tools/call", map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 1}})
	if after := h.Sent()[before:]; len(after) != 1 {
		t.Errorf("nobody asked for progress: %v", after)
	}
}

func TestSleepCanBeCancelled(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	id := h.GoCall("sleep", map[string]any{"ms": 600000})
	h.Do("ping", nil) // answered after sleep has begun
	h.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(id)})
	if got := h.Result(id).String(); got != "error: context canceled" {
		t.Errorf("a cancelled sleep: %s", got)
	}
}

func TestAskAnswersWhatThePersonSaid(t *testing.T) {
	for reply, want := range map[string]string{
		`{"action":"accept","content":{"answer":"42"}}`: "42",
		`{"action":"accept","content":{}}`:              "error: asking the person failed: elicitation result content does not match",
		`{"action":"decline"}`:                          "The person declined to answer.",
		`{"action":"cancel"}`:                           "The person closed the question",
		`{"action":"shrug"}`:                            `error: the client answered with the unknown action "shrug"`,
	} {
		h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{
			Capabilities: map[string]any{"elicitation": map[string]any{}},
			Answer: func(m wire.Message) wire.Message {
				if !m.Is("elicitation/create") || m.ParamString("message") != "Why?" {
					t.Errorf("asked %s", m)
				}
				return wire.NewResult(m.ID(), []byte(reply))
			},
		})
		if got := h.Call("ask", map[string]any{"question": "Why?"}).String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", reply, got, want)
		}
	}
}

func TestAllocIsChargedUntilItIsFreed(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{Budget: 10 << 20})
	base := h.Charged()
	for _, c := range []struct {
		tool string
		mib  int
		want string
		held int64
	}{
		{"alloc", 3, "keeping 3 MiB", 3},
		{"alloc", 4, "keeping 7 MiB", 7},
		{"alloc", 4, "error: 4 MiB are refused: ", 7},
		{"free", 0, "freed 7 MiB", 0},
		{"free", 0, "freed 0 MiB", 0},
		{"alloc", 9, "keeping 9 MiB", 9},
	} {
		arguments := map[string]any{}
		if c.mib > 0 {
			arguments["mib"] = c.mib
		}
		if got := h.Call(c.tool, arguments).String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %d: %q, want %q", c.tool, c.mib, got, c.want)
		}
		if held := (h.Charged() - base) >> 20; held != c.held {
			t.Errorf("%s %d: %d MiB charged, want %d", c.tool, c.mib, held, c.held)
		}
	}
}

func TestADisposedRuntimeKeepsNoMemory(t *testing.T) {
	p := demo.Plugin()
	gone := make(chan bool)
	func() {
		var once sync.Once
		watched := mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
			w := &struct{ mcp.Session }{s}
			once.Do(func() { runtime.AddCleanup(w, func(gone chan bool) { close(gone) }, gone) })
			return p.Build(ctx, w)
		})
		h := gosdktest.Start(t, watched, gosdktest.Options{})
		h.Call("alloc", map[string]any{"mib": 1})
		h.Close()
		h.Runtime = closed{}
	}()
	for range 200 {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("a closed runtime is still held by the plugin")
}

type closed struct{ mcp.Runtime }

func (closed) Close(context.Context) error { return nil }

func TestSpinIsDeafToCancellation(t *testing.T) {
	h := gosdktest.Start(t, demo.Plugin(), gosdktest.Options{})
	id := h.GoCall("spin", map[string]any{"ms": 50})
	h.Do("ping", nil) // answered after spin has begun
	h.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(id)})
	if got := h.Result(id).String(); !strings.HasPrefix(got, "spun 50 ms") {
		t.Errorf("spin: %s", got)
	}
}
