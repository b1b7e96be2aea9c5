package front

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestValidateReportsAll(t *testing.T) {
	_, err := New(Options{
		MaxBody: -1, MaxBatch: -1, KeepAlive: 26 * time.Second, AttachLimit: -1,
		AllowedHosts: []string{"http://a", ""}, AllowedOrigins: []string{"app.example", "https://a/b", "*", "null", "https://ok:1"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Sessions", "Server", "MaxBody is", "MaxBatch", "KeepAlive is 26s", "AttachLimit", `"http://a"`, `""`, `"app.example"`, `"https://a/b"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in\n%v", want, err)
		}
	}
	for _, no := range []string{`"*"`, `"null"`, "https://ok:1", "MaxStreams"} {
		if strings.Contains(err.Error(), no) {
			t.Errorf("%s is in\n%v", no, err)
		}
	}
	if _, err := New(Options{Sessions: sessionsFunc(instant), Server: "s", MaxBody: 100, MaxBodies: 99}); err == nil {
		t.Error("MaxBodies below MaxBody was accepted")
	}
	if _, err := New(Options{Sessions: sessionsFunc(instant), Server: "s", KeepAlive: MaxKeepAlive}); err != nil {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	got := Options{}.withDefaults()
	got.Clock, got.Logger = nil, nil
	const want = "MaxBody:16777216 MaxBodies:536870912 MaxBatch:100 MaxStreams:10000 Pending:8388608 KeepAlive:25s Hold:50ms StreamAge:30m0s Retry:1s " +
		"OpeningLimit:15s AttachLimit:750ms MaxAttaching:256 AttachWait:15s BodyLimit:30s WriteLimit:30s"
	if s := fmt.Sprintf("%+v", got); !strings.Contains(s, want) {
		t.Errorf("got %s", s)
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		accept       string
		json, stream bool
	}{
		{"application/json, text/event-stream", true, true},
		{"text/event-stream,application/json", true, true},
		{"application/json", true, false},
		{"text/event-stream", false, true},
		{"*/*", true, true},
		{"text/html, */*;q=0.1", true, true},
		{"APPLICATION/JSON; charset=utf-8", true, false},
		{"application/*", true, false},
		{"text/*", false, true},
		{"*/*, text/event-stream;q=0", true, false},
		{"text/event-stream;q=0.0, */*", true, false},
		{"text/event-stream;q=0, text/*", false, false},
		{"application/json;q=0.5;x=y", true, false},
		{"application/json;q=banana", true, false},
		{"application/jsonp", false, false},
		{"", false, false},
		{";;,,", false, false},
	} {
		if got := accepts([]string{c.accept}, typeJSON); got != c.json {
			t.Errorf("%q accepts JSON: %t", c.accept, got)
		}
		if got := accepts([]string{c.accept}, typeStream); got != c.stream {
			t.Errorf("%q accepts streams: %t", c.accept, got)
		}
	}
	if !accepts(nil, typeJSON) || !accepts([]string{"text/html", "application/json"}, typeJSON) {
		t.Error("no header, or the second of two, does not count")
	}
}

// TestOwedIsAMultiset: each answer takes out one request with its id, the order of
// the others stays, and what is left are the requests that nobody answered.
func TestOwedIsAMultiset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.SampledFrom([]wire.ID{"1", `"1"`, "1.0", "2"}), 0, 8)
		asked, answers := ids.Draw(t, "asked"), ids.Draw(t, "answers")
		ms := []wire.Message{wire.NewNotification("n", nil), wire.NewResult("1", []byte("{}"))}
		want := map[wire.ID]int{}
		for _, id := range asked {
			ms = append(ms, wire.NewRequest(id, "m", nil))
			want[id]++
		}
		o := owedFor(ms)
		if len(o) != len(asked) || (o == nil) != (len(asked) == 0) {
			t.Fatalf("%d requests are owed %d answers", len(asked), len(o))
		}
		for _, id := range answers {
			if request, ok := o.answered(id); ok != (want[id] > 0) || ok && request.ID() != id {
				t.Fatalf("answer to %s: %d were owed, and it is to %s", id, want[id], request)
			}
			want[id] = max(want[id]-1, 0)
		}
		got := map[wire.ID]int{}
		for _, m := range o.lost(session.Lost(session.ReasonRestart)) {
			got[m.ID()]++
		}
		for id, n := range want {
			if got[id] != n {
				t.Fatalf("%d answers to %s are left, want %d", got[id], id, n)
			}
		}
		if len(o) == 1 && o.id() != o[0].ID() || len(o) != 1 && o.id() != "" {
			t.Fatalf("id is %s", o.id())
		}
	})
}

// TestLostNamesTheTool: each error says which tool was called.
func TestLostNamesTheTool(t *testing.T) {
	o := owedFor([]wire.Message{
		wire.NewRequest("1", "tools/call", []byte(`{"name":"add"}`)),
		wire.NewRequest("2", "prompts/get", []byte(`{"name":"p"}`)),
		wire.NewRequest(`"3"`, "tools/call", []byte(`{"name":"sub"}`)),
	})
	var got []string
	for _, m := range o.lost(session.Loss{Reason: "r", Sentence: "Because."}) {
		got = append(got, m.String())
	}
	if !strings.Contains(got[0], `"tool":"add"`) || strings.Contains(got[1], `"tool"`) || !strings.Contains(got[2], `"tool":"sub"`) {
		t.Errorf("got %q", got)
	}
}

// TestEventsReadBack: what is written as events is read back as the same events by
// the rules of the HTML standard, whatever lies between them.
func TestEventsReadBack(t *testing.T) {
	type event struct{ id, data string }
	rapid.Check(t, func(t *rapid.T) {
		w := httptest.NewRecorder()
		s := newSSE(w, "abc", time.Second)
		defer s.close()
		var want []event
		last := ""
		for range rapid.IntRange(0, 10).Draw(t, "n") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				s.comment("keepalive")
			case 1:
				s.retry(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "retry")) * time.Millisecond)
			case 2:
				if err := s.flush(); err != nil {
					t.Fatal(err)
				}
			default:
				e := event{rapid.StringMatching(`([a-z0-9.!]{1,20})?`).Draw(t, "id"), rapid.StringMatching(`[ -~é:]{1,30}`).Draw(t, "data")}
				if n := rapid.SampledFrom([]int{0, 0, 0, gatherUpTo, writeAtOnce}).Draw(t, "size"); n > 0 {
					e.data += strings.Repeat("x", n)
				}
				if err := s.event(e.id, []byte(e.data)); err != nil {
					t.Fatal(err)
				}
				if e.id != "" {
					last = e.id
				}
				want = append(want, event{last, e.data})
			}
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		var got []event
		var id string
		var data []string
		for line := range bytes.Lines(w.Body.Bytes()) {
			name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				id = value
			case "data":
				data = append(data, value)
			case "":
				if string(line) == "\n" && data != nil {
					got, data = append(got, event{id, strings.Join(data, "\n")}), nil
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %.300v, want %.300v", got, want)
		}
	})
}
