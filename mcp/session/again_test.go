package session

import (
	"log/slog"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestWhatIsRunAgain(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ceiling := Policy{}.WithDefaults().RunningCeiling
	kept := []byte(call7)
	for _, tc := range []struct {
		name string
		mode Reexecute
		row  owed
		why  Loss
		now  time.Duration // after the admission
		tune func(*state)
		want bool
	}{
		{name: "a call that was kept", mode: ReexecuteReadOnly, row: owed{Kept: kept}, why: Lost(ReasonExited), want: true},
		{name: "lost to a reset", mode: ReexecuteIdempotent, row: owed{Kept: kept}, why: LostTo(actor.MemoryLimit), want: true},
		{name: "just before its ceiling", mode: ReexecuteReadOnly, row: owed{Kept: kept}, why: Lost(ReasonRestart), now: ceiling - 1, want: true},
		{name: "at its ceiling", mode: ReexecuteReadOnly, row: owed{Kept: kept}, why: Lost(ReasonRestart), now: ceiling},
		{name: "the server has opted out since", mode: ReexecuteNever, row: owed{Kept: kept}, why: Lost(ReasonRestart)},
		{name: "the server is not configured any more", row: owed{Kept: kept}, why: Lost(ReasonRestart), tune: func(s *state) { s.cfg = nil }},
		{name: "not kept", mode: ReexecuteReadOnly, why: Lost(ReasonRestart)},
		{name: "kept, and not to be read", mode: ReexecuteReadOnly, row: owed{Kept: []byte("{")}, why: Lost(ReasonRestart)},
		{name: "lost once already", mode: ReexecuteReadOnly, row: owed{Kept: kept, Again: true}, why: Lost(ReasonRestart)},
		{name: "lost to a shutdown", mode: ReexecuteReadOnly, row: owed{Kept: kept}, why: LostTo(actor.Shutdown)},
		{name: "while its host drains", mode: ReexecuteReadOnly, row: owed{Kept: kept}, why: Lost(ReasonExited), tune: func(s *state) { s.draining = true }},
	} {
		cfg := &Server{Reexecute: tc.mode}
		cfg.defaults()
		st := &stream{id: "pa", post: true}
		r := tc.row
		r.ID, r.Method, r.since, r.Epoch, r.Gen, r.Started, r.stream, r.out = "7", "tools/call", t0, 1, 3, true, st, 9
		st.owes = []*owed{&r}
		s := &state{cfg: cfg, epoch: 2, log: slog.New(slog.DiscardHandler), live: []*owed{&r}, rt: runtime{rows: map[int64]*owed{9: &r}}}
		if tc.tune != nil {
			tc.tune(s)
		}
		var o out
		if got := s.again(&r, tc.why, t0.Add(tc.now), &o); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
			continue
		}
		if !tc.want {
			if len(o.puts)+len(s.rt.queue) > 0 || r.Epoch != 1 || len(s.rt.rows) != 1 {
				t.Errorf("%s: it was changed all the same", tc.name)
			}
			continue
		}
		if string(r.msg.Bytes()) != call7 || !r.Again || r.Epoch != 2 || r.out != 0 || !r.Started || len(s.rt.rows) != 0 || len(s.rt.queue) != 1 || len(o.puts) != 1 {
			t.Errorf("%s: the row is %+v, the batch %+v", tc.name, r, o.puts)
		}
		if l := s.look().leases; len(l) != 1 || l[0].until != t0.Add(ceiling) {
			t.Errorf("%s: it may run until %v after its admission, want %v", tc.name, l[0].until.Sub(t0), ceiling)
		}
	}
}

const call7 = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","n":1.50}}`

// Lists are bounded: what stands beyond is not known, and so not repeated (I12).
func TestListsOfToolsAreBounded(t *testing.T) {
	cfg := &Server{Reexecute: ReexecuteReadOnly}
	cfg.defaults()
	page := func(first, n int, more string) wire.Message {
		type tool struct {
			Name        string          `json:"name"`
			Annotations map[string]bool `json:"annotations"`
		}
		var tools []tool
		for i := range n {
			tools = append(tools, tool{Name: string(numberID(int64(first + i))), Annotations: map[string]bool{"readOnlyHint": true}})
		}
		return wire.NewResult("1", encode(map[string]any{"tools": tools, "nextCursor": more}))
	}
	begin := func() *state {
		return &state{cfg: cfg, log: slog.New(slog.DiscardHandler), said: &said{}, rt: runtime{phase: ready, own: map[int64]string{}, list: &toolList{tools: map[string]hints{}}}}
	}
	s, o := begin(), &out{}
	s.onTools(page(0, maxHinted+1, ""), o)
	if n := len(s.repeatable); n != maxHinted || s.repeatable[string(numberID(maxHinted))] {
		t.Errorf("%d tools are known, the limit is %d", n, maxHinted)
	}
	long := map[string]hints{"z": 0}
	for i := range maxHinted {
		long[string(numberID(int64(10_000+i)))+"/12345678"] = readOnly
	}
	if set := nameSet(long, readOnly); len(set) > maxSaid || len(set) < maxSaid-20 || !has(set, "10000/12345678") || has(set, "10999/12345678") {
		t.Errorf("%d bytes of names are kept, the limit is %d", len(set), maxSaid)
	}
	s, o = begin(), &out{}
	for i := range maxToolPages {
		if s.rt.list == nil {
			t.Fatalf("the list ended after %d pages, the limit is %d", i, maxToolPages)
		}
		s.onTools(page(i, 1, "more"), o)
	}
	if s.rt.list != nil || len(s.repeatable) != maxToolPages {
		t.Errorf("%d tools of %d pages are known", len(s.repeatable), maxToolPages)
	}
}
