package session_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// failing is a store that fails the next batch with an event in it when it is armed,
// and notes the size of the largest batch.
type failing struct {
	storage.Store
	armed   atomic.Bool
	largest atomic.Int64
}

func (f *failing) Submit(b *storage.Batch, done func(error)) {
	for _, p := range b.Puts {
		if strings.HasPrefix(p.Key, "e/") && f.armed.CompareAndSwap(true, false) {
			go done(errors.New("no space left"))
			return
		}
	}
	size := 0
	for _, p := range b.Puts {
		size += len(p.Value)
	}
	f.largest.Store(max(f.largest.Load(), int64(size)))
	f.Store.Submit(b, done)
}

// I1, I2: an answer whose commit fails never leaves, and its exchange is broken
// at once, although the session had already decided that it is over.
func TestAFailedCommitOfTheLastAnswerBreaksTheSocket(t *testing.T) {
	w := newWorld(t, nil)
	store := &failing{Store: w.store}
	w.shutdown()
	w.store = store
	w.boot()
	c := w.open1()
	store.armed.Store(true)
	l := c.post(call("1", "echo")).wait()
	if l.end.Kind != session.Broken || len(l.frames) != 1 {
		t.Fatalf("ended %v with:\n%s", l.end, l.text())
	}
}

// I13: a session whose server is not configured any more is kept and refused, also
// when a crash has left it with a request.
func TestASessionOfAServerThatIsGoneIsKept(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	l := c.post(call("1", "hang"))
	l.until("the opening", func() bool { return l.opening != nil })
	id := storage.ID{Class: session.Class, Name: c.id}
	var rows []storage.Entry
	for e, err := range w.store.List(t.Context(), id, storage.Range{Prefix: "q/"}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, e)
	}
	if len(rows) != 1 {
		t.Fatalf("%d rows are owed", len(rows))
	}
	w.shutdown()
	done := make(chan error)
	w.store.Claim(id, func(epoch uint64, _ bool, err error) {
		go func() {
			if err == nil {
				w.store.Submit(&storage.Batch{ID: id, Epoch: epoch, Puts: rows}, func(err error) { done <- err })
			} else {
				done <- err
			}
		}()
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.serverTuned = func(s *session.Server) { s.Name = "other" }
	w.boot()
	got := c.post(call("2", "echo")).wait()
	if got.opening == nil || got.opening.Refusal == nil || got.opening.Refusal.Status != 503 {
		t.Fatalf("opening %+v, end %+v", got.opening, got.end)
	}
}

func TestProgressThatNobodyAskedForIsDropped(t *testing.T) {
	c := newWorld(t, nil).open1()
	l := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress-by-id"}}`).wait()
	for _, f := range l.frames {
		if len(f.Data) > 0 {
			if _, err := wire.Parse(f.Data); err != nil || strings.Contains(string(f.Data), "progress") {
				t.Errorf("frame %s, %v", f.Data, err)
			}
		}
	}
}

// I12: what is said to a runtime while it is being built is bounded.
func TestNotesForARuntimeThatIsBuildingAreBounded(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.MaxOwedBytes = 10_000 })
	c := w.open1()
	w.mu.Lock()
	w.buildDelay = 300 * time.Millisecond
	w.mu.Unlock()
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.Aborted, nil)
	l := c.post(call("1", "echo"))
	note := `{"jsonrpc":"2.0","method":"notifications/note","params":{"x":"` + strings.Repeat("x", 4000) + `"}}`
	var refused int
	for range 4 {
		if n := c.post(note).wait(); n.opening.Refusal != nil {
			if refused++; n.opening.Refusal.Status != 429 {
				t.Errorf("refused with %d", n.opening.Refusal.Status)
			}
		}
	}
	if refused != 2 {
		t.Errorf("%d of 4 notes of 4 kB were refused at a bound of 10 kB", refused)
	}
	l.wait()
	w.within(time.Second, "the notes that were taken are delivered", func() bool { return w.saw("notifications/note") == 2 })
	if n := c.post(note).wait(); n.opening.Refusal != nil {
		t.Errorf("refused when the runtime is ready: %+v", n.opening.Refusal)
	}
}

func TestLongLabelsAreRefused(t *testing.T) {
	c := newWorld(t, nil).open1()
	long := strings.Repeat("<", 100_000)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":"` + long + `","method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"` + long + `"}}}`,
	} {
		if l := c.post(body).wait(); l.opening.Refusal == nil || l.opening.Refusal.Status != 400 {
			t.Errorf("opening %+v", l.opening)
		}
	}
	if l := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + long + `"}}`).wait(); !strings.Contains(l.text(), `"echo"`) {
		t.Errorf("a long tool name: %.200s", l.text())
	}
}

