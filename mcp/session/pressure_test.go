package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/demo"
	"github.com/kalpahost/kalpa/mcp/session"
)

// alloc asks the demo server to keep memory.
func alloc(id string, mib int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"alloc","arguments":{"mib":%d}}}`, id, mib)
}

// newPressed is a world of isolates of 64 MiB; plugin is the model where it is nil.
func newPressed(t *testing.T, soft int64, isolates int, plugin mcp.Plugin) *observed {
	return newObservedOn(t, func(o *actor.Options) {
		o.Isolates, o.HeapLimit, o.SoftLimit = isolates, 64<<20, soft
	}, func(s *session.Server) {
		if plugin != nil {
			s.Plugin = plugin
		}
	})
}

// The demonstration: sessions fill an isolate of 64 MiB with 8 MiB each. Where
// idle runtimes are reclaimed this goes on for as long as one likes, and each session
// goes on too; where they are not, the call that happens to come next is lost, and
// exactly the sessions of that isolate with it.
func TestSessionsFillAnIsolateOf64MiB(t *testing.T) {
	for name, soft := range map[string]int64{"reclaiming": 0, "not reclaiming": -1} {
		t.Run(name, func(t *testing.T) {
			o := newPressed(t, soft, 2, demo.Plugin())
			var bystander *client
			for bystander == nil || o.host.IsolateOf(bystander.oid()) != 1 {
				bystander = o.open1()
			}
			epoch := o.host.Epoch(bystander.oid())
			bystander.post(alloc("1", 8)).has("keeping 8 MiB")
			var all []*client
			for len(all) < 20 {
				c := o.open1()
				if o.host.IsolateOf(c.oid()) != 0 {
					continue
				}
				all = append(all, c)
				l := c.post(alloc("1", 8)).wait()
				got := l.text()
				if l.end.Kind == session.Broken {
					got = c.get(l.frames[0].ID).wait().text() // as its front would
				}
				if strings.Contains(got, "keeping 8 MiB") {
					continue
				}
				if soft == 0 || len(all) < 7 {
					t.Fatalf("session %d: %s", len(all), got)
				}
				for _, want := range []string{`-32010`, `"reason":"memory_limit"`, actor.MemoryLimit.Sentence()} {
					if !strings.Contains(got, want) {
						t.Errorf("session %d is not told %q: %s", len(all), want, got)
					}
				}
				break
			}
			if soft == 0 && len(all) < 20 || soft < 0 && len(all) != 8 {
				t.Errorf("it ended at session %d", len(all))
			}
			if o.host.Epoch(bystander.oid()) != epoch {
				t.Error("a session of the other isolate was reset")
			}
			disposed := o.figures("kalpa.mcp.runtime.disposals")["isolate=0,reason=pressure,server=model"]
			if soft == 0 && disposed < 10 || soft < 0 && disposed > 0 {
				t.Errorf("%d runtimes were reclaimed", disposed)
			}
			for n, c := range all { // all go on, whatever became of their runtimes
				l := c.post(alloc("2", 1)).wait()
				for id := 3; l.end.Kind == session.Broken && len(l.frames) == 0; id++ { // it still ends
					l = c.post(alloc(fmt.Sprint(id), 1)).wait()
				}
				if got := l.text(); !strings.Contains(got, "keeping") {
					t.Errorf("session %d: %s", n, got)
				}
			}
		})
	}
}

// Of the runtimes that rest, the one that was used least recently goes first, with a
// span that says why, and not the ones that answer a request or are to stay for ever.
func TestPressureReclaimsIdleRuntimesI9(t *testing.T) {
	o := newPressed(t, 0, 1, demo.Plugin())
	first, second, third := o.open1(), o.open1(), o.open1()
	for _, c := range []*client{second, first, third} {
		c.post(alloc("1", 14)).has("keeping")
	}
	second.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).wait() // first is the least recently used now
	fourth := o.open1()
	fourth.post(alloc("1", 14)).has("keeping")
	o.within(5*time.Second, "one is reclaimed", func() bool { return o.svc.Residents() == 3 })
	span := o.told("mcp.session.dispose", 1)[0]
	gone := first
	if attr(span, "mcp.session.id").AsString() == third.id {
		gone = third // an end of a stream was just being noted in the first: it is the next one's turn then
	}
	if got := attr(span, "kalpa.reason").AsString(); got != "pressure" || attr(span, "mcp.session.id").AsString() != gone.id || attr(span, "kalpa.residents").AsInt64() != 3 {
		t.Errorf("reclaimed for %q: session %q, of %q", got, attr(span, "mcp.session.id").AsString(), gone.id)
	}
	if got := gone.post(alloc("3", 1)).wait().text(); !strings.Contains(got, "keeping 1 MiB") {
		t.Errorf("it was not rebuilt: %s", got)
	}
}

// What is needed, or is to stay for ever, is not taken, also when that means a reset.
func TestPressureTakesNoRuntimeThatIsNeeded(t *testing.T) {
	for name, never := range map[string]bool{"a request is under way": false, "no time-out": true} {
		t.Run(name, func(t *testing.T) {
			o := newPressed(t, 16<<20, 1, nil)
			o.serverTuned = func(s *session.Server) {
				if never {
					s.IdleTimeout = -1
				}
			}
			o.reboot()
			o.mu.Lock()
			o.memory = 30 << 20
			o.mu.Unlock()
			a, b := o.open1(), o.open1()
			if !never {
				a.post(call("1", "hang"))
				b.post(call("1", "hang"))
				o.within(5*time.Second, "both have begun", func() bool { return o.saw("hang") == 2 })
			}
			c := &client{o.world, session.NewID(time.Now())}
			l := c.postAs(caller, true, initialize).wait()
			if actor.CauseOf(l.end.Err) != actor.MemoryLimit || !strings.Contains(l.end.Err.Error(), c.id+" asked for") {
				t.Errorf("got %s, and then %v", l.text(), l.end.Err)
			}
			if n := o.figures("kalpa.mcp.runtime.disposals")["isolate=0,reason=pressure,server=model"]; n != 0 {
				t.Errorf("%d runtimes were reclaimed", n)
			}
		})
	}
}

// Requests that come while their runtimes are being reclaimed wait for the next ones:
// none fails, however often it happens.
func TestARequestWinsOverPressureOrWaits(t *testing.T) {
	o := newPressed(t, 1, 1, nil)
	o.mu.Lock()
	o.memory = 20 << 20 // three fit
	o.mu.Unlock()
	var clients []*client
	for range 5 {
		clients = append(clients, o.open1())
	}
	for round := range 6 {
		var under []*link
		for _, c := range clients[:2+round%2] { // as many as fit at once
			under = append(under, c.post(call(fmt.Sprint(round), "echo")))
		}
		for _, l := range under {
			if got := l.wait().text(); !strings.Contains(got, `"result":{"echo"`) {
				t.Errorf("round %d: %s", round, got)
			}
		}
		clients = append(clients[2:], clients[:2]...)
	}
	if n := o.figures("kalpa.mcp.runtime.disposals")["isolate=0,reason=pressure,server=model"]; n < 5 {
		t.Errorf("only %d runtimes were reclaimed: %v", n, o.figures("kalpa.mcp.runtime.disposals"))
	}
}
