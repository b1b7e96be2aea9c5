package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIDsAreEchoedByteForByte(t *testing.T) {
	c := newWorld(t, nil).open1()
	for _, id := range []string{`7`, `"7"`, `1.50`, `12345678901234567890`, `-0`, `"é\u00e9"`, `""`} {
		got := c.post(call(id, "echo")).wait().text()
		if !strings.Contains(got, `"id":`+id+`,"result"`) {
			t.Errorf("id %s came back as %s", id, got)
		}
	}
}

func TestProgressTokenIsTheClientsOwnRuleB(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	got := c.post(call(`9`, "progress")).wait()
	if n := strings.Count(got.text(), `"progressToken":"tok"`); n != 3 || len(got.frames) != 5 {
		t.Fatalf("%d reports with the client's token in %d frames:\n%s", n, len(got.frames), got.text())
	}
	if w.saw(`"tok"`) != 0 {
		t.Error("the runtime saw the client's token, which another request may use too")
	}
}

func TestEventIsStoredBeforeItIsSentI11(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call(`9`, "progress")).wait()
	// Every event that was sent can be read back, from each position.
	for i, f := range l.frames {
		g := c.get(f.ID).wait()
		want := l.frames[i+1:]
		if len(g.frames) != len(want) {
			t.Fatalf("after event %d: %d events, want %d", i, len(g.frames), len(want))
		}
		for j := range want {
			if g.frames[j].ID != want[j].ID || string(g.frames[j].Data) != string(want[j].Data) {
				t.Errorf("after event %d: event %d differs", i, j)
			}
		}
		if g.end.Kind != session.Final || g.opening.Streaming != (len(want) > 0) {
			t.Errorf("a stream that owes nothing ended %+v after %+v", g.end, g.opening)
		}
	}
}

func TestOneRuntimeIsBuiltForRequestsThatArriveTogether(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	w.reboot()
	before, _ := w.runtimes()
	w.mu.Lock()
	w.buildDelay = 50 * time.Millisecond
	w.mu.Unlock()
	var links []*link
	for i := range 10 {
		links = append(links, c.post(call(fmt.Sprint(i), "echo")))
	}
	for _, l := range links {
		l.wait()
	}
	if built, open := w.runtimes(); built != before+1 || open != 1 {
		t.Fatalf("%d runtimes were built, %d are open", built-before, open)
	}
}

func TestRebuiltRuntimeIsToldTheHandshake(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	c.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`).wait()
	c.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a://b"}}`).wait()
	c.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"c://d"}}`).wait()
	c.post(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a://b"}}`).wait()
	w.reboot()
	w.mu.Lock()
	w.delivered = nil
	w.mu.Unlock()
	got := c.post(call(`5`, "echo")).wait()
	if strings.Contains(got.text(), "protocolVersion") {
		t.Errorf("the client saw the handshake: %s", got.text())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var methods []string
	for _, d := range w.delivered {
		methods = append(methods, strings.Fields(d)[1])
	}
	want := "initialize notifications/initialized logging/setLevel resources/subscribe tools/call"
	if strings.Join(methods, " ") != want {
		t.Fatalf("the rebuilt runtime was told %v,\nwant %s", methods, want)
	}
	if !strings.Contains(w.delivered[3], "c://d") {
		t.Errorf("subscribed to %s", w.delivered[3])
	}
}

func TestChangedVersionFailsTheBuildAndWhatWaits(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	w.reboot()
	w.version = "2025-06-18"
	got := c.post(call(`5`, "echo")).wait().text()
	if !strings.Contains(got, "-32603") || !strings.Contains(got, "2025-06-18") {
		t.Fatalf("got %s", got)
	}
}

func TestBuildFailureIsToldAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.buildErr = errors.New("exec: no-such-command: not found")
	c := &client{w, session.NewID(time.Now())}
	got := c.postAs(caller, true, initialize).wait()
	if !strings.Contains(got.text(), "no-such-command") || got.end.Kind != session.Final {
		t.Fatalf("got %s", got.text())
	}
	// The session that never came to be is not there.
	w.within(3*time.Second, "the rows are gone", func() bool {
		v, err := w.store.Get(t.Context(), storage.ID{Class: session.Class, Name: c.id}, "meta")
		return err == nil && v == nil
	})
}

