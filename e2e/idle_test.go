package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
)

// These tests tell the story that kalpa exists for: a session's idle deadline
// outlives whatever recomputes the object's one alarm, so that its runtime is
// reclaimed, and the next call builds it anew (I7, I8, I9). Then they take the
// parts of the cure out, one by one, and see the same story fail.

const (
	idleTimeout = 2 * time.Second
	// idleWatch is for how long nothing may happen once a session is idle.
	idleWatch = 3 * time.Second
)

// observed is a host whose idle runtimes are reclaimed soon, and what it tells of
// that.
type observed struct {
	*host
	trace string // the file of spans
}

func observe(t *testing.T, o hosting) *observed {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "spans.jsonl")
	o.flags = append(slices.Clone(o.flags), "--idle-timeout", idleTimeout.String(), "--admin", "127.0.0.1:0", "--trace-file", trace)
	return &observed{serve(t, o), trace}
}

func (h *observed) builds(session string) []span {
	h.t.Helper()
	return spans(h.t, h.trace, "mcp.session.build", session)
}

func (h *observed) disposals(session string) []span {
	h.t.Helper()
	return spans(h.t, h.trace, "mcp.session.dispose", session)
}

// onItsClock checks a disposal's span: the runtime had been idle for the time-out.
func onItsClock(t *testing.T, d span) {
	t.Helper()
	if d.Attributes.Reason != "idle" {
		t.Errorf("the runtime was closed because of %q, want idle", d.Attributes.Reason)
	}
	idle := time.Duration(d.Attributes.IdleMS * float64(time.Millisecond))
	if idle < idleTimeout || idle > idleTimeout+idleTimeout/10 {
		t.Errorf("the runtime was closed when it had been idle for %v, want %v and no more than a tenth over", idle, idleTimeout)
	}
}

// user is somebody at a client that holds its GET stream open.
type user interface {
	open(url string) (session string)
	call(text string) (answer string)
	streams() int // that the client has opened
}

// reclaimed tells the story on a host. What has to be so whatever is taken out
// fails the test; what the cure is for is returned as an error.
func reclaimed(t *testing.T, h *observed, u user) error {
	session := u.open(h.url)
	if got := u.call("one"); !strings.Contains(got, "one") {
		t.Fatalf("the first call is answered %q", got)
	}
	answered := time.Now()
	if n := h.residents(); n != 1 {
		t.Fatalf("%v runtimes are resident after a call, want 1", n)
	}

	// Idle. The stream is open all the time.
	var disposal span
	found := false
	for limit := answered.Add(idleTimeout * 7 / 4); !found && time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		for _, d := range h.disposals(session) {
			if d.Start.After(answered) {
				disposal, found = d, true
			}
		}
	}
	if !found {
		return fmt.Errorf("no disposal span exported for session %s", session)
	}
	onItsClock(t, disposal)
	if n := disposal.Attributes.Residents; n == nil || *n != 0 {
		t.Error("the disposal's span does not have kalpa.residents 0")
	}
	builds := h.builds(session)
	first := builds[len(builds)-1]
	if len(disposal.Links) != 1 || disposal.Links[0].ID != first.ID {
		t.Errorf("the disposal is linked to %v, want the build %s", disposal.Links, first.ID)
	}
	if n := h.residents(); n != 0 {
		t.Errorf("%v runtimes are resident after the disposal, want 0", n)
	}

	// At rest: no alarm, and the client that has come back builds nothing.
	const firings = "kalpa_alarm_fired_total"
	before := h.metric(firings)
	time.Sleep(idleWatch)
	if n := h.metric(firings) - before; n > 1 {
		return fmt.Errorf("the alarm of session %s spins: %v firings in %v", session, n, idleWatch)
	}
	if n := u.streams(); n < 2 {
		t.Errorf("the client has opened %d streams, want another after the disposal", n)
	}
	if n := h.residents(); n != 0 || len(h.builds(session)) != len(builds) {
		t.Errorf("a client that listens has brought %v runtimes back, after %d builds", n, len(h.builds(session)))
	}

	// The next call: right, from a runtime that was built beneath the client.
	if got := u.call("two"); !strings.Contains(got, "two") {
		t.Errorf("the call after the disposal is answered %q", got)
	}
	builds = h.builds(session)
	next := builds[len(builds)-1]
	was, is := first.Attributes, next.Attributes
	if !is.Rebuilt || is.Epoch < was.Epoch || is.Epoch == was.Epoch && is.Generation != was.Generation+1 {
		t.Errorf("the runtime that answers is (epoch, generation) (%d, %d), rebuilt %t; want the one after (%d, %d)",
			is.Epoch, is.Generation, is.Rebuilt, was.Epoch, was.Generation)
	}
	if n := h.residents(); n != 1 {
		t.Errorf("%v runtimes are resident after the next call, want 1", n)
	}
	return nil
}

// rawUser is at the raw client, with a server that has the tool echo {text}.
type rawUser struct {
	t *testing.T
	c *client
	l *listener
}

func (u *rawUser) open(url string) string {
	u.t.Helper()
	u.c = newClient(u.t, url)
	u.c.connect(vNov)
	u.l = u.c.listen(listening{pause: 100 * time.Millisecond})
	return u.c.session
}

func (u *rawUser) call(text string) string {
	u.t.Helper()
	return u.c.post(call("1", "echo", fmt.Sprintf(`{"text":%q}`, text))).result().Text()
}

func (u *rawUser) streams() int { return int(u.l.opened.Load()) }

