package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// put stores rows of an object, with an alarm if the time is not zero.
func (w *world) put(id storage.ID, at time.Time, rows ...string) {
	w.t.Helper()
	epoch, err := storage.Claim(w.t.Context(), w.store, id)
	check(w.t, err)
	b := &storage.Batch{ID: id, Epoch: epoch}
	for i := 0; i < len(rows); i += 2 {
		b.Puts = append(b.Puts, storage.Entry{Key: rows[i], Value: []byte(rows[i+1])})
	}
	if !at.IsZero() {
		b.Alarm = &storage.Alarm{At: at}
	}
	check(w.t, storage.Commit(w.t.Context(), w.store, b))
	w.store.Release(id, epoch)
}

func TestASessionIsSeenDisposedOfAndEnded(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	w.call(id, "incr", `{}`)
	d, err := w.client.Session(t.Context(), id)
	if err != nil || d.ID != id || d.State != "resident" || d.Client != "t 1" || d.Version != "2025-06-18" || d.Rows == 0 || len(d.Streams) == 0 || d.Alarm.IsZero() || d.Waiting == nil {
		t.Errorf("%+v, %v", d, err)
	}
	if was, err := w.client.Dispose(t.Context(), id, false); err != nil || !was.Was {
		t.Errorf("%+v, %v", was, err)
	}
	if body := w.call(id, "incr", `{}`); !strings.Contains(body, `"text":"2"`) {
		t.Error(body)
	}
	if e, err := w.client.EndSession(t.Context(), id); err != nil || e.Session != id {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = w.client.EndSession(t.Context(), id)
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusNotFound {
		t.Errorf("ended again: %v", err)
	}
	if body := w.call(id, "incr", `{}`); !strings.Contains(body, "no session") {
		t.Error(body)
	}
}

func TestASessionThatOwesIsNotDisposedOfUnlessItMustBe(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	lost := make(chan string, 1)
	go func() { lost <- w.call(id, "sleep", `{"ms":60000}`) }()
	for {
		d, err := w.client.Session(t.Context(), id)
		check(t, err)
		if len(d.Waiting) == 1 && d.Waiting[0].Started && d.Waiting[0].Tool == "sleep" && d.Owed == 1 {
			break
		}
	}
	_, err := w.client.Dispose(t.Context(), id, false)
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusConflict || !strings.Contains(e.Text, "1 requests") || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if was, err := w.client.Dispose(t.Context(), id, true); err != nil || !was.Was {
		t.Errorf("%+v, %v", was, err)
	}
	if body := <-lost; !strings.Contains(body, `"reason":"aborted"`) {
		t.Error(body)
	}
}

func TestObjectsAreListedSeenMovedAndRemoved(t *testing.T) {
	w := newWorld(t, "")
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	long := strings.Repeat("ä", 4000)
	for n := range 25 {
		w.put(storage.ID{Class: "c", Name: fmt.Sprintf("%c/%02d", 'a'+n%2, n)}, time.Time{}, "n", fmt.Sprint(n))
	}
	w.put(storage.ID{Class: "c", Name: "a"}, at, "k", "v", "long", long, "\xff", "\x00\xff", "\x00own", "1")
	for _, c := range []struct {
		prefix string
		n      int
	}{{"", 26}, {"a", 14}, {"a/", 13}, {"b", 12}, {"b/01", 1}, {"x", 0}} {
		for _, limit := range []int{1, 5, 1000} {
			var names []string
			for after, pages := "", 0; ; pages++ {
				page, err := w.client.Objects(t.Context(), "c", c.prefix, after, limit)
				if err != nil || len(page.Objects) > limit || pages > 30 {
					t.Fatalf("%+v, %v", page, err)
				}
				for _, o := range page.Objects {
					names = append(names, o.Name)
				}
				if after = page.Next; after == "" {
					break
				}
			}
			if !slices.IsSorted(names) || len(slices.Compact(names)) != c.n {
				t.Errorf("%q by %d: %q", c.prefix, limit, names)
			}
		}
	}
	var rows []admin.Row
	for after := ""; ; {
		d, err := w.client.Object(t.Context(), "c", "a", after, 3)
		check(t, err)
		if !d.Alarm.Equal(at) || d.Epoch != 0 {
			t.Errorf("%+v", d)
		}
		rows = append(rows, d.Rows...)
		if after = d.Next; after == "" {
			break
		}
	}
	if len(rows) != 4 || *rows[0].Key != "\x00own" || *rows[1].Key != "k" || *rows[1].Value != "v" || !strings.HasPrefix(long, *rows[2].Value) || rows[2].Size != 8000 || len(*rows[2].Value) > 4096 || string(rows[3].Key64) != "\xff" {
		t.Errorf("%+v", rows)
	}
	// A class that the program does not have can be looked at, not imported.
	var text bytes.Buffer
	check(t, w.client.Export(t.Context(), "c", "a", &text))
	_, err := w.client.Import(t.Context(), bytes.NewReader(text.Bytes()), true)
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusBadRequest || e.Hint == "" {
		t.Errorf("%v", err)
	}
	id := w.open()
	text.Reset()
	check(t, w.client.Export(t.Context(), session.Class, id, &text))
	_, err = w.client.Import(t.Context(), bytes.NewReader(text.Bytes()), false)
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusConflict || !strings.Contains(e.Text, "exists already") {
		t.Errorf("%v", err)
	}
	moved := strings.Replace(text.String(), id, "copy", 1)
	if i, err := w.client.Import(t.Context(), strings.NewReader(moved), false); err != nil || i.Name != "copy" {
		t.Errorf("%+v, %v", i, err)
	}
	_, err = w.client.Import(t.Context(), strings.NewReader(moved[:len(moved)/2]), true)
	if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusBadRequest {
		t.Errorf("half an export: %v", err)
	}
	if body := w.call("copy", "add", `{"a":2,"b":3}`); !strings.Contains(body, `"text":"5"`) {
		t.Error(body)
	}
	if gone, err := w.client.Remove(t.Context(), session.Class, "copy"); err != nil || gone.Name != "copy" {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := w.client.Session(t.Context(), "copy"); err == nil {
		t.Error("it is still there")
	}
	classes, err := w.client.Classes(t.Context())
	if err != nil || len(classes.Classes) != 1 || !classes.Classes[0].Registered || classes.Classes[0].InMemory != 1 {
		t.Errorf("%+v, %v", classes, err)
	}
}

func TestAlarmsAreListedInTheirOrder(t *testing.T) {
	w := newWorld(t, "")
	first := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for n := range 20 {
		w.put(storage.ID{Class: session.Class, Name: fmt.Sprint("x", n)}, first.Add(time.Duration(n/2)*time.Second), "k", "v")
	}
	for _, limit := range []int{1, 3, 100} {
		var got []admin.Alarm
		for after := ""; ; {
			page, err := w.client.Alarms(t.Context(), "", "", after, limit)
			if err != nil || len(page.Alarms) > limit {
				t.Fatal(err)
			}
			got = append(got, page.Alarms...)
			if after = page.Next; after == "" {
				break
			}
		}
		if len(got) != 20 || !got[0].At.Equal(first) || !slices.IsSortedFunc(got, func(a, b admin.Alarm) int { return a.At.Compare(b.At) }) {
			t.Errorf("%+v", got)
		}
	}
	if one, err := w.client.Alarms(t.Context(), session.Class, "x5", "", 0); err != nil || len(one.Alarms) != 1 || !one.Alarms[0].At.Equal(first.Add(2*time.Second)) {
		t.Errorf("%+v, %v", one, err)
	}
	if none, err := w.client.Alarms(t.Context(), session.Class, "nobody", "", 0); err != nil || len(none.Alarms) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

var errEnough = errors.New("enough")

// events follows until f says that it has enough.
func (w *world) events(after string, all bool, f func(admin.Event) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	err := w.client.Events(ctx, after, all, func(e admin.Event) error {
		if f(e) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.t.Fatalf("the events ended: %v", err)
	}
}

func TestEventsTellWhatHappensAndGoOnWhereTheyWereLeft(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	lost := make(chan string, 1)
	go func() { lost <- w.call(id, "sleep", `{"ms":60000}`) }()
	for {
		d, err := w.client.Session(t.Context(), id)
		check(t, err)
		if len(d.Waiting) == 1 && d.Waiting[0].Started {
			break
		}
	}
	_, err := w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Session: id}, Cause: "memory_limit"})
	check(t, err)
	<-lost
	isolate := 0
	_, err = w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Isolate: &isolate}, Cause: "cpu_limit"})
	check(t, err)
	var got []string
	var left string
	w.events("", true, func(e admin.Event) bool {
		got = append(got, strings.TrimSpace(e.Type+" "+e.Reason+" "+e.Tool))
		if e.Type == "object.reset" {
			left = e.ID
			if e.Session != id || e.Class != "" || e.Epoch == 0 || e.Isolate == nil || e.At.IsZero() {
				t.Errorf("%+v", e)
			}
		}
		return e.Type == "isolate.reset"
	})
	for _, want := range []string{"session.opened", "runtime.built", "object.reset memory_limit", "execution.lost memory_limit sleep", "isolate.reset cpu_limit"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	// A reader that comes back gets what it has missed, and no more.
	w.events(left, false, func(e admin.Event) bool {
		if e.ID == left || e.Type == "session.opened" || e.Type == "gap" {
			t.Errorf("told again: %+v", e)
		}
		return e.Type == "isolate.reset"
	})
	// One that was left before the host was started is told that it has missed some.
	first := true
	w.events("abc.7", false, func(e admin.Event) bool {
		if first && e.Type != "gap" {
			t.Errorf("no gap but %+v", e)
		}
		first = false
		return e.Type == "isolate.reset"
	})
	// From now on there is what is to come, of the type that is asked for.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.admin.URL+"/v1/events?type=session.opened", nil)
	check(t, err)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	opened := w.open()
	var stream []byte
	for !bytes.Contains(stream, []byte(opened)) {
		buf := make([]byte, 4096)
		n, err := response.Body.Read(buf)
		if stream = append(stream, buf[:n]...); err != nil {
			t.Fatalf("%v after %s", err, stream)
		}
	}
	if response.Header.Get("Content-Type") != "text/event-stream" || bytes.Contains(stream, []byte("runtime.built")) || bytes.Contains(stream, []byte("isolate.reset")) {
		t.Errorf("%v %s", response.Header, stream)
	}
}