func TestExitedRuntimeIsAnsweredAndRebuiltRuleD(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	hang := c.post(call(`1`, "hang"))
	hang.until("opening", func() bool { return hang.opening != nil })
	w.within(time.Second, "delivered", func() bool { return w.saw("hang") == 1 })
	c.post(call(`2`, "exit")).has(`"reason":"exited"`).has("out of cheese").wait()
	got := hang.wait().text()
	for _, want := range []string{"-32010", `"started":true`, `"tool":"hang"`, `"retryable":true`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if got := c.post(call(`3`, "echo")).wait().text(); !strings.Contains(got, `"by":2`) {
		t.Fatalf("the next call was not answered by a new runtime: %s", got)
	}
}

func TestResetAnswersWhatWasOwed(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call(`"a"`, "hang"))
	l.until("opening", func() bool { return len(l.frames) > 0 })
	w.within(time.Second, "delivered", func() bool { return w.saw("hang") == 1 })
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.MemoryLimit, nil)
	if l.wait(); l.end.Kind != session.Broken {
		t.Fatalf("the socket ended %+v", l.end)
	}
	got := c.get(l.frames[0].ID).wait()
	for _, want := range []string{`"id":"a"`, "-32010", `"reason":"memory_limit"`, `"started":true`, "exceeded its memory limit"} {
		if !strings.Contains(got.text(), want) {
			t.Errorf("no %s in %s", want, got.text())
		}
	}
	if got.end.Kind != session.Final {
		t.Errorf("the stream ended %+v", got.end)
	}
	w.within(2*time.Second, "the old runtime is closed", func() bool { _, open := w.runtimes(); return open == 0 })
}

func TestLostAnswersReachAFreshGetRuleL(t *testing.T) {
	old := session.Caller{Server: "model", Version: "2025-06-18"} // its clients know no priming event
	w := newWorld(t, nil)
	w.version = "2025-06-18"
	c := w.open1()
	l := c.postAs(old, false, call(`1`, "hang"))
	l.until("opening", func() bool { return l.opening != nil })
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.CPULimit, nil)
	c.get("").has(`"reason":"cpu_limit"`)
	// Once only.
	g := c.get("")
	g.until("opening", func() bool { return g.opening != nil })
	time.Sleep(50 * time.Millisecond)
	if strings.Contains(g.until("", func() bool { return true }).text(), "cpu_limit") {
		t.Error("told again")
	}
}