func TestASubscriptionWithALongURIIsKept(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	uri := "file:///" + strings.Repeat("x", 5000)
	if got := c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"` + uri + `"}}`).wait().text(); !strings.Contains(got, `"result"`) {
		t.Fatalf("subscribe: %.200s", got)
	}
	w.reboot()
	c.post(call("2", "echo")).wait()
	if n := w.saw("resources/subscribe"); n != 2 {
		t.Errorf("runtimes were told of the subscription %d times", n)
	}
}

// What a GET stream was given and did not confirm is carried by the next one.
func TestAnAnswerThatAGetStreamDidNotDeliverIsNotLost(t *testing.T) {
	old := session.Caller{Server: "model", Version: "2025-06-18"} // its clients know no priming event
	w := newWorld(t, nil)
	w.version = "2025-06-18"
	c := w.open1()
	l := c.postAs(old, false, call(`1`, "hang"))
	l.until("opening", func() bool { return l.opening != nil })
	w.host.Reset(storage.ID{Class: session.Class, Name: c.id}, actor.CPULimit, nil)
	g := c.get("")
	g.mute = true // its client is gone
	g.has(`"reason":"cpu_limit"`)
	g.gone()
	c.get("").has(`"reason":"cpu_limit"`)
}

// A client that comes back for ever leaves no streams behind.
func TestGetStreamsWithoutEventsLeaveNothing(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	for range 50 {
		g := c.get("")
		g.until("opening", func() bool { return g.opening != nil })
		g.gone()
	}
	n := 0
	for _, err := range w.store.List(t.Context(), storage.ID{Class: session.Class, Name: c.id}, storage.Range{Prefix: "s/g"}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n > 1 {
		t.Errorf("%d GET streams are stored", n)
	}
}

// What waits for a GET is moved to it in batches that storage takes, and leaves
// the log of the stream that it came from.
func TestManyAndLargeAnswersMoveToAGet(t *testing.T) {
	old := session.Caller{Server: "model", Version: "2025-06-18"}
	for _, tt := range []struct{ n, size int }{{25, 1 << 20}, {300, 10}} {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) {
			w := newWorld(t, nil)
			w.shutdown()
			store := &failing{Store: w.store}
			w.store, w.version = store, old.Version
			w.boot()
			c := w.open1()
			arg := strings.Repeat("x", tt.size)
			for i := range tt.n {
				l := c.postAs(old, false, fmt.Sprintf(`{"jsonrpc":"2.0","id":"a%d","method":"tools/call","params":{"name":"echo","x":"%s"}}`, i, arg))
				l.mute = true
				l.until("opening", func() bool { return l.opening != nil })
				l.until("the end", func() bool { return l.end != nil })
				l.gone()
			}
			after, got := "", map[string]int{}
			for range 20 {
				l := c.get(after)
				l.until("opening", func() bool { return l.opening != nil })
				if l.opening.Refusal != nil {
					t.Fatalf("refused: %s", l.opening.Refusal.Body)
				}
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
					l.until("more", func() bool { return true })
					for _, f := range l.frames {
						if f.Answers != "" {
							got[string(f.Answers)]++
						}
						after = f.ID
					}
					l.frames = nil
					if l.end != nil || len(got) >= tt.n {
						break
					}
					time.Sleep(time.Millisecond)
				}
				l.gone()
				if len(got) >= tt.n {
					break
				}
			}
			if len(got) != tt.n {
				t.Fatalf("%d of %d answers came", len(got), tt.n)
			}
			if n := store.largest.Load(); n > 18<<20 {
				t.Errorf("a batch of %d bytes was written", n)
			}
			for id, n := range got {
				if n != 1 {
					t.Errorf("answer %s came %d times", id, n)
				}
			}
		})
	}
}

func TestSubscriptionsAreBoundedI12(t *testing.T) {
	c := newWorld(t, nil).open1()
	refused := 0
	for i := range 1002 {
		l := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"a://%d"}}`, i, i)).wait()
		if strings.Contains(l.text(), "which is the limit") {
			refused++
		}
	}
	if refused != 2 {
		t.Fatalf("%d of 1002 were refused, want 2", refused)
	}
}
