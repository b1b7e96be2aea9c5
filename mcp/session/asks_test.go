package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// asked opens a call that asks a person, and returns it with the question's id.
func asked(t *testing.T, c *client) (*link, string) {
	t.Helper()
	l := c.post(call(`1`, "ask"))
	l.has("elicitation/create")
	m, err := wire.Parse(l.frames[len(l.frames)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	return l, string(m.ID())
}

func answer(id, action string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"` + action + `"}}`
}

func TestQuestionThatNobodyAnswersIsDeclined(t *testing.T) {
	w := newWorld(t, func(s *session.Server) {
		s.ApprovalTimeout = 200 * time.Millisecond
		s.IdleTimeout = 50 * time.Millisecond
	})
	c := w.open1()
	l, id := asked(t, c)
	begun := time.Now()
	m := <-w.replies
	if string(m.Result()) != `{"action":"decline","_meta":{"reason":"approval_timeout"}}` || m.ID() != "5" {
		t.Errorf("the runtime was told %s", m)
	}
	if d := time.Since(begun); d < 150*time.Millisecond {
		t.Errorf("after %v", d)
	}
	l.has(`notifications/cancelled`).has(`"requestId":` + id)
	if w.svc.Residents() != 1 {
		t.Error("the paused runtime was reclaimed before its call had ended")
	}
	late := c.post(answer(id, "accept")).wait()
	if late.opening.Outcome != session.OutcomeTimeout {
		t.Errorf("the late answer was told %q", late.opening.Outcome)
	}
	select {
	case m := <-w.replies:
		t.Errorf("the late answer reached the runtime: %s", m)
	case <-time.After(30 * time.Millisecond):
	}
}

func TestSecondAnswerIsToldTheFirstOutcome(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	_, id := asked(t, c)
	if first := c.post(answer(id, "decline")).wait(); first.opening.Outcome != "decline" {
		t.Errorf("the first answer was told %q", first.opening.Outcome)
	}
	<-w.replies
	for range 2 {
		if again := c.post(answer(id, "accept")).wait(); again.opening.Outcome != "decline" {
			t.Errorf("the second answer was told %q", again.opening.Outcome)
		}
	}
	select {
	case m := <-w.replies:
		t.Errorf("the second answer reached the runtime: %s", m)
	case <-time.After(30 * time.Millisecond):
	}
}

func TestAnswerAfterTheRuntimeIsGoneIsToldSo(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	_, id := asked(t, c)
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.MemoryLimit, nil)
	late := c.post(answer(id, "accept")).wait()
	if late.opening.Refusal != nil || late.opening.Outcome != session.OutcomeGone {
		t.Fatalf("got %+v", late.opening)
	}
	c.post(call(`2`, "echo")).wait()
	select {
	case m := <-w.replies:
		t.Errorf("the answer reached another runtime: %s", m)
	case <-time.After(30 * time.Millisecond):
	}
}

func TestPausedCallEndsAtItsCeiling(t *testing.T) {
	w := newWorld(t, func(s *session.Server) {
		s.PausedCeiling, s.IdleTimeout = 300*time.Millisecond, 50*time.Millisecond
	})
	c := w.open1()
	l, _ := asked(t, c)
	l.has(`"reason":"deadline"`).wait()
	w.within(2*time.Second, "the runtime is reclaimed", func() bool { return w.svc.Residents() == 0 })
}

func TestApprovalRecordsGo(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.PausedCeiling = 300 * time.Millisecond })
	c := w.open1()
	_, id := asked(t, c)
	c.post(answer(id, "accept")).wait()
	oid := storage.ID{Class: session.Class, Name: c.id}
	left := func() (n int) {
		for e := range w.store.List(t.Context(), oid, storage.Range{Prefix: "ap/"}) {
			if strings.Contains(string(e.Value), "accept") {
				n++
			}
		}
		return n
	}
	if left() != 1 {
		t.Fatal("the outcome is not recorded")
	}
	w.within(2*time.Second, "the record is gone", func() bool { return left() == 0 })
}
