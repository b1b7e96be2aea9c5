package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
)

func (w *world) get(path string, into any) {
	w.t.Helper()
	r, err := http.Get(w.admin.URL + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil || r.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s, %v", path, r.Status, err)
	}
}

func TestWhatASessionHasDoneIsRemembered(t *testing.T) {
	w := newWorld(t, "")
	id, other := w.open(), w.open()
	w.call(id, "incr", `{}`)
	w.call(other, "incr", `{}`)
	w.call(id, "nonesuch", `{}`)
	var a admin.Activities
	for { // settled when it is durable, which is not when the client has it
		if w.get("/v1/activity?session="+id, &a); len(a.Activities) == 3 {
			break
		}
	}
	for n, want := range []struct{ method, tool string }{{"initialize", ""}, {"tools/call", "incr"}, {"tools/call", "nonesuch"}} {
		if got := a.Activities[n]; got.Type != "request.settled" || got.Session != id || got.Server != "demo" || got.Method != want.method || got.Tool != want.tool || got.Epoch == 0 || got.At.IsZero() || got.Took <= 0 {
			t.Errorf("%d: %+v", n, got)
		}
	}
	if got := a.Activities[1].Outcome; got != "result" {
		t.Errorf("the outcome is %q", got)
	}
	if w.get("/v1/activity?limit=2", &a); len(a.Activities) != 2 || a.Activities[1].At.Before(a.Activities[0].At) {
		t.Errorf("the latest two: %+v", a)
	}
}

func TestAWorldWithoutMoreTellsItsServersByName(t *testing.T) {
	quiet := newWorld(t, "")
	api := admin.New(admin.Options{
		Host: quiet.host, Sessions: quiet.sessions, Health: http.NotFoundHandler(),
		About: admin.About{Servers: []admin.Hosted{{Name: "demo", Runs: "plugin demo"}, {Name: "other"}}},
	})
	defer api.Close()
	s := httptest.NewServer(api)
	defer s.Close()
	quiet.admin.URL = s.URL
	quiet.call(quiet.open(), "incr", `{}`)
	var all admin.Servers
	quiet.get("/v1/servers", &all)
	if len(all.Servers) != 2 || all.Servers[0].State != "running" || all.Servers[0].Resident != 1 || all.Servers[0].Runs != "plugin demo" || all.Servers[1].State != "idle" {
		t.Errorf("%+v", all)
	}
}

func TestAnIsolateTellsItsLimits(t *testing.T) {
	w := newWorld(t, "")
	var all admin.Isolates
	w.get("/v1/isolates", &all)
	if got := all.Isolates[0]; got.SoftLimit <= 0 || got.SoftLimit >= got.HeapLimit {
		t.Errorf("the limits are %d and %d", got.SoftLimit, got.HeapLimit)
	}
}

// The console's files have no data: a browser that bears no token gets them, also when it
// follows a link from elsewhere; but no page of another site, and nothing besides.
func TestTheConsoleIsServedToABrowserWithoutAToken(t *testing.T) {
	w := newWorld(t, "")
	console := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "console") })
	type header = map[string]string
	link := header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	for _, c := range []struct {
		token, line, host string
		header            header
		want              int
	}{
		{secret, "GET /", "127.0.0.1:9090", nil, 200},
		{secret, "HEAD /", "127.0.0.1:9090", nil, 200},
		{secret, "GET /console", "127.0.0.1:9090", nil, 200},
		{secret, "GET /console/main.js", "127.0.0.1:9090", nil, 200},
		{secret, "GET /consoles", "127.0.0.1:9090", nil, 401},
		{secret, "GET /v1/overview", "127.0.0.1:9090", nil, 401},
		{secret, "GET /console/../v1/overview", "127.0.0.1:9090", nil, 301}, // ServeMux cleans it, and it is asked for anew
		{secret, "POST /", "127.0.0.1:9090", nil, 401},
		{"", "POST /", "127.0.0.1:9090", nil, 405},
		{"", "GET /", "127.0.0.1:9090", nil, 200},
		{"", "GET /", "evil.example:9090", nil, 403},
		{"", "GET /", "evil.example:9090", link, 403},
		{"", "GET /", "127.0.0.1:9090", link, 200},
		{"", "GET /v1/overview", "127.0.0.1:9090", link, 403},
		{"", "GET /", "127.0.0.1:9090", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		{"", "GET /console/main.js", "127.0.0.1:9090", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403},
	} {
		api := admin.New(admin.Options{Host: w.host, Sessions: w.sessions, Health: console, Console: console, Token: c.token})
		method, path, _ := strings.Cut(c.line, " ")
		r := httptest.NewRequest(method, "http://"+c.host, nil)
		r.URL.Path = path
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090})))
		got := httptest.NewRecorder()
		api.ServeHTTP(got, r)
		api.Close()
		if got.Code != c.want && (c.want != 301 || got.Code != http.StatusTemporaryRedirect) {
			t.Errorf("%s of %s, %v, token %t: %d, want %d: %s", c.line, c.host, c.header, c.token != "", got.Code, c.want, got.Body)
		}
	}
}

// Who follows one session hears of the resets of its isolate, and of no other.
func TestWhoFollowsASessionHearsOfItsIsolate(t *testing.T) {
	w := newWorld(t, "")
	id, other := w.open(), w.open()
	its := w.host.IsolateOf(session.ObjectOf(id))
	for _, isolate := range []int{(its + 1) % w.host.Isolates(), its} {
		_, err := w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Isolate: &isolate}})
		check(t, err)
	}
	r, err := http.Get(w.admin.URL + "/v1/events?from=start&session=" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var e admin.Event
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		if e.Session == other || e.Type == "isolate.reset" && *e.Isolate != its {
			t.Errorf("not of this session: %+v", e)
		}
		if e.Type == "isolate.reset" {
			return
		}
	}
	t.Error("the feed ends without the reset")
}
