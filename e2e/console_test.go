package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/crowd"
)

// console is where the console of a host with an admin listener is.
func (h *host) console() string { return strings.TrimSuffix(h.metrics, "metrics") }

// admin talks to a host with an admin listener.
func (h *host) admin() *admin.Client {
	h.t.Helper()
	c, err := admin.NewClient(h.console(), "")
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// server is where one of several servers is.
func (h *host) server(name string) string { return h.url[:strings.LastIndexByte(h.url, '/')+1] + name }

// happened is the selector of an event of the feed.
func happened(kind, session string) string {
	return fmt.Sprintf(`#feed li[data-type=%q][data-session=%q]`, kind, session)
}

// What happens to a session is in the feed as it happens, and in the session's own
// timeline; and the buttons do what they say.
func TestConsoleShowsWhatHappensAndDoesWhatItSays(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: withAdmin})
	b.open(h.console(), nil)
	b.see(`#host-state:text("serving")`)
	b.see(`#feed-state:text("live")`)
	b.see(`#no-rows:text("No sessions yet")`)
	b.see(`#no-events`)

	c := h.session()
	b.see(happened("session.opened", c.session))
	b.see(happened("runtime.built", c.session))
	b.click(fmt.Sprintf(`#rows tr[data-key=%q]`, c.session))
	b.see(`#session[open] h2:has-text("` + c.session + `")`)
	b.see(`#timeline li:has-text("runtime built")`)
	b.see(`#session p:text("It owes nothing.")`)

	// A runtime whose session owes an answer is not disposed of, unless that is meant.
	waits := c.begin(call("7", "sleep", `{"ms":600000}`))
	b.see(`#waiting tr:has-text("tools/call sleep")`)
	b.click(`#session button:text("Dispose runtime")`)
	b.until(`document.activeElement.textContent === "Cancel"`)
	b.click(`#confirm button.first`)
	b.see(`#confirm .failure:has-text("owes the answers to 1 requests") .hint:has-text("force")`)
	b.click(`#force`)
	b.click(`#confirm button.first`)
	b.gone(`#confirm[open]`)
	if m := waits.opened(t).answer(); m.Error == nil || m.Error.Code != -32010 {
		t.Errorf("the runtime was disposed of, and the call: %+v", m)
	}
	b.see(`#timeline li:has-text("execution lost: tools/call sleep (aborted)")`)
	b.see(`#timeline li:has-text("runtime disposed: an operator asked for it")`)

	// A reset, with its cause.
	if got := c.post(call("8", "incr", `{}`)).result().Text(); got != "1" {
		t.Fatalf("incr: %q", got)
	}
	b.see(`#timeline li:has-text("tools/call incr: result in")`)
	b.until(`document.querySelector("#session .pill").textContent === "resident"`)
	waits = c.begin(call("9", "sleep", `{"ms":600000}`))
	b.see(`#waiting tr:has-text("tools/call sleep")`)
	b.click(`#session button:text-is("Reset")`)
	b.choose(`#cause`, "memory_limit")
	b.click(`#confirm button.first`)
	b.gone(`#confirm[open]`)
	if m := waits.opened(t).answer(); m.Error == nil || !strings.Contains(string(m.Error.Data), `"reason":"memory_limit"`) {
		t.Errorf("the session was reset, and the call: %+v", m)
	}
	b.see(`#timeline li:has-text("session reset: memory_limit, asked for in the console")`)
	b.see(`#timeline li:has-text("execution lost: tools/call sleep (memory_limit)")`)
	b.press("Escape")
	b.gone(`#session[open]`)
	for _, kind := range []string{"object.reset", "execution.lost", "runtime.disposed"} {
		b.see(happened(kind, c.session))
	}

	// An isolate: all of them.
	if got := c.post(call("10", "incr", `{}`)).result().Text(); got != "2" {
		t.Fatalf("incr: %q", got)
	}
	b.see(`#isolates .many:has-text("1 resident")`)
	in := slices.IndexFunc(b.texts(`#isolates .many`), func(s string) bool { return strings.HasPrefix(s, "1 resident") })
	b.click(fmt.Sprintf(`#isolates button[aria-label="Reset isolate %d"]`, in))
	b.click(`#confirm button.first`)
	b.gone(`#confirm[open]`)
	b.see(fmt.Sprintf(`#said:has-text("Isolate %d was reset, with 1 object.")`, in))
	b.see(`#feed li[data-type="isolate.reset"]`)
	b.until(`document.activeElement.getAttribute("aria-label") === "Reset isolate %d"`, in)
	if got := c.post(call("11", "incr", `{}`)).result().Text(); got != "3" {
		t.Errorf("incr: %q", got)
	}

	// What is not wanted is not shown, and a pause keeps the list still.
	b.click(`#show-resets`)
	b.gone(`#feed li[data-type="isolate.reset"]`)
	b.click(`#show-resets`)
	b.see(`#feed li[data-type="isolate.reset"]`)
	b.click(`#pause`)
	still := h.session()
	b.see(`#pause:text("new)")`)
	if n := len(b.texts(happened("session.opened", still.session))); n != 0 {
		t.Error("the feed goes on while it is paused")
	}
	b.click(`#pause`)
	b.see(happened("session.opened", still.session))

	// The end of a session.
	b.click(fmt.Sprintf(`#rows tr[data-key=%q] a`, c.session))
	b.click(`#session button:text("End session")`)
	b.click(`#confirm button:text("Cancel")`)
	b.gone(`#confirm[open]`)
	if got := c.post(call("12", "incr", `{}`)).result().Text(); got != "4" {
		t.Errorf("incr: %q", got)
	}
	b.click(`#session button:text("End session")`)
	b.click(`#confirm button.first`)
	b.gone(`#confirm[open]`)
	b.see(`#said:has-text("The session has ended.")`)
	if x := c.post(call("13", "incr", `{}`)); x.status != http.StatusNotFound {
		t.Errorf("the session was ended, and answers with %d", x.status)
	}
	b.see(`#timeline li:has-text("session ended: an operator asked for it")`)
	b.press("Escape")

	// The curves can be read.
	// A sample has been taken. A curve of one value has no height, and is not "visible".
	b.until(`document.querySelector("#charts .chart .line, #charts .chart .lone") !== null`)
	b.eval(`document.querySelector(".chart svg").focus()`)
	b.press("ArrowLeft")
	b.until(`/^\d\d:\d\d:\d\d\s+resident \d+, in memory \d+$/.test(document.querySelector(".chart .read").textContent)`)
	b.well()
}