func TestDetachedStreamKeepsItsAnswer(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call(`1`, "ask"))
	l.has("elicitation/create")
	ask, err := wire.Parse(l.frames[len(l.frames)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	l.gone()
	c.post(`{"jsonrpc":"2.0","id":` + string(ask.ID()) + `,"result":{"action":"accept"}}`).wait()
	reply := <-w.replies
	if reply.ID() != "5" {
		t.Errorf("the runtime's own id came back as %s", reply.ID())
	}
	c.post(`{"jsonrpc":"2.0","id":` + string(ask.ID()) + `,"result":{"action":"accept"}}`).wait()
	select {
	case m := <-w.replies:
		t.Errorf("a second answer reached the runtime: %s", m)
	case <-time.After(50 * time.Millisecond):
	}
	g := c.get(l.frames[len(l.frames)-1].ID)
	g.until("opening", func() bool { return g.opening != nil })
}

func TestCancelledRequestIsReleasedWithoutAnAnswerRuleJ(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call(`"x"`, "hang"))
	l.until("opening", func() bool { return l.opening != nil })
	w.within(time.Second, "delivered", func() bool { return w.saw("hang") == 1 })
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`).wait()
	if l.wait(); strings.Contains(l.text(), `"id":"x"`) || l.end.Kind != session.Final {
		t.Fatalf("got %s %+v", l.text(), l.end)
	}
	w.within(time.Second, "the runtime is told, with its own id", func() bool {
		return w.saw("notifications/cancelled") == 1 && w.saw(`"requestId":"x"`) == 0
	})
}

func TestAmbiguousCancelIsIgnoredRuleB(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	a, b := c.post(call(`1`, "hang")), c.post(call(`1`, "hang"))
	a.until("opening", func() bool { return a.opening != nil })
	b.until("opening", func() bool { return b.opening != nil })
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).wait()
	time.Sleep(50 * time.Millisecond)
	if w.saw("notifications/cancelled") != 0 {
		t.Fatal("one of two requests with the same id was cancelled")
	}
}

func TestBatchIsAnsweredOnOneStream(t *testing.T) {
	w := newWorld(t, nil)
	w.version = "2025-03-26"
	c := w.open1()
	who := session.Caller{Server: "model", Version: "2025-03-26"}
	l := c.postAs(who, false, call(`1`, "echo"), `{"jsonrpc":"2.0","id":2,"method":"ping"}`, call(`3`, "progress")).wait()
	for _, id := range []string{`"id":1,"result"`, `"id":2,"result"`, `"id":3,"result"`} {
		if strings.Count(l.text(), id) != 1 {
			t.Errorf("%s in %s", id, l.text())
		}
	}
}

func TestBatchIsRefusedElsewhere(t *testing.T) {
	c := newWorld(t, nil).open1()
	l := c.post(call(`1`, "echo"), call(`2`, "echo")).wait()
	if l.opening.Refusal == nil || l.opening.Refusal.Status != 400 {
		t.Fatalf("got %+v", l.opening)
	}
}

func TestOwnerAndServerAreChecked(t *testing.T) {
	c := newWorld(t, nil).open1()
	for _, tc := range []struct {
		caller session.Caller
		status int
	}{
		{session.Caller{Server: "other"}, 404},
		{session.Caller{Server: "model", Principal: mcp.Principal{Subject: "eve"}}, 403},
	} {
		l := c.postAs(tc.caller, false, call(`1`, "echo")).wait()
		if l.opening.Refusal == nil || l.opening.Refusal.Status != tc.status {
			t.Errorf("%+v: got %+v, want %d", tc.caller, l.opening, tc.status)
		}
	}
}

func TestIdleRuntimeIsReclaimedAndRebuiltUnseenI7I9(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.IdleTimeout = 300 * time.Millisecond })
	c := w.open1()
	c.post(call(`1`, "count")).has(`"n":1`).wait()
	g := c.get("")
	g.until("opening", func() bool { return g.opening != nil })
	w.within(3*time.Second, "disposal", func() bool { return w.svc.Residents() == 0 })
	if g.wait(); g.end.Kind != session.Parked {
		t.Errorf("the client's stream ended %+v", g.end)
	}
	c.post(call(`2`, "count")).has(`"n":2`).wait()
	if built, _ := w.runtimes(); built != 2 {
		t.Fatalf("%d runtimes were built", built)
	}
}

func TestGetAndPingKeepNothingResident(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.IdleTimeout = 300 * time.Millisecond })
	c := w.open1()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && w.svc.Residents() > 0; time.Sleep(20 * time.Millisecond) {
		c.get("")
		c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).wait()
	}
	if n := w.svc.Residents(); n != 0 {
		t.Fatal("a client that reconnects and pings for ever keeps its runtime")
	}
	built, _ := w.runtimes()
	c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).wait()
	if b, _ := w.runtimes(); b != built {
		t.Error("a ping built a runtime")
	}
}

func TestHeldMessagesReachTheFirstGet(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	c.post(call(`1`, "log")).wait()
	c.get("").has("list_changed")
	g := c.get("")
	g.until("opening", func() bool { return g.opening != nil })
	time.Sleep(30 * time.Millisecond)
	if g.until("", func() bool { return true }); strings.Contains(g.text(), "list_changed") {
		t.Error("the message came twice")
	}
}

func TestNewGetSupersedesTheOldRuleG(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	a := c.get("")
	a.until("opening", func() bool { return a.opening != nil })
	b := c.get("")
	if a.wait(); a.end.Kind != session.Parked {
		t.Fatalf("the old stream ended %+v", a.end)
	}
	c.post(call(`1`, "log")).wait()
	b.has("list_changed")
}

func TestDeletedSessionIsDeadAtOnceAndLeavesNothingRuleD(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	hang := c.post(call(`1`, "hang"))
	hang.until("opening", func() bool { return hang.opening != nil })
	sock := session.NewSocket(0)
	c.send(&session.Delete{Socket: sock, Caller: caller}, sock).wait()
	hang.wait()
	if !strings.Contains(hang.text(), `"reason":"ended"`) {
		t.Errorf("the request in flight got %s", hang.text())
	}
	l := c.post(call(`2`, "echo")).wait()
	if l.opening.Refusal == nil || l.opening.Refusal.Status != 404 {
		t.Fatalf("the ended session answered %+v", l.opening)
	}
	oid := storage.ID{Class: session.Class, Name: c.id}
	w.within(4*time.Second, "all rows gone", func() bool {
		for range w.store.List(t.Context(), oid, storage.Range{}) {
			return false
		}
		a, err := w.store.Alarm(t.Context(), oid)
		return err == nil && a.At.IsZero()
	})
}

func TestDeliveredEventsGoAfterTheRetentionRuleN(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.Retention = 200 * time.Millisecond })
	c := w.open1()
	l := c.post(call(`1`, "progress")).wait()
	first := l.frames[0].ID
	if g := c.get(first).wait(); len(g.frames) != 4 {
		t.Fatalf("within the retention %d events came back, want 4", len(g.frames))
	}
	oid := storage.ID{Class: session.Class, Name: c.id}
	w.within(3*time.Second, "the log is empty", func() bool {
		for range w.store.List(t.Context(), oid, storage.Range{Prefix: "e/"}) {
			return false
		}
		return true
	})
	g := c.get(first).wait()
	if g.opening.Refusal != nil || g.opening.Streaming || g.end.Kind != session.Final {
		t.Errorf("a stream that is gone answered %+v", g.opening)
	}
}

func TestBoundsRefuseAtTheirEdgeI12(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.MaxOwed = 3; s.MaxHeld = 2 })
	c := w.open1()
	for i := range 3 {
		l := c.post(call(fmt.Sprint(i), "hang"))
		l.until("opening", func() bool { return l.opening != nil })
		if l.opening.Refusal != nil {
			t.Fatalf("request %d was refused", i)
		}
	}
	if l := c.post(call(`4`, "echo")).wait(); l.opening.Refusal == nil || l.opening.Refusal.Status != 429 {
		t.Fatalf("the request past the bound got %+v", l.opening)
	}
}

func TestLongReplayComesPageByPage(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	g := c.get("")
	g.until("opening", func() bool { return len(g.frames) > 0 })
	first := g.frames[0].ID
	g.gone()
	for i := range 1100 {
		c.post(call(fmt.Sprint(i), "log")).wait()
	}
	again := c.get(first)
	again.until("1100 events", func() bool { return strings.Count(again.text(), "list_changed") == 1100 })
	c.post(call(`1`, "log")).wait()
	again.until("1101 events", func() bool { return strings.Count(again.text(), "list_changed") == 1101 })
}

func TestLogIsBoundedI12RuleN(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.MaxLog = 64 << 10; s.Retention = time.Hour })
	c := w.open1()
	pad := strings.Repeat("x", 1000)
	big := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","pad":"%s"}}`, id, pad)
	}
	// Delivered answers make room for others long before their retention is over.
	for i := range 200 {
		if l := c.post(big(i)).wait(); l.opening.Refusal != nil {
			t.Fatalf("call %d was refused: %s", i, l.opening.Refusal.Body)
		}
	}
	// Undelivered ones stay, and admission refuses.
	var kept []string
	refused := false
	for i := range 200 {
		l := c.post(big(1000 + i))
		l.mute = true
		l.until("opening", func() bool { return len(l.frames) > 0 || l.end != nil })
		if l.opening.Refusal != nil {
			refused = l.opening.Refusal.Status == 507
			break
		}
		l.gone()
		kept = append(kept, l.frames[0].ID)
		w.within(time.Second, "answered", func() bool { return w.saw(" tools/call") >= 200+i+1 })
		time.Sleep(time.Millisecond)
	}
	if !refused || len(kept) < 40 {
		t.Fatalf("refused %v after %d undelivered answers", refused, len(kept))
	}
	for i, id := range kept {
		if g := c.get(id).wait(); !strings.Contains(g.text(), fmt.Sprintf(`"id":%d,`, 1000+i)) {
			t.Fatalf("the answer to %d is gone: %s", 1000+i, g.text())
		}
	}
	c.post(big(3000)).has(`"id":3000`).wait()
}

