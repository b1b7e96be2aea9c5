package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// A server whose session is reset does not end, though it is told to, and goes on
// answering while the next incarnation is up: nothing of that reaches storage or a
// client, and the next server is started when it is gone (I4, rule k).
func TestNothingOfAServerWhoseTimeIsOverReachesAnybody(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]func(*testing.T, *host, *client){
		"a session": func(t *testing.T, h *host, c *client) { t.Helper(); h.reset(t, c.session, "aborted") },
		"isolates": func(t *testing.T, h *host, _ *client) {
			t.Helper()
			for n := range isolates {
				ask := map[string]any{"isolate": n, "cause": "memory_limit"}
				if err := h.ask(t.Context(), http.MethodPost, "/v1/reset", ask, &struct{}{}); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newJournal(t)
			h := serve(t, hosting{command: fake("-journal", log.path), flags: withAdmin})
			c := h.session()
			get := c.get("")
			x := c.post(callWithToken("7", "haunt", `{}`, `"t"`))
			eventually(t, patience, "the server has the call", func() bool { return len(log.entries("haunting")) == 1 })
			old := log.entries("haunting")[0]
			reset(t, h, c)
			if l := lossOf(t, x.answer()); !l.Started || l.Reason == session.ReasonExited {
				t.Errorf("the loss is %+v", l)
			}

			// The next incarnation is up, and has a request; the old server is not gone.
			y := c.post(callWithToken("8", "steps", `{"count":20,"ms":10}`, `"t"`))
			said := len(log.entries("ghost"))
			if !alive(old.PID) {
				t.Fatal("the old server is gone already")
			}
			eventually(t, patience, "the old server goes on", func() bool { return len(log.entries("ghost")) >= said+3 })
			if log.starts() != 1 {
				t.Error("the next server was started before the old one was gone")
			}
			frames := y.all()
			if got := answers(t, frames); len(got) != 1 || string(got[0].ID) != "8" || got[0].Text() != "done" {
				t.Errorf("the next call got %q", raws(frames))
			}
			calls := log.entries("tools/call")
			if len(calls) != 2 || calls[1].PID == old.PID || string(calls[0].ID) != string(calls[1].ID) {
				t.Errorf("the servers were sent %+v: want a call each, with one id, or nothing could be mixed up", calls)
			}
			time.Sleep(100 * time.Millisecond)
			h.kill()
			for f := range get.frames {
				frames = append(frames, f)
			}
			for _, f := range frames {
				if strings.Contains(f.raw, "ghost") {
					t.Errorf("a client got %s", f.raw)
				}
			}
			rows(t, h.data, func(_ string, e storage.Entry) {
				if strings.Contains(string(e.Value), "ghost") {
					t.Errorf("%s is stored: %s", e.Key, e.Value)
				}
			})
		})
	}
}