// A reader that is slower than the ring is told that it has missed some.
func TestTheFeedIsBoundedI12(t *testing.T) {
	w := newWorld(t, "")
	isolate := 1
	for range admin.MaxEvents + 10 {
		_, err := w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Isolate: &isolate}})
		check(t, err)
	}
	n := 0
	w.events("", true, func(admin.Event) bool { n++; return n == admin.MaxEvents })
}

func TestTheOverviewHasTheFigures(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	for range 10 {
		w.call(id, "incr", `{}`)
	}
	o, err := w.client.Overview(t.Context(), true)
	if err != nil || o.State != "serving" || o.Resident != 1 || o.InMemory[session.Class] != 1 || len(o.Isolates) != 4 || o.Requests.Settled != 11 || o.Requests.Outcomes["result"] != 11 ||
		o.Requests.Rate <= 0 || o.Requests.Latency.P50 <= 0 || o.Requests.Latency.P99 < o.Requests.Latency.P50 || o.Process.Goroutines == 0 || o.Servers == nil {
		raw, _ := json.Marshal(o)
		t.Errorf("%s, %v", raw, err)
	}
}

// What is asked of a store that no host has is asked by the same code.
func TestALocalAPIAnswersThisProcess(t *testing.T) {
	w := newWorld(t, "a token that is long enough")
	id := w.open()
	local := admin.NewLocal(w.handler)
	defer local.Close()
	if s, err := local.Session(t.Context(), id); err != nil || s.ID != id {
		t.Errorf("%+v, %v", s, err)
	}
	var text bytes.Buffer
	if err := local.Export(t.Context(), session.Class, id, &text); err != nil || text.Len() == 0 {
		t.Error(err)
	}
}

