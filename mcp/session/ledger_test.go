package session

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// The rules of the ledger that a step of the machine shows: what one batch holds,
// and in which order what follows it is done.

// bench is a session's machine whose events are the test's.
type bench struct {
	*testing.T
	*state
	now time.Time
	out out // of the last step
}

// newBench returns a session that is initialized, with its first runtime ready.
func newBench(t *testing.T) *bench {
	srv := &Server{Name: "model"}
	srv.defaults()
	svc := &Service{log: slog.New(slog.DiscardHandler), servers: newRoster(map[string]*Server{"model": srv})}
	b := &bench{T: t, state: newState("s", 7, svc), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.post("init", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	b.ready()
	return b
}

func (b *bench) do(event any) out {
	b.now = b.now.Add(time.Millisecond)
	b.out = out{}
	b.step(event, b.now, &b.out)
	return b.out
}

func (b *bench) post(stream, message string) *Socket {
	sock := NewSocket(0)
	b.do(&Post{Socket: sock, Caller: Caller{Server: "model"}, Stream: stream, Messages: []wire.Message{mustParse([]byte(message))}, Create: stream == "init"})
	return sock
}

func (b *bench) call(stream, id string) *Socket {
	return b.post(stream, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"x"}}`)
}

// ready ends the building of the present generation.
func (b *bench) ready() {
	b.do(built{gen: b.rt.gen})
	b.answer(b.rt.gen, b.rt.next, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
}

// answer is the runtime's answer to a request by our id.
func (b *bench) answer(gen uint64, id int64, result string) {
	b.do(fromRuntime{gen: gen, msg: wire.NewResult(numberID(id), []byte(result))})
}

// has finds an effect of the last step, -1 when there is none.
func (b *bench) has(what func(effect) bool) int { return slices.IndexFunc(b.out.effects, what) }

func isBuild(e effect) bool { _, is := e.(build); return is }

func delivers(part string) func(effect) bool {
	return func(e effect) bool { d, is := e.(deliver); return is && strings.Contains(d.msg.String(), part) }
}

func ends(sock *Socket) func(effect) bool {
	return func(e effect) bool { d, is := e.(endSocket); return is && d.sock == sock }
}

func pushes(sock *Socket, part string) func(effect) bool {
	return func(e effect) bool {
		d, is := e.(push)
		return is && d.sock == sock && strings.Contains(string(d.frame.Data), part)
	}
}

// put is the value that the last step's batch stores under a key with a prefix.
func (b *bench) put(prefix string) string {
	for _, p := range slices.Backward(b.out.puts) {
		if strings.HasPrefix(p.Key, prefix) {
			return string(p.Value)
		}
	}
	return ""
}

// discharges checks that the last step's batch deletes the row of a stream's first
// request and stores its answer.
func (b *bench) discharges(stream, answer string) {
	b.Helper()
	if !slices.Contains(b.out.deletes, "q/p"+stream+"/000") || !strings.Contains(b.put("e/p"+stream+"/"), answer) {
		b.Errorf("stream %s is not discharged with %q in one commit: deletes %v, puts %q", stream, answer, b.out.deletes, b.out.puts)
	}
}

// (d) Whatever ends a generation discharges what it owes, in one commit, before the
// next is built; what comes meanwhile waits for that.
func TestEndOfAGenerationDischargesItsRowsRuleD(t *testing.T) {
	for name, tc := range map[string]struct {
		event  any
		answer string
		over   bool // nothing is built any more
	}{
		"the child exits":   {exited{1, errors.New("exit status 3")}, `"reason":"exited"`, false},
		"the host drains":   {hasten{}, `"reason":"shutdown"`, false},
		"DELETE":            {&Delete{Socket: NewSocket(0), Caller: Caller{Server: "model"}}, `"reason":"ended"`, true},
		"the build fails":   {built{gen: 2, err: errors.New("no such file")}, `"reason":"not_started"`, false},
		"the build is late": {ring{}, `"reason":"not_started"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if strings.HasPrefix(name, "the build") { // of a second generation
				b.do(exited{1, nil})
				b.do(closed{1})
			}
			b.call("a", "1")
			if name == "the build is late" {
				b.now = b.now.Add(b.cfg.BuildTimeout)
			}
			b.do(tc.event)
			b.discharges("a", tc.answer)
			if b.has(isBuild) >= 0 || b.rt.phase != closing {
				t.Errorf("phase %d, effects %v", b.rt.phase, b.out.effects)
			}
			if tc.over {
				return
			}
			b.call("b", "2")
			if b.has(isBuild) >= 0 {
				t.Error("the next generation is built before this one is reaped")
			}
			if b.do(closed{b.rt.gen}); b.has(isBuild) < 0 {
				t.Error("the next generation is not built")
			}
		})
	}
}