func TestNotificationsFillOnlyAPartOfTheLogI12(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.MaxLog = 16 << 10; s.Retention = time.Hour })
	c := w.open1()
	g := c.get("")
	g.until("prime", func() bool { return len(g.frames) > 0 })
	g.gone()
	for i := range 300 {
		if l := c.post(call(fmt.Sprint(i), "log")).wait(); l.opening.Refusal != nil {
			t.Fatalf("call %d was refused: %s", i, l.opening.Refusal.Body)
		}
	}
	again := c.get(g.frames[0].ID)
	again.until("opening", func() bool { return again.opening != nil })
	time.Sleep(50 * time.Millisecond)
	n := strings.Count(again.until("", func() bool { return true }).text(), "list_changed")
	if n == 0 || n >= 300 {
		t.Fatalf("%d of 300 notifications were kept", n)
	}
}

func TestConfirmedFlushIsDurableSoonWithoutAnotherBatch(t *testing.T) {
	w := newWorld(t, nil)
	w.version = "2025-06-18" // its clients may open a fresh GET after a crash, which carries what was not delivered
	c := w.open1()
	c.post(call(`"a"`, "echo")).wait()
	time.Sleep(1300 * time.Millisecond)
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.Aborted, nil)
	g := c.get("")
	g.until("opening", func() bool { return g.opening != nil })
	time.Sleep(50 * time.Millisecond)
	if got := g.until("", func() bool { return true }).text(); strings.Contains(got, `"id":"a"`) {
		t.Errorf("answered twice: %s", got)
	}
}

