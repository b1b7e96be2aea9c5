package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/guarantees"
	"github.com/kalpahost/kalpa/mcp/session"
)

// lossOf is what the error of a lost request says.
func lossOf(t *testing.T, m message) session.Loss {
	t.Helper()
	if m.Error == nil || m.Error.Code != -32010 {
		t.Fatalf("the request %s is answered by %s %+v, want an error -32010", m.ID, m.Result, m.Error)
	}
	var l session.Loss
	if err := json.Unmarshal(m.Error.Data, &l); err != nil {
		t.Fatalf("%v: %s", err, m.Error.Data)
	}
	return l
}

// Of a batch, what was answered before the reset is answered, and the rest is lost:
// on its own stream, and on the GET of a client that was cut off (I1).
func TestOnlyTheRestOfABatchIsLost(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{flags: withAdmin})
	for _, s := range []guarantees.Situation{guarantees.Alive, guarantees.Cut, guarantees.Killed} {
		t.Run(s.String(), func(t *testing.T) {
			c := newClient(t, h.url)
			c.connect(vMar)
			x := c.post("[" + strings.Join([]string{
				call("1", "sleep", `{"ms":60000}`), call(`"two"`, "incr", `{}`), request("3", "ping", `{}`), call("4", "sleep", `{"ms":60000}`),
			}, ",") + "]")
			seen := x.events(2)
			switch s {
			case guarantees.Alive:
				h.reset(t, c.session, "memory_limit")
			case guarantees.Cut:
				x.close()
				h.reset(t, c.session, "memory_limit")
			case guarantees.Killed:
				h.crash()
			}
			from := time.Now()
			y := x
			if s != guarantees.Alive {
				y = c.get(seen[1].id)
			}
			rest := answers(t, y.all())
			if took := time.Since(from); took > guarantees.Within {
				t.Errorf("the answers took %v", took)
			}
			var before, after []string
			for _, m := range answers(t, seen) {
				if m.Error != nil {
					t.Errorf("%s is answered by %+v", m.ID, m.Error)
				}
				before = append(before, string(m.ID))
			}
			for _, m := range rest {
				if l := lossOf(t, m); !l.Started || !l.Retryable || l.Tool != "sleep" {
					t.Errorf("%s: %+v", m.ID, l)
				}
				after = append(after, string(m.ID))
			}
			slices.Sort(before)
			if !slices.Equal(before, []string{`"two"`, "3"}) || !slices.Equal(after, []string{"1", "4"}) {
				t.Errorf("answered before the reset: %q, as lost: %q", before, after)
			}
			if got := c.post(call("5", "incr", `{}`)).result().Text(); got != "2" {
				t.Errorf("the next call: %q, want 2", got)
			}
		})
	}
}

// Only the server's process is killed, in mid-call, and the host lives: what it owed is
// answered at once, and the next request finds another, which was told what the first
// had been.
func TestServerThatIsKilledInMidCallIsAnsweredForAndReplaced(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	c.post(request("1", "logging/setLevel", `{"level":"warning"}`)).result()
	c.post(request("2", "resources/subscribe", `{"uri":"fake://a"}`)).result()
	x := c.post(call("3", "wait", `{"ms":60000}`))
	eventually(t, patience, "the server has the call", func() bool { return len(log.entries("tools/call")) == 1 })
	from := time.Now()
	if err := syscall.Kill(log.entries("start")[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l := lossOf(t, x.answer())
	if took := time.Since(from); took > guarantees.Within {
		t.Errorf("the answer took %v", took)
	}
	if l.Reason != session.ReasonExited || !l.Started || !l.Retryable || l.Tool != "wait" {
		t.Errorf("the loss is %+v", l)
	}
	if got := c.post(call("4", "echo", `{"text":"again"}`)).result().Text(); got != "again" {
		t.Errorf("the next call: %q", got)
	}
	var told []string
	all := log.entries("")
	for _, e := range all[slices.IndexFunc(all, func(e entry) bool { return e.Method == "tools/call" })+1:] {
		told = append(told, e.Method)
	}
	want := []string{"start", "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/call"}
	if !slices.Equal(told, want) {
		t.Errorf("the next server was told %v, want %v", told, want)
	}
}

// A front that never hears from its session answers in its place, when the time is up:
// the last resort, which is counted (I1).
func TestFrontThatHearsNothingAnswersItself(t *testing.T) {
	t.Parallel()
	if !all {
		t.Skip("takes 15 s, a front's patience: make chaos")
	}
	h := serve(t, hosting{flags: withAdmin})
	c := h.session()
	number := h.arm(t, strike{Point: "before-commit", Session: c.session, Tool: "incr", Hold: "25s"})
	p := c.begin(call("1", "incr", `{}`))
	h.struck(t, number)
	x := p.opened(t)
	m := parse(t, x.body())
	if l := lossOf(t, m); string(m.ID) != "1" || l.Reason != session.ReasonUnanswered || !l.Started || !l.Retryable || l.Tool != "incr" {
		t.Errorf("%s: %+v", m.ID, l)
	}
	if x.status != http.StatusInternalServerError {
		t.Errorf("status %d", x.status)
	}
	resp, err := http.Get(h.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	figures, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	const figure = "\nkalpa_mcp_front_last_resorts_total"
	i := strings.Index(string(figures), figure)
	if line, _, _ := strings.Cut(string(figures)[max(i, 0)+1:], "\n"); i < 0 || !strings.HasSuffix(line, "} 1") {
		t.Errorf("the metric is %q, want 1", line)
	}
	// The request was never stored, so nothing is left of it.
	if got := c.post(call("2", "incr", `{}`)).result().Text(); got != "1" {
		t.Errorf("the next call: %q, want 1", got)
	}
}