// An isolate's bar has a part for each of its largest residents, that says whose it is to
// pointer and keys alike, and leads there.
func TestConsoleShowsWhoHoldsTheHeap(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		b := newBrowser(t)
		h := serve(t, hosting{flags: append([]string{"--isolates", "1", "--heap", "256MiB", "--idle-timeout", "1h"}, withAdmin...)})
		large, small := h.session(), h.session()
		large.post(call("1", "alloc", `{"mib":48}`)).result()
		small.post(call("1", "alloc", `{"mib":24}`)).result()
		for range 45 {
			h.session()
		}
		b.open(h.console(), object{"scheme": scheme})
		b.until(`document.querySelectorAll("#isolates .bar-heap a").length === 40`)
		parts := `[...document.querySelectorAll("#isolates .bar-heap a, #isolates .bar-heap span")].map(p => p.title)`
		b.until(`%s[0].startsWith("session %s: 48") && %s[1].startsWith("session %s: 24") && %s[40].startsWith("the other 7 objects: ")`, parts, large.session, parts, small.session, parts)
		// As wide as what it stands for: the first is twice the second.
		b.until(`(([a, b]) => a.width > 50 && Math.abs(a.width / b.width - 2) < 0.2)([...document.querySelectorAll("#isolates .bar-heap li")].map(li => li.getBoundingClientRect()))`)
		// By pointer.
		b.do("hover", object{"at": `#isolates .bar-heap li:nth-child(2) a`}, nil)
		b.see(`#holder:has-text("session ` + small.session + `: 24")`)
		// By keys: one stop, arrows, Enter; the focus outlives a refresh.
		b.eval(`document.querySelector("#isolates .bar-heap a").focus()`)
		b.see(`#holder:has-text("session ` + large.session + `: 48")`)
		if n := b.eval(`document.querySelectorAll('#isolates .bar-heap [tabindex="0"]').length`); n != "1" {
			t.Errorf("the tabulator stops %s times in a bar", n)
		}
		b.press("End")
		b.see(`#holder:has-text("the other 7 objects")`)
		b.press("Home")
		b.press("ArrowRight")
		b.see(`#holder:has-text("session ` + small.session + `: 24")`)
		small.post(call("2", "alloc", `{"mib":40}`)).result() // it is the larger one now
		b.until(`%s[0].startsWith("session %s: 64")`, parts, small.session)
		b.until(`document.activeElement.title.startsWith("session %s: 64")`, small.session)
		b.press("Enter")
		b.see(`#session[open] h2:has-text("` + small.session + `")`)
		b.press("Escape")
		b.gone(`#session[open]`)
		b.until(`document.documentElement.scrollWidth <= innerWidth`)
		b.well()
	}
}