// officialUser is at the official client, with server-everything.
type officialUser struct {
	t *testing.T
	c *tsClient
}

func (u *officialUser) open(url string) string {
	u.t.Helper()
	u.c = newTSClient(u.t)
	s := u.c.connect(url, nil)
	u.c.listening(0)
	return s.Session
}

func (u *officialUser) call(text string) string {
	u.t.Helper()
	return u.c.tool("echo", object{"message": text})
}

func (u *officialUser) streams() int {
	return len(u.c.saw(func(e tsEvent) bool {
		return e.Event == "http" && e.Method == http.MethodGet && e.Status == http.StatusOK
	}))
}

func TestIdleRuntimesAreReclaimed(t *testing.T) {
	t.Parallel()
	story := func(o hosting, user func(*testing.T) user) func(*testing.T) {
		// The program that is shipped does not read this.
		o.env = []string{"KALPA_SEAMS=" + strings.Join(seams.Names(), ",")}
		return func(t *testing.T) {
			u := user(t)
			if err := reclaimed(t, observe(t, o), u); err != nil {
				t.Error(err)
			}
		}
	}
	raw := func(t *testing.T) user { return &rawUser{t: t} }
	official := func(t *testing.T) user { t.Helper(); needNode(t); return &officialUser{t: t} }
	atOnce(t, map[string]func(*testing.T){
		"demo":           story(hosting{}, raw),
		"child process":  story(hosting{command: fake()}, raw),
		"official peers": story(npxEverything, official),
	})
}

// The same story with a part of the cure taken out, which each fails it.
func TestEachPartOfTheCureIsNeeded(t *testing.T) {
	t.Parallel()
	const leaks, spins = "no disposal span exported for session ", "the alarm of session "
	without := func(seam, want string) func(*testing.T) {
		return func(t *testing.T) {
			u := &rawUser{t: t}
			err := reclaimed(t, observe(t, hosting{program: kalpaSeams, env: []string{"KALPA_SEAMS=" + seam}}), u)
			if err == nil || !strings.HasPrefix(err.Error(), want+u.c.session) {
				t.Errorf("the story ends with %v, want %q", err, want+u.c.session)
			}
			t.Log(err)
		}
	}
	atOnce(t, map[string]func(*testing.T){
		"no-reassert":      without("no-reassert", leaks),
		"no-release":       without("no-release", leaks),
		"delete-last":      without("delete-last", leaks),
		"rearm-while-idle": without("rearm-while-idle", spins),
	})
}

// atOnce runs subtests that mostly wait at the same time, whatever the number of
// places that t.Parallel has.
func atOnce(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

func TestSeamsAreOnlyInTestBuilds(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]bool{kalpa: false, kalpaSeams: true} {
		code, err := os.ReadFile(program(t, pkg))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(code, []byte("KALPA_SEAMS")); got != want {
			t.Errorf("go build %s: the program has the name of the variable: %t, want %t", pkg, got, want)
		}
	}
	// What seems to be taken out must be.
	h := newHost(t, hosting{program: kalpaSeams, env: []string{"KALPA_SEAMS=no-such"}})
	if err := h.start(); err == nil || h.cmd.ProcessState.ExitCode() != 2 || !strings.Contains(h.stderr.String(), `"no-such" is not a seam`) {
		t.Errorf("with an unknown seam: %v, exit code %d: %s", err, h.cmd.ProcessState.ExitCode(), h.stderr)
	}
}

// Clients that come back at once whenever their stream ends, and cut it as well,
// keep no runtime; and a call that outlasts the time-out keeps its own.
func TestClientsThatReconnectForEverPinNothing(t *testing.T) {
	t.Parallel()
	h := observe(t, hosting{})
	const lasts = idleTimeout * 7 / 4
	var idle []*client
	listeners := map[string]*listener{}
	for _, o := range []listening{{}, {cut: 20 * time.Millisecond}, {cut: 20 * time.Millisecond}} {
		c := h.session()
		listeners[c.session] = c.listen(o)
		idle = append(idle, c)
	}
	busy := idle[2]
	begun := time.Now()
	long := busy.post(call("1", "sleep", fmt.Sprintf(`{"ms":%d}`, lasts.Milliseconds())))
	for _, c := range idle[:2] {
		c.post(call("1", "echo", `{"text":"hi"}`)).result()
	}
	if n := h.residents(); n != 3 {
		t.Fatalf("%v runtimes are resident, want 3", n)
	}
	if got := long.result().Text(); got == "" || time.Since(begun) < lasts {
		t.Errorf("the long call is answered %q after %v", got, time.Since(begun))
	}
	if n := len(h.disposals(busy.session)); n > 0 {
		t.Errorf("the runtime was reclaimed %d times during the call", n)
	}
	eventually(t, idleTimeout+2*time.Second, "all runtimes are reclaimed", func() bool { return h.residents() == 0 })
	time.Sleep(500 * time.Millisecond) // the clients still come back
	for _, c := range idle {
		builds, disposals := h.builds(c.session), h.disposals(c.session)
		if len(builds) != 1 || len(disposals) != 1 {
			t.Errorf("session %s: %d builds and %d disposals, want 1 of each", c.session, len(builds), len(disposals))
			continue
		}
		onItsClock(t, disposals[0])
	}
	for session, l := range listeners {
		t.Logf("session %s: %d streams", session, l.opened.Load())
	}
	if n := listeners[busy.session].opened.Load(); n < 20 {
		t.Errorf("a client that cuts its stream every 20 ms has opened %d", n)
	}
}