// A host's own command line may hold what its servers' do.
func TestTheHostsCommandLineIsNoProfile(t *testing.T) {
	w := newWorld(t, "")
	response, err := http.Get(w.admin.URL + "/debug/pprof/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	check(t, err)
	check(t, response.Body.Close())
	if response.StatusCode != http.StatusNotFound || bytes.Contains(body, []byte(os.Args[0])) {
		t.Errorf("%s: %s", response.Status, body)
	}
}

func TestProfilesAreBehindTheGuard(t *testing.T) {
	for _, token := range []string{"", "a token that is long enough"} {
		w := newWorld(t, token)
		response, err := http.Get(w.admin.URL + "/debug/pprof/goroutine?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		check(t, response.Body.Close())
		if want := map[bool]int{true: 200, false: 401}[token == ""]; response.StatusCode != want {
			t.Errorf("with the token %q: %s", token, response.Status)
		}
	}
}

// Who holds most of an isolate's heap is told where it is asked for, and of as many.
func TestOverviewTellsWhoHoldsTheHeap(t *testing.T) {
	w := newWorld(t, "")
	large := w.open()
	w.call(large, "alloc", `{"mib":8}`)
	for range 12 {
		w.open()
	}
	ask := func(path string) (o admin.Overview, status int) {
		t.Helper()
		r, err := http.Get(w.admin.URL + path)
		check(t, err)
		defer r.Body.Close()
		check(t, json.NewDecoder(r.Body).Decode(&o))
		return o, r.StatusCode
	}
	o, _ := ask("/v1/overview?holders=2")
	found := false
	for _, i := range o.Isolates {
		if len(i.Holders) > 2 || int64(len(i.Holders)) != min(2, i.Objects) {
			t.Errorf("%d holders are told of an isolate with %d objects", len(i.Holders), i.Objects)
		}
		for n, held := range i.Holders {
			if held.Class != "mcp-session" || n > 0 && held.Bytes > i.Holders[n-1].Bytes || held.Bytes > i.Heap {
				t.Errorf("%+v, after %+v", held, i.Holders[:n])
			}
			found = found || n == 0 && held.Name == large && held.Bytes >= 8<<20
		}
	}
	if !found {
		t.Errorf("the largest is not told: %+v", o.Isolates)
	}
	if o, _ := ask("/v1/overview"); len(o.Isolates) == 0 || len(o.Isolates[0].Holders) != 0 {
		t.Errorf("without being asked: %+v", o.Isolates)
	}
	for _, wrong := range []string{"-1", "101", "many"} {
		if _, status := ask("/v1/overview?holders=" + wrong); status != http.StatusBadRequest {
			t.Errorf("holders=%s: %d", wrong, status)
		}
	}
}

// Who leaves before there is an answer is no trouble of the host's.
func TestWhoHasLeftIsNotLogged(t *testing.T) {
	w := newWorld(t, "")
	w.open()
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), http.LocalAddrContextKey, w.admin.Listener.Addr()))
	leave()
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, w.admin.URL+"/v1/sessions", nil).WithContext(ctx))
	if got := w.log.String(); got != "" || answer.Code != http.StatusInternalServerError {
		t.Errorf("answer %d: %s; logged: %s", answer.Code, answer.Body, got)
	}
}
