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

func (c *client) object() storage.ID { return storage.ID{Class: session.Class, Name: c.id} }

// A flush is confirmed before any row tells of it; a reset in between must not make
// the session answer again.
func TestConfirmedFlushOutlivesAReset(t *testing.T) {
	w := newWorld(t, nil)
	w.version = unprimed.Version // its clients have no event id to resume from
	c := &client{w, session.NewID(time.Now())}
	c.postAs(unprimed, true, strings.Replace(initialize, "2025-11-25", unprimed.Version, 1)).wait()
	l := c.postAs(unprimed, false, call("7", "echo")).wait()
	if !strings.Contains(l.text(), `"id":7,"result"`) {
		t.Fatal(l.text())
	}
	w.host.Reset(c.object(), actor.MemoryLimit, nil)
	get := c.get("").until("an opening", func() bool { return true })
	time.Sleep(400 * time.Millisecond)                 // what a front that passes a POST on is left before a GET carries its answers
	c.postAs(unprimed, false, call("8", "log")).wait() // its notification comes on the GET
	get.has("list_changed")
	if strings.Contains(get.text(), `"id":7`) {
		t.Errorf("answered again:\n%s", get.text())
	}
}

// A session that is reset again and again, faster than it writes down by itself what
// its clients have, writes it down all the same: else a host that is killed would make
// it answer again, however long ago that was.
func TestConfirmedFlushIsWrittenDownBetweenResets(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call("7", "echo")).wait()
	at, err := session.ParseEventID(l.frames[len(l.frames)-1].ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.host.Reset(c.object(), actor.MemoryLimit, nil)
		if l := c.get("no id").wait(); l.opening.Refusal == nil { // it wakes up, and writes nothing for that
			t.Fatalf("opened %+v", l.opening)
		}
	}
	if row, err := w.store.Get(t.Context(), c.object(), "s/"+at.Stream); err != nil || !strings.Contains(string(row), `"done":true`) {
		t.Errorf("the stream's row is %s, %v", row, err)
	}
}

// Also when nobody comes to the session any more, until the host ends in order.
func TestConfirmedFlushIsWrittenDownWhenNobodyComes(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call("7", "echo")).wait()
	at, err := session.ParseEventID(l.frames[len(l.frames)-1].ID)
	if err != nil {
		t.Fatal(err)
	}
	w.host.Reset(c.object(), actor.MemoryLimit, nil)
	w.within(5*time.Second, "the stream's row says that its client has all", func() bool {
		row, err := w.store.Get(t.Context(), c.object(), "s/"+at.Stream)
		return err == nil && strings.Contains(string(row), `"done":true`)
	})
}

// The same when storage can't be read at the moment of the flush, so that nobody can
// say whether there is such a session.
func TestConfirmedFlushOutlivesAFailedRead(t *testing.T) {
	w := newWorld(t, nil)
	w.version = unprimed.Version
	c := &client{w, session.NewID(time.Now())}
	c.postAs(unprimed, true, strings.Replace(initialize, "2025-11-25", unprimed.Version, 1)).wait()
	sock := session.NewSocket(0)
	m, err := wire.Parse([]byte(call("7", "echo")))
	if err != nil {
		t.Fatal(err)
	}
	l := c.send(&session.Post{Socket: sock, Caller: unprimed, Stream: session.NewStream(), Messages: []wire.Message{m}}, sock)
	l.mute = true
	l.until("the answer", func() bool { return strings.Contains(l.text(), `"id":7,"result"`) })
	w.host.Reset(c.object(), actor.MemoryLimit, nil)
	store := w.store.(*countingStore)
	store.fails.Store(true)
	flushed := &session.Flushed{Socket: sock, Event: l.frames[len(l.frames)-1].ID}
	if err := w.svc.Send(t.Context(), c.id, flushed); err == nil {
		t.Fatal("nothing was read")
	}
	store.fails.Store(false)
	get := c.get("").until("an opening", func() bool { return true })
	time.Sleep(400 * time.Millisecond)
	c.postAs(unprimed, false, call("8", "log")).wait()
	get.has("list_changed")
	if strings.Contains(get.text(), `"id":7`) {
		t.Errorf("answered again:\n%s", get.text())
	}
}

// lostInitialize is a client whose initialize is lost while the server is at work on
// it.
func lostInitialize(t *testing.T) (*client, *session.Post, *link) {
	t.Helper()
	p := newPuppets(t, "", nil)
	p.deaf = true
	c := &client{p.world, session.NewID(time.Now())}
	m, err := wire.Parse([]byte(initialize))
	if err != nil {
		t.Fatal(err)
	}
	post := &session.Post{Socket: session.NewSocket(0), Caller: caller, Stream: session.NewStream(), Create: true, Messages: []wire.Message{m}}
	l := c.send(post, post.Socket)
	p.nth(1).hears(`"clientInfo"`)
	l.until("the event that primes", func() bool { return len(l.frames) > 0 })
	p.host.Reset(c.object(), actor.CPULimit, nil)
	if l.wait(); l.end.Kind != session.Broken || len(l.frames) != 1 {
		t.Fatalf("ended %+v, after %d frames", l.end, len(l.frames))
	}
	return c, post, l
}

// An initialize that is lost says why, although its session ends with it.
func TestLostInitializeIsToldWithItsReason(t *testing.T) {
	c, post, _ := lostInitialize(t)
	a := &session.Attach{Socket: session.NewSocket(0), Post: *post}
	again := c.send(a, a.Socket).wait()
	if got := again.text(); !strings.Contains(got, `"code":-32010`) || !strings.Contains(got, `"reason":"cpu_limit"`) {
		t.Errorf("got %s, opening %+v", got, again.opening)
	}
}

// So it does to a client that has lost its front as well and comes back with the event
// that it holds of that stream, and to nobody else.
func TestLostInitializeIsToldToAClientThatComesBack(t *testing.T) {
	c, _, l := lostInitialize(t)
	other := caller
	other.Principal.Subject = "somebody else"
	for _, who := range []session.Caller{other, caller} {
		want, told := "", who == caller
		if told {
			want = `"reason":"cpu_limit"`
		}
		g := &session.Get{Socket: session.NewSocket(0), Caller: who, Stream: session.NewStream(), After: l.frames[0].ID}
		got := c.send(g, g.Socket).wait()
		if refused := got.opening.Refusal != nil; refused == told || !strings.Contains(got.text(), want) {
			t.Errorf("%q got %q, opening %+v", who.Principal.Subject, got.text(), got.opening)
		}
	}
	if l := c.get("").wait(); l.opening.Refusal == nil || l.opening.Refusal.Status != 404 {
		t.Errorf("another GET is opened %+v", l.opening)
	}
}

// A session that has ended is torn down also when the incarnation that waits for its
// runtime is reset.
func TestEndedSessionIsTornDownAfterAReset(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	p.pmu.Lock()
	p.slow = time.Second // to close
	p.pmu.Unlock()
	d := &session.Delete{Socket: session.NewSocket(0), Caller: caller}
	c.send(d, d.Socket).wait()
	row, err := p.store.Alarm(t.Context(), c.object())
	if err != nil {
		t.Fatal(err)
	}
	if row.At.IsZero() {
		t.Error("nothing is armed while the runtime of an ended session closes (I7)")
	}
	p.host.Reset(c.object(), actor.Aborted, nil)
	p.within(20*time.Second, "nothing left", func() bool {
		ids, err := p.store.Objects(t.Context(), session.Class, "", 1)
		return err == nil && len(ids) == 0
	})
}