// A part that is no session's leads to its object.
func TestConsoleShowsAnObject(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{program: "./examples/counter", flags: append([]string{"--plugin", "demo", "--isolates", "1"}, withAdmin...)})
	objects := strings.TrimSuffix(h.url, "/mcp") + "/objects/counter/"
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // it is in memory for as long as it is asked
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			if r, err := http.Post(objects+"a%2Fb/", "", nil); err != nil {
				t.Error(err)
			} else if r.Body.Close(); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	b.open(h.console(), nil)
	b.until(`document.querySelector("#isolates .bar-heap a")?.title.startsWith("counter a/b: ")`)
	b.eval(`document.querySelector("#isolates .bar-heap a").focus()`)
	b.press("Enter")
	b.see(`#object[open] h2:has-text("counter a/b")`)
	b.until(`location.hash === "#object=counter%%2Fa%%2Fb"`)
	b.see(`#object tbody tr`)
	b.press("Escape")
	b.gone(`#object[open]`)
	b.until(`location.hash === "" && document.activeElement.title.startsWith("counter a/b: ")`)
	b.well()
}

// hundredThousand is a host with as many sessions, at rest, of the server many, and three
// of the server few. It returns the ids, sorted.
func hundredThousand(t *testing.T) (h *host, all, few []string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kalpa.yaml")
	err := os.WriteFile(config, []byte("servers:\n  many: {plugin: demo}\n  few: {plugin: demo}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"--config", config, "--max-sessions", "0"}, withAdmin...)
	h = serve(t, hosting{flags: append([]string{"--idle-timeout", "1s", "--retention", "1s"}, flags...)})
	model := newClient(t, h.server("many"))
	model.connect(vNov)
	eventually(t, patience, "a session at rest", func() bool {
		s, err := h.admin().Session(t.Context(), model.session)
		return err == nil && s.State == "resting"
	})
	h.terminate()
	like, err := crowd.Take(t.Context(), h.data, model.session)
	if err == nil {
		all, err = crowd.Fill(t.Context(), h.data, like, 100_000-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.args = flags
	h.restart()
	for range 3 {
		c := newClient(t, h.server("few"))
		c.connect(vNov)
		few = append(few, c.session)
	}
	all = append(append(all, model.session), few...)
	slices.Sort(all)
	slices.Sort(few)
	return h, all, few
}

// A hundred thousand sessions are shown a page at a time, found by the beginning of their
// ids, and filtered; all of it by keys. What is asked for and what is on the page is as
// much as with a hundred.
func TestConsolePagesAHundredThousandSessions(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h, all, few := hundredThousand(t)
	const page = 50

	b.open(h.console(), nil)
	b.eval(`performance.setResourceTimingBufferSize(10000)`)
	rows := fmt.Sprintf(`document.querySelectorAll("#rows tr").length === %d`, page)
	shows := func(n int) []string { // the page with this number, from 1, and what is on it
		t.Helper()
		b.until(`%s && document.querySelector("#page").textContent === "page %d · 50 sessions"`, rows, n)
		got, want := b.texts(`#rows .id`), all[(n-1)*page:n*page]
		if !slices.Equal(got, want) {
			t.Fatalf("page %d is %q, want %q", n, got, want)
		}
		return got
	}
	first := shows(1)
	const far = 20
	for n := 2; n <= far; n++ {
		b.press("n")
		shows(n)
	}
	b.press("p")
	shows(far - 1)
	b.click(`#first`)
	shows(1)
	// To the end it is 2,000 pages: the last two, as Next asks for them.
	var end []string
	for after := all[len(all)-page-11]; ; {
		p, err := h.admin().Sessions(t.Context(), admin.SessionQuery{After: after, Limit: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Sessions {
			end = append(end, s.ID)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if want := all[len(all)-page-10:]; !slices.Equal(end, want) {
		t.Errorf("the last sessions are %q, want %q", end, want)
	}

	// Keys: down, up, open, close; the focus is where it was.
	b.press("j")
	b.until(`document.activeElement.textContent === %q`, first[0])
	b.press("ArrowDown")
	b.press("j")
	b.press("ArrowUp")
	b.until(`document.activeElement.textContent === %q`, first[1])
	b.press("Enter")
	b.see(`#session[open] h2:has-text("` + first[1] + `")`)
	b.until(`location.hash === %q`, "#session="+first[1])
	b.press("Escape")
	b.gone(`#session[open]`)
	b.until(`document.activeElement.textContent === %q`, first[1])

	// Search.
	b.press("/")
	b.until(`document.activeElement.id === "search"`)
	late := all[len(all)-10]
	b.fill(`#search`, late)
	b.until(`document.querySelectorAll("#rows tr").length === 1 && document.querySelector("#rows .id").textContent === %q`, late)
	b.fill(`#search`, late[:2])
	b.until(`%s && [...document.querySelectorAll("#rows .id")].every(a => a.textContent.startsWith(%q)) && document.querySelector("#page").textContent.startsWith("page 1 ·")`, rows, late[:2])
	b.fill(`#search`, "no-such-session")
	b.see(`#no-rows:text("No session is like that.")`)
	b.fill(`#search`, "")
	b.holds(rows)
	b.press("Escape")

	// Filters.
	b.choose(`#by-server`, "few")
	b.until(`document.querySelectorAll("#rows tr").length === 3`)
	if got := b.texts(`#rows .id`); !slices.Equal(got, few) {
		t.Errorf("the sessions of few are %q, want %q", got, few)
	}
	b.choose(`#by-state`, "ended")
	b.see(`#no-rows:text("No session is like that.")`)
	b.choose(`#by-state`, "resident")
	b.until(`document.querySelectorAll("#rows tr").length === 3`)
	b.choose(`#by-server`, "")
	b.until(`document.querySelectorAll("#rows tr").length === 3`)
	b.choose(`#by-state`, "")
	b.holds(rows)

	// As much as it was when there were four.
	if n := len(b.texts(`#feed li`)); n > 200 {
		t.Errorf("the feed has %d rows", n)
	}
	var elements, answers, largest int
	asked := `performance.getEntriesByType("resource").filter(e => e.name.includes("/v1/") && e.decodedBodySize)`
	for js, into := range map[string]*int{
		`document.querySelectorAll("*").length`:                  &elements,
		asked + `.length`:                                        &answers,
		`Math.max(...` + asked + `.map(e => e.decodedBodySize))`: &largest,
	} {
		var err error
		if *into, err = strconv.Atoi(b.eval(js)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d elements on the page; %d answers, of %d bytes at most", elements, answers, largest)
	if elements > 3000 || answers < far || largest > 32<<10 {
		t.Errorf("%d elements on the page; %d answers, of %d bytes at most", elements, answers, largest)
	}
	// At 800 pixels nothing sticks out, and no caption is cut; values take its place.
	b.open(h.console(), object{"width": 800})
	b.holds(rows)
	b.until(`document.documentElement.scrollWidth <= innerWidth`)
	captions := `[...document.querySelectorAll(".chart .foot > span")].every(s => s.scrollWidth <= s.clientWidth)`
	b.holds(captions)
	b.holds(`document.querySelector("#charts .chart .line")`) // which is flat, so that it counts as hidden
	b.eval(`document.querySelector(".chart svg").focus()`)
	b.press("ArrowLeft")
	b.until(`document.querySelector(".chart .read").textContent && %s`, captions)
	b.well()
}

// A host that is gone and comes back is seen to be gone, and then the page goes on.
func TestConsoleGoesOnAfterTheHostWasAway(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: []string{"--admin", fmt.Sprintf("127.0.0.1:%d", freePort(t))}})
	b.open(h.console(), nil)
	c := h.session()
	b.see(happened("session.opened", c.session))
	b.see(happened("runtime.built", c.session))
	b.see(fmt.Sprintf(`#rows tr[data-key=%q]`, c.session))
	h.kill()
	b.see(`#feed-state:text("connection lost, retrying")`)
	b.see(`#host-state:text("unreachable")`)
	b.see(`#trouble:has-text("the host does not answer") .hint`)
	b.see(fmt.Sprintf(`#rows tr[data-key=%q]`, c.session)) // what was known stays
	h.restart()
	b.see(`#feed-state:text("live")`)
	b.see(`#host-state:text("serving")`)
	b.gone(`#trouble`)
	b.see(`#feed li[data-type="gap"]`)
	c.post(call("1", "incr", `{}`)).result()
	b.see(happened("runtime.built", c.session) + ` >> nth=1`) // of both hosts
	b.well()
}

// A feed whose connection was cut goes on behind the last event that has come: nothing is
// missing, and nothing is there twice.
func TestConsoleResumesItsFeedAfterACut(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: withAdmin})
	network, url := behindCutter(t, h.console())
	b.open(url, nil)
	b.see(`#feed-state:text("live")`)
	for n := range 3 {
		before := h.session()
		b.see(happened("runtime.built", before.session))
		if network.cut() == 0 {
			t.Fatal("there was nothing to cut")
		}
		during := h.session()
		b.see(happened("runtime.built", during.session))
		for _, kind := range []string{"session.opened", "runtime.built"} {
			if all := len(b.texts(fmt.Sprintf(`#feed li[data-type=%q]`, kind))); all != 2*(n+1) {
				t.Fatalf("%s is in the feed %d times, and has happened %d times", kind, all, 2*(n+1))
			}
		}
	}
	if n := len(b.texts(`#feed li[data-type="gap"]`)); n != 0 {
		t.Errorf("the feed tells of %d gaps", n)
	}
	b.well()
}

// With a token the page is there, and shows nothing before it has it.
func TestConsoleAsksForTheToken(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	const token = "0123456789abcdef-token-of-a-test"
	h := serve(t, hosting{flags: withAdmin, env: []string{"KALPA_ADMIN_TOKEN=" + token}})
	c := h.session()
	row := fmt.Sprintf(`#rows tr[data-key=%q]`, c.session)
	b.open(h.console(), nil)
	b.see(`#token[open]`)
	b.until(`document.activeElement.id === "token-input"`)
	b.press("Escape")
	b.see(`#token[open]`)
	if n := len(b.texts(`#rows tr, #feed li, #isolates li`)); n != 0 {
		t.Errorf("%d rows are there without the token", n)
	}
	b.fill(`#token-input`, "not-it")
	b.press("Enter")
	b.see(`#token .failure:has-text("That was not it")`)
	b.fill(`#token-input`, token)
	b.press("Enter")
	b.gone(`#token[open]`)
	b.see(row)
	b.see(happened("session.opened", c.session))
	b.see(`#host-state:text("serving")`)

	b.do("reload", nil, nil)
	b.see(row)
	b.see(`#feed-state:text("live")`)
	if got := b.eval(`JSON.stringify([document.cookie, Object.values(localStorage)].concat(location.href))`); strings.Contains(got, token) {
		t.Errorf("the token is where it outlives the tab: %s", got)
	}
	b.click(`#forget`)
	b.see(`#token[open]`)
	b.well()
}

func TestConsoleIsLightAndDark(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: withAdmin})
	const light, dark = "rgb(245, 245, 242)", "rgb(14, 14, 13)"
	is := func(want string) {
		t.Helper()
		b.until(`getComputedStyle(document.body).backgroundColor === %q`, want)
	}
	b.open(h.console(), object{"scheme": "dark"})
	b.see(`#theme:text("Auto")`)
	is(dark)
	b.open(h.console(), nil)
	b.see(`#theme:text("Auto")`)
	is(light)
	b.click(`#theme`)
	b.click(`#theme`)
	is(dark)
	b.do("reload", nil, nil)
	b.see(`#theme:text("Dark")`)
	is(dark)
	b.click(`#theme`)
	is(light)
	b.press("?")
	b.see(`#shortcuts[open]`)
	b.press("Escape")
	b.gone(`#shortcuts[open]`)
	b.well()
}

// A server whose command is not there says so before anybody has asked for it.
func TestConsoleShowsAServerThatCannotStart(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: withAdmin, command: []string{"/no/such/server"}})
	b.open(h.console(), nil)
	b.see(`#servers .pill:text("can't start")`)
	b.see(`#servers p:has-text("no such file")`)
	b.well()
}

// A server that ends at its start is seen, with what it has said.
func TestConsoleShowsACrashLoop(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := serve(t, hosting{flags: withAdmin, command: fake("-refuse")})
	b.open(h.console(), nil)
	b.see(`#servers .pill:text("idle")`)
	for n := range 8 {
		newClient(t, h.url).post(initializeRequest(vNov)).body()
		if n == 0 {
			b.see(`#feed li[data-type="runtime.failed"]`)
		}
	}
	b.see(`#servers .pill:text("crash loop")`)
	b.see(`#servers pre:has-text("fatal: the API key is missing")`)
	b.see(`#servers summary:has-text("in a row")`)
	b.well()
}