// (d) What an older generation still says is dropped, also where its ids are those
// of the present one.
func TestOlderGenerationsAreNotHeardRuleD(t *testing.T) {
	b := newBench(t)
	b.call("a", "1")
	b.do(exited{1, nil})
	b.do(closed{1})
	sock := b.call("b", "2")
	b.ready()
	live := b.live[0].out
	for name, event := range map[string]any{
		"an answer":      fromRuntime{gen: 1, msg: wire.NewResult(numberID(live), []byte(`{"old":true}`))},
		"a notification": fromRuntime{gen: 1, msg: wire.NewNotification("notifications/message", nil), about: numberID(live)},
		"a request":      fromRuntime{gen: 1, msg: wire.NewRequest("1", "sampling/createMessage", nil), about: numberID(live)},
		"its exit":       exited{1, errors.New("late")},
		"its end":        closed{1},
		"its build":      built{gen: 1},
		"its parking":    endStream{gen: 1, about: numberID(live)},
	} {
		if o := b.do(event); len(o.puts)+len(o.deletes)+len(o.effects) > 0 || b.rt.phase != ready {
			t.Errorf("%s of an older generation: puts %q, deletes %v, effects %v, phase %d", name, o.puts, o.deletes, o.effects, b.rt.phase)
		}
	}
	b.answer(2, live, `{"new":true}`)
	b.discharges("b", `"new":true`)
	if b.has(pushes(sock, `"new":true`)) < 0 {
		t.Error("the answer of the present generation is not sent")
	}
}

// (f) One stream carries an answer, and its log stores it.
func TestAnswerIsCarriedByOneStreamRuleF(t *testing.T) {
	const get, post = "e/gget/", "e/pa/"
	for _, tc := range []struct {
		name    string
		version string
		gone    bool // the POST's client
		get     bool // there is a GET
		carrier string
	}{
		{"the POST's while it is attached", "2025-06-18", false, true, post},
		{"the POST's while it can be resumed", "2025-11-25", true, true, post},
		{"the GET's else", "2025-06-18", true, true, get},
		{"the POST's where there is no other", "2025-06-18", true, false, post},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.meta.Version = tc.version
			sock := b.call("a", "1")
			var other *Socket
			if tc.get {
				other = NewSocket(0)
				b.do(&Get{Socket: other, Caller: Caller{Server: "model"}, Stream: "get"})
			}
			if tc.gone {
				b.do(&Gone{Socket: sock})
			}
			b.answer(1, b.rt.next, `{"done":true}`)
			for _, log := range []string{get, post} {
				if stored := b.put(log) != ""; stored != (log == tc.carrier) {
					t.Errorf("stored in %s: %v", log, stored)
				}
			}
			if sent := b.has(pushes(other, "done")) >= 0; sent != (tc.carrier == get) {
				t.Errorf("sent to the GET: %v", sent)
			}
			if sent := b.has(pushes(sock, "done")) >= 0; sent == tc.gone {
				t.Errorf("sent to the POST: %v", sent)
			}
		})
	}
}

// (f) A resumed stream that owes nothing ends after its replay.
func TestResumedStreamThatOwesNothingEndsRuleF(t *testing.T) {
	b := newBench(t)
	b.do(&Gone{Socket: b.call("a", "1")})
	b.answer(1, b.rt.next, `{"done":true}`)
	sock := NewSocket(0)
	b.do(&Get{Socket: sock, Caller: Caller{Server: "model"}, After: EventID{"pa", 7, 0}.String()})
	if b.has(ends(sock)) >= 0 || len(b.out.reads) != 1 {
		t.Fatalf("before its replay: effects %v, reads %v", b.out.effects, b.out.reads)
	}
	r := b.out.reads[0]
	b.do(page{st: r.st, socket: r.socket, from: r.after, last: EventID{"pa", 7, 1}, frames: []Frame{{ID: "pa.7.1", Data: []byte(`{"done":true}`), Answers: "1"}}})
	if sent, end := b.has(pushes(sock, "done")), b.has(ends(sock)); sent < 0 || end < sent {
		t.Fatalf("the replay: effects %v", b.out.effects)
	}
}