func TestTrimmingABusySessionReadsNothing(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.Retention = 400 * time.Millisecond })
	c := w.open1()
	for i := range 3000 {
		c.post(call(fmt.Sprint(i), "echo")).wait()
	}
	oid := storage.ID{Class: session.Class, Name: c.id}
	store := w.store.(*countingStore)
	before := store.lists.Load()
	rows := func() (n int) {
		for e := range store.Store.List(t.Context(), oid, storage.Range{}) {
			if strings.HasPrefix(e.Key, "e/") || strings.HasPrefix(e.Key, "s/") {
				n++
			}
		}
		return n
	}
	w.within(10*time.Second, "the log is gone", func() bool { return rows() == 0 })
	if n := store.lists.Load() - before; n > 10 {
		t.Errorf("%d reads of many rows for it", n)
	}
	if l := c.post(call(`"after"`, "echo")).wait(); l.opening.Refusal != nil {
		t.Errorf("refused: %s", l.opening.Refusal.Body)
	}
}

func TestDeliveredStreamIsReadBackForItsClient(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call(`1`, "progress")).wait()
	c.post(call(`2`, "echo")).wait() // its batch carries the row of the first
	for range 2 {
		if g := c.get(l.frames[1].ID).wait(); len(g.frames) != len(l.frames)-2 || g.end.Kind != session.Final {
			t.Fatalf("%d of %d events came back, end %+v", len(g.frames), len(l.frames)-2, g.end)
		}
	}
	w.reboot()
	if g := c.get(l.frames[1].ID).wait(); len(g.frames) != len(l.frames)-2 {
		t.Fatalf("after a restart %d of %d events came back", len(g.frames), len(l.frames)-2)
	}
}
