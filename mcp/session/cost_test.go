package session_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// commits is how many there have been in the world's store.
func (w *world) commits() int {
	return int(w.store.(*countingStore).Store.(*storage.Memory).Stats().Commits)
}

// A request costs one commit when it is admitted, and one when it is answered: with
// its ledger row, its stream, the activity and the alarm in the first, and the event,
// the discharge and again the activity and the alarm in the second.
func TestARequestCostsTwoCommits(t *testing.T) {
	p := newPuppets(t, "", nil)
	c := p.open1()
	admitted, answered := 100, 100
	for i := range 5 { // what has reached a client may be noted in between, once in a second
		before := p.commits()
		l := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"call %d","_meta":{"progressToken":1}}}`, i, i))
		m := p.nth(1).hears(fmt.Sprintf("call %d", i))
		l.until("the event that primes", func() bool { return len(l.frames) > 0 })
		between := p.commits()
		p.nth(1).answer(m, `{}`)
		l.wait()
		admitted, answered = min(admitted, between-before), min(answered, p.commits()-between)
	}
	if admitted != 1 || answered != 1 {
		t.Errorf("admission costs %d commits, an answer %d", admitted, answered)
	}
}

// A call that changes nothing costs one, if its answer comes at once: with a stream's note
// in between, once in a second.
func TestReadOnlyCallCostsOneCommit(t *testing.T) {
	p := newPuppets(t, readOnly, func(s *session.Server) { s.Early = session.EarlyReadOnly })
	c, r := p.open1(), p.nth(1)
	c.twice(r, true)
	fewest := 100
	for i := range 5 {
		before := p.commits()
		l := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","arguments":{"nth":%d}}}`, i+10, i))
		r.answer(r.hears(fmt.Sprintf(`"nth":%d`, i)), `{}`)
		l.wait()
		fewest = min(fewest, p.commits()-before)
	}
	if fewest != 1 {
		t.Errorf("it costs %d commits", fewest)
	}
}

// Opening a session costs a commit for the initialize and its answer, and one for the note
// that the client has it: neither that the runtime gets the request, nor that the answer has
// reached the client, is worth one of its own.
func TestOpeningCostsTwoCommits(t *testing.T) {
	w := newWorld(t, nil)
	fewest := 100
	for range 5 {
		before := w.commits()
		c := &client{w, session.NewID(time.Now())}
		c.postAs(caller, true, initialize).wait()
		c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).wait()
		fewest = min(fewest, w.commits()-before)
	}
	if fewest != 2 {
		t.Errorf("opening a session costs %d commits", fewest)
	}
}

// The committer merges the commits of sessions that are at work together: on a disk
// that takes 20 ms for an fsync, 64 calls need far fewer fsyncs than their 128 commits.
func TestCommitsOfManySessionsAreMerged(t *testing.T) {
	const calls, fsync = 64, 20 * time.Millisecond
	var measured atomic.Bool
	store := onDisk(t, func() {
		if measured.Load() {
			time.Sleep(fsync)
		}
	})
	t.Cleanup(func() { store.Close() })
	w := &world{t: t, store: store, version: "2025-11-25", replies: make(chan wire.Message)}
	w.boot()
	t.Cleanup(w.shutdown)
	var clients []*client
	for range calls {
		c := &client{w, session.NewID(time.Now())}
		c.postAs(caller, true, initialize).wait()
		clients = append(clients, c)
	}
	measured.Store(true)
	before := store.Stats()
	var links []*link
	for _, c := range clients {
		links = append(links, c.post(call(`1`, "echo")))
	}
	for _, l := range links {
		l.has(`"id":1,"result"`)
	}
	after := store.Stats()
	groups, commits := after.Groups-before.Groups, after.Commits-before.Commits
	if commits < 2*calls || groups > calls {
		t.Errorf("%d calls: %d commits in %d fsyncs", calls, commits, groups)
	}
}