// A stream that was delivered to its end is told once more page by page, to its last one:
// that the client has a page is not that it has all.
func TestADeliveredStreamIsReplayedToItsEndI11(t *testing.T) {
	b := newBench(t)
	sock := b.call("a", "1")
	b.answer(1, b.rt.next, `{"done":true}`)
	b.do(&Flushed{Socket: sock, Event: EventID{"pa", 7, 1}.String()})
	again := NewSocket(0)
	b.do(&Get{Socket: again, Caller: Caller{Server: "model"}, After: EventID{"pa", 7, 0}.String()})
	if len(b.out.reads) != 1 {
		t.Fatalf("it reads %v", b.out.reads)
	}
	r := b.out.reads[0]
	first := EventID{"pa", 7, 1}
	b.do(page{st: r.st, socket: r.socket, from: r.after, last: first, frames: []Frame{{ID: first.String(), Data: []byte(`{"n":1}`)}}, more: true})
	b.do(&Flushed{Socket: again, Event: first.String()})
	if len(b.out.reads) != 1 || b.out.reads[0].after != first {
		t.Fatalf("after its first page it reads %v", b.out.reads)
	}
	b.do(page{st: r.st, socket: r.socket, from: first, last: EventID{"pa", 7, 2}, frames: []Frame{{ID: "pa.7.2", Data: []byte(`{"n":2}`)}}})
	if sent, end := b.has(pushes(again, `"n":2`)), b.has(ends(again)); sent < 0 || end < sent {
		t.Errorf("its last page: effects %v", b.out.effects)
	}
}

// (g) Of two attachments to one stream the later counts: the one before it is not
// written to, and what it confirms is not believed.
func TestSupersededAttachmentIsSilentRuleG(t *testing.T) {
	b := newBench(t)
	old := b.call("a", "1")
	id := b.rt.next
	late := NewSocket(0)
	b.do(&Get{Socket: late, Caller: Caller{Server: "model"}, After: EventID{"pa", 7, 0}.String()})
	if b.has(ends(old)) < 0 {
		t.Error("the earlier attachment goes on")
	}
	r := b.out.reads[0]
	b.do(page{st: r.st, socket: r.socket, from: r.after, last: r.after})
	b.answer(1, id, `{"done":true}`)
	if b.has(pushes(old, "")) >= 0 || b.has(pushes(late, "done")) < 0 {
		t.Errorf("effects %v", b.out.effects)
	}
	st := b.streams["pa"]
	b.do(&Flushed{Socket: old, Event: st.last.String()})
	if st.flushed == st.last {
		t.Error("a superseded attachment has confirmed an event, and it would be dropped")
	}
	b.do(&Gone{Socket: old})
	if st.socket != late {
		t.Error("the end of a superseded attachment has ended the later one")
	}
	b.do(&Flushed{Socket: late, Event: st.last.String()})
	if st.flushed != st.last {
		t.Error("the later attachment is not believed")
	}
}

// (i) A row says that its request was started in the batch before it is sent: at
// once where the runtime is resident, else when it has become so.
func TestStartedIsCommittedBeforeTheRequestIsSentRuleI(t *testing.T) {
	const started = `"started":true`
	b := newBench(t)
	b.call("a", "1")
	if !strings.Contains(b.put("q/pa/"), started) || b.has(delivers("tools/call")) < 0 {
		t.Errorf("resident: %q, effects %v", b.out.puts, b.out.effects)
	}
	b.do(exited{1, nil})
	b.do(closed{1})
	b.call("b", "2")
	if row := b.put("q/pb/"); row == "" || strings.Contains(row, started) || b.has(delivers("tools/call")) >= 0 {
		t.Errorf("cold, admitted: %q, effects %v", b.out.puts, b.out.effects)
	}
	b.ready()
	if !strings.Contains(b.put("q/pb/"), started) || b.has(delivers("tools/call")) < 0 {
		t.Errorf("cold, sent: %q, effects %v", b.out.puts, b.out.effects)
	}
}

// (j) A cancelled request releases its front at once: its row goes with the commit,
// then the runtime is told, under our id, then the stream ends without an answer.
// What the runtime still says of it is dropped.
func TestCancelReleasesTheFrontAtOnceRuleJ(t *testing.T) {
	b := newBench(t)
	sock := b.call("a", "1")
	id := b.rt.next
	b.post("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if !slices.Contains(b.out.deletes, "q/pa/000") || b.put("e/") != "" {
		t.Errorf("the batch deletes %v and puts %q", b.out.deletes, b.out.puts)
	}
	told, ended := b.has(delivers(fmt.Sprintf(`"requestId":%d`, id))), b.has(ends(sock))
	if told < 0 || ended < told || b.has(pushes(sock, "")) >= 0 {
		t.Errorf("the runtime is told at %d and the stream ends at %d of %v", told, ended, b.out.effects)
	}
	b.answer(1, id, `{"late":true}`)
	if len(b.out.effects) > 0 || b.put("e/") != "" {
		t.Errorf("a late answer: puts %q, effects %v", b.out.puts, b.out.effects)
	}
}

