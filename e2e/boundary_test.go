package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/soak"
	"github.com/kalpahost/kalpa/storage"
)

// The host is killed with -9 just before and just after its first group commit, its
// second, and so on, until a session has gone through all of its life without being
// hit. Whichever it was: the client resumes, no event that it holds an id of is
// missing, no id has two contents, each request is answered or never accepted,
// nothing is said not to have been started that the server has seen, nothing is
// executed twice, and no number that was counted is lost (I1, I2, I3, I11).
func TestKilledAtEachCommitBoundary(t *testing.T) {
	t.Parallel()
	// Short: a third of them.
	step := 3
	if all {
		step = 1
	}
	scripts := map[string]func(*testing.T) *life{
		"demo " + vNov: func(*testing.T) *life { return &life{version: vNov, count: "incr", report: "sleep"} },
		"child " + vMar: func(t *testing.T) *life {
			t.Helper()
			return &life{version: vMar, count: "echo", report: "steps", log: newJournal(t)}
		},
	}
	const most, together = 300, 6
	tests := map[string]func(*testing.T){}
	for name, script := range scripts {
		for first, seam := range []string{"kill-before-commit", "kill-after-commit"} {
			tests[name+" "+seam] = func(t *testing.T) {
				through := false
				for n := 1 + first; n <= most && !through; {
					batch := map[string]func(*testing.T){}
					var mu sync.Mutex
					for range together {
						number := n
						n += step
						batch[fmt.Sprint(number)] = func(t *testing.T) {
							killed := script(t).lead(t, fmt.Sprintf("%s:%d", seam, number))
							mu.Lock()
							defer mu.Unlock()
							through = through || !killed
						}
					}
					atOnce(t, batch)
				}
				if !through {
					t.Errorf("a session's life has more than %d commits", most)
				}
			}
		}
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

// life is a session's, as it is scripted.
type life struct {
	version string
	count   string // the tool that counts, or answers its text
	report  string // the tool that reports progress
	log     *journal
	all     []*soak.Resumer // the last has the session that lives to the end
}

const shortIdle = 400 * time.Millisecond

// lead leads a life on a host that is killed once, and judges it. It tells whether
// the host was killed.
func (l *life) lead(t *testing.T, seam string) (killed bool) {
	o := hosting{program: kalpaSeams, env: []string{"KALPA_SEAMS=" + seam}, flags: []string{"--idle-timeout", shortIdle.String()}}
	if l.log != nil {
		o.command = fake("-journal", l.log.path)
	}
	h := newHost(t, o)
	h.port = freePort(t)
	down := h.start() != nil
	var kills []time.Time
	over, watched := make(chan struct{}), make(chan struct{})
	go func() { // restarts the host; ends with the life
		defer close(watched)
		if !down {
			select {
			case <-h.ended:
			case <-over:
				return
			}
		}
		kills = append(kills, time.Now())
		h.env = nil
		h.restart()
	}()
	r := l.live(t, fmt.Sprintf("http://%s/mcp", h.address()))
	close(over)
	<-watched
	h.kill()

	j := soak.Judgement{}
	for _, r := range l.all {
		r.End()
		a := r.Account()
		a.Kills = kills
		j.Judge(a)
		l.executions(&j, a)
	}
	rows(t, h.data, func(session string, e storage.Entry) {
		if session == r.C.Session && e.Key == "meta" && !strings.Contains(string(e.Value), `"ended":true`) {
			j.Fault("a session that was deleted has not ended: %s", e.Value)
		}
	})
	for _, f := range j.Faults {
		t.Error(f)
	}
	t.Logf("killed %d times: %v", len(kills), &j)
	return len(kills) > 0
}

// live is the script.
func (l *life) live(t *testing.T, url string) *soak.Resumer {
	r := l.open(t, url)
	l.tell(t, r, notification("notifications/initialized"))
	r.Listen()
	l.reporting(t, r)
	l.one(t, r)
	if l.version == vMar {
		l.batch(t, r)
	}
	l.one(t, r)
	time.Sleep(shortIdle * 7 / 4) // its runtime is disposed of
	l.one(t, r)                   // and built again
	r.Over()
	l.remove(t, r)
	if x, err := r.C.Do(t.Context(), http.MethodPost, call("0", l.count, `{}`), nil); err == nil && x.Status != http.StatusNotFound {
		t.Errorf("a call in a session that was deleted: status %d", x.Status)
	}
	return r
}

// open initializes a session, and another one when that is lost.
func (l *life) open(t *testing.T, url string) *soak.Resumer {
	for range 10 {
		r := soak.NewResumer(t.Context(), soak.NewClient(url), fmt.Sprintf("r%d", len(l.all)))
		t.Cleanup(r.End)
		l.all = append(l.all, r)
		a := r.Attempt("", "")
		r.Post(strings.Replace(initializeRequest(l.version), `"id":0`, `"id":`+a.ID, 1), a)
		if l.answered(t, r, a) && r.Answer(a).Error == nil {
			r.C.Version = l.version
			return r
		}
	}
	t.Fatal("no session")
	return nil
}

// answered waits for an answer. False: the client has been told by its connection that
// there may be none, and none has come on its GET.
func (l *life) answered(t *testing.T, r *soak.Resumer, a *soak.Attempt) bool {
	for limit := time.Now().Add(15 * time.Second); !a.Answered(); time.Sleep(10 * time.Millisecond) {
		switch gone := r.Gone(a); {
		case !gone.IsZero() && time.Since(gone) > time.Second:
			return false
		case time.Now().After(limit):
			t.Fatalf("%s (%s) is not answered; the client saw %q", a.ID, a.Tool, r.Account().Bad)
		}
	}
	return true
}

// done makes a call again until it has a result.
func (l *life) done(t *testing.T, r *soak.Resumer, do func() []*soak.Attempt) {
	t.Helper()
	for range 10 {
		good := true
		for _, a := range do() {
			good = l.answered(t, r, a) && r.Answer(a).Error == nil && good
		}
		if good {
			return
		}
	}
	t.Fatal("no result")
}

func (l *life) reporting(t *testing.T, r *soak.Resumer) {
	t.Helper()
	l.done(t, r, func() []*soak.Attempt {
		if l.report == "sleep" {
			return []*soak.Attempt{r.Call("sleep", `{"ms":30,"steps":3}`, "slept 30 ms", true)}
		}
		a := r.Attempt(l.report, "done")
		r.Post(callWithToken(a.ID, a.Tool, fmt.Sprintf(`{"count":3,"ms":10,"text":%s}`, a.ID), a.ID), a)
		return []*soak.Attempt{a}
	})
}

// counting is an attempt of the tool that counts, and its request.
func (l *life) counting(r *soak.Resumer) (a *soak.Attempt, body string) {
	if l.count == "incr" {
		a = r.Attempt("incr", "")
		return a, call(a.ID, "incr", `{}`)
	}
	a = r.Attempt(l.count, "")
	a.Want = strings.Trim(a.ID, `"`)
	return a, call(a.ID, l.count, fmt.Sprintf(`{"text":%s}`, a.ID))
}

func (l *life) one(t *testing.T, r *soak.Resumer) {
	t.Helper()
	l.done(t, r, func() []*soak.Attempt {
		a, body := l.counting(r)
		r.Post(body, a)
		return []*soak.Attempt{a}
	})
}

func (l *life) batch(t *testing.T, r *soak.Resumer) {
	t.Helper()
	l.done(t, r, func() (all []*soak.Attempt) {
		var bodies []string
		for range 3 {
			a, body := l.counting(r)
			all, bodies = append(all, a), append(bodies, body)
		}
		r.Post("["+strings.Join(bodies, ",")+"]", all...)
		return all
	})
}

func (l *life) tell(t *testing.T, r *soak.Resumer, body string) {
	t.Helper()
	for r.Sleep() {
		x, err := r.C.Do(t.Context(), http.MethodPost, body, nil)
		if err == nil && x.Status != http.StatusAccepted {
			t.Fatalf("status %d for %s", x.Status, body)
		}
		if err == nil {
			return
		}
	}
}

func (l *life) remove(t *testing.T, r *soak.Resumer) {
	t.Helper()
	for r.Sleep() {
		x, err := r.C.Do(t.Context(), http.MethodDelete, "", nil)
		if err != nil {
			continue
		}
		if x.Status/100 != 2 && x.Status != http.StatusNotFound {
			t.Errorf("DELETE: status %d", x.Status)
		}
		return
	}
}

// executions compares what a client was told with what its server has seen: each
// request once, or never, and never where it was said not to have been started.
func (l *life) executions(j *soak.Judgement, a soak.Account) {
	if l.log == nil {
		return // demo has no journal, and a counter
	}
	ran := map[string]int{}
	for _, e := range l.log.entries("tools/call") {
		var p struct {
			Arguments struct{ Text json.RawMessage }
		}
		_ = json.Unmarshal(e.Params, &p)
		ran[string(p.Arguments.Text)]++
	}
	answer := a.Answers()
	for _, c := range a.Calls {
		if c.Tool == "" {
			continue
		}
		n, m := ran[c.ID], answer[c.ID]
		told, lost := soak.LossIn(m)
		switch {
		case n > 1:
			j.Fault("%s (%s) was executed %d times", c.ID, c.Tool, n)
		case n > 0 && lost && !told.Started:
			j.Fault("%s (%s) is said not to have been started, and was", c.ID, c.Tool)
		case n == 0 && m.Result != nil:
			j.Fault("%s (%s) has a result, and was not executed", c.ID, c.Tool)
		}
	}
}