// (c) Discharging a row succeeds once, whatever comes first; what comes later is
// dropped.
func TestDischargeSucceedsOnceRuleC(t *testing.T) {
	cancel := mustParse([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	endings := map[string]func(b *bench, r *owed, id int64){
		"a result": func(b *bench, _ *owed, id int64) { b.answer(1, id, `{"done":true}`) },
		"a loss":   func(b *bench, _ *owed, _ int64) { b.do(exited{1, nil}) },
		"a deadline": func(b *bench, _ *owed, _ int64) {
			b.do(&Expire{Socket: NewSocket(0), Stream: "a", Why: Lost(ReasonDeadline)})
		},
		"a cancel": func(b *bench, _ *owed, _ int64) {
			b.do(&Post{Socket: NewSocket(0), Caller: Caller{Server: "model"}, Messages: []wire.Message{cancel}})
		},
		"another answer": func(b *bench, r *owed, _ int64) {
			b.out = out{}
			b.discharge(r, wire.NewResult(r.ID, []byte(`{"more":true}`)), &b.out)
		},
	}
	for first, one := range endings {
		for second, other := range endings {
			t.Run(first+" and then "+second, func(t *testing.T) {
				b := newBench(t)
				b.call("a", "1")
				r, id := b.live[0], b.rt.next
				one(b, r, id)
				if !slices.Contains(b.out.deletes, "q/pa/000") || (b.put("e/pa/") == "") != (first == "a cancel") {
					t.Fatalf("the first deletes %v and puts %q", b.out.deletes, b.out.puts)
				}
				if other(b, r, id); b.put("e/pa/") != "" || len(b.out.settled) > 0 {
					t.Errorf("the second puts %q and is counted %d times", b.out.puts, len(b.out.settled))
				}
			})
		}
	}
}

// A strike that waits for a tool finds it also behind others in a batch.
func TestEveryRequestOfABatchComesToThePoints(t *testing.T) {
	b := newBench(t)
	b.meta.Version = batching
	b.do(&Post{Socket: NewSocket(0), Caller: Caller{Server: "model"}, Stream: "b", Batch: true, Messages: []wire.Message{
		mustParse([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)),
		mustParse([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)),
	}})
	for _, p := range []actor.Point{actor.BeforeCommit, actor.AfterCommit, actor.AfterDelivery} {
		if b.has(func(e effect) bool { r, is := e.(reached); return is && r.point == p && r.row.Tool == "x" }) < 0 {
			t.Errorf("the call of the batch does not come to %v", p)
		}
	}
}

// An answer that comes between a client's leaving and the front's hearing of it is on a
// stream that nobody reads. A GET that is open already carries it: its client may have no
// reason to open another one.
func TestAnOpenGetCarriesWhatAClientLeftBehind(t *testing.T) {
	listens := func(b *bench) time.Duration {
		for _, e := range b.out.effects {
			if l, is := e.(listenLater); is {
				return l.after
			}
		}
		return -1
	}
	for version, want := range map[string]time.Duration{"2025-06-18": 0, "2025-11-25": grace} { // the later one's clients can resume
		b := newBench(t)
		b.meta.Version = version
		b.do(&Get{Socket: NewSocket(0), Caller: Caller{Server: "model"}, Stream: "g"})
		sock := b.call("a", "1")
		b.answer(1, b.rt.next, `{"done":true}`)
		b.do(&Gone{Socket: sock})
		if got := listens(b); got != want {
			t.Errorf("%s: the GET is looked at after %v, want %v", version, got, want)
		}
		b.do(listen{})
		if version == "2025-06-18" && (len(b.out.reads) != 1 || b.out.reads[0].st.id != "pa") {
			t.Errorf("%s: reads %v", version, b.out.reads)
		}
		// Of a stream whose answer was confirmed nothing is left to look for.
		sock = b.call("b", "2")
		b.answer(1, b.rt.next, `{"done":true}`)
		b.do(&Flushed{Socket: sock, Event: b.streams["pb"].last.String()})
		b.listening = false
		b.do(&Gone{Socket: sock})
		if got := listens(b); got != -1 {
			t.Errorf("%s: confirmed, and the GET is looked at after %v", version, got)
		}
	}
}
