package admin_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

func TestResetOfASession(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	before := w.host.Epoch(session.ObjectOf(id))
	isolate := w.host.IsolateOf(session.ObjectOf(id))

	for _, target := range []admin.Target{{Session: id}, {Class: session.Class, Name: id}} {
		w.call(id, "incr", `{}`)
		done, err := w.client.Reset(t.Context(), admin.Reset{Target: target, Cause: "memory_limit", Reason: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		target.Isolate = &isolate
		want := &admin.WasReset{Target: target, Cause: "memory_limit", Epoch: before, Objects: 1}
		if diff := cmp.Diff(want, done); diff != "" {
			t.Error(diff)
		}
		_, err = w.client.Reset(t.Context(), admin.Reset{Target: target2(target)})
		if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusNotFound || !strings.Contains(e.Text, "nothing to reset: session "+id+" is at rest") || e.Hint == "" {
			t.Errorf("the reset of a session at rest: %v", err)
		}
		if body := w.call(id, "add", `{"a":2,"b":3}`); !strings.Contains(body, `"text":"5"`) {
			t.Errorf("after its reset the session answers %s", body)
		}
		after := w.host.Epoch(session.ObjectOf(id))
		if after <= before {
			t.Errorf("epoch %d after %d", after, before)
		}
		before = after
	}
}

// target2 is a target as it was asked for: without the isolate of the answer.
func target2(t admin.Target) admin.Target {
	t.Isolate = nil
	return t
}

func TestResetOfAnIsolateBreaksItAndNoOtherI10(t *testing.T) {
	w := newWorld(t, "")
	ids := []string{w.open(), w.open(), w.open(), w.open(), w.open(), w.open()}
	struck := w.host.IsolateOf(session.ObjectOf(ids[0]))
	there := 0
	for _, id := range ids {
		if w.host.IsolateOf(session.ObjectOf(id)) == struck {
			there++
		}
	}
	all, err := w.client.Isolates(t.Context())
	if err != nil || len(all.Isolates) != w.host.Isolates() {
		t.Fatalf("%+v, %v", all, err)
	}
	if is := all.Isolates[struck]; is.Number != struck || is.Objects != int64(there) || is.Resident != int64(there) || is.Heap <= 0 || is.HeapLimit != 128<<20 {
		t.Errorf("isolate %d, with %d sessions: %+v", struck, there, is)
	}
	done, err := w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Isolate: &struck}, Cause: "cpu_limit"})
	if err != nil || done.Objects != there || done.Cause != "cpu_limit" || *done.Isolate != struck {
		t.Errorf("%+v, %v", done, err)
	}
	for _, id := range ids {
		was, alive := w.host.IsolateOf(session.ObjectOf(id)) == struck, w.host.Epoch(session.ObjectOf(id)) > 0
		if was == alive {
			t.Errorf("%s in the struck isolate: %v, lives: %v", id, was, alive)
		}
	}
	if again, err := w.client.Reset(t.Context(), admin.Reset{Target: admin.Target{Isolate: &struck}}); err != nil || again.Objects != 0 || again.Cause != "aborted" {
		t.Errorf("an empty isolate: %+v, %v", again, err)
	}
}

func TestStrikesAreArmedListedStruckAndTakenBack(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	half, often := 1.0, 2
	ask := admin.Strike{Point: "after-commit", Target: admin.Target{Session: id}, Tool: "add", Scope: "isolate", Cause: "cpu_limit", Probability: &half, Skip: 1, Times: &often, Hold: "1ms"}
	armed, err := w.client.Arm(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&admin.Armed{Number: 1, Strike: ask}, armed); diff != "" {
		t.Error(diff)
	}
	for i, lost := range []bool{false, true, true, false} {
		if body := w.call(id, "add", `{"a":2,"b":3}`); strings.Contains(body, `"reason":"cpu_limit"`) != lost {
			t.Errorf("call %d, to be lost: %v: %s", i, lost, body)
		}
	}
	if all, err := w.client.Strikes(t.Context()); err != nil || len(all.Strikes) != 0 {
		t.Errorf("a strike is left that has struck: %+v, %v", all, err)
	}
	for range 3 {
		if _, err := w.client.Arm(t.Context(), admin.Strike{Point: "before-flush", Scope: "process"}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.client.Strikes(t.Context())
	if err != nil || len(all.Strikes) != 3 || all.Strikes[0].Number != 2 || all.Strikes[0].Scope != "process" || all.Strikes[0].Cause != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if d, err := w.client.Disarm(t.Context(), 3); err != nil || d.Disarmed != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := w.client.Disarm(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "there is no strike 3") {
		t.Error(err)
	}
	if d, err := w.client.DisarmAll(t.Context()); err != nil || d.Disarmed != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestSessionsAreListedByPages(t *testing.T) {
	w := newWorld(t, "")
	for range 5 {
		w.open()
	}
	var got []admin.Session
	for after, pages := "", 0; ; pages++ {
		page, err := w.client.Sessions(t.Context(), admin.SessionQuery{After: after, Limit: 2})
		if err != nil || len(page.Sessions) > 2 || pages > 3 {
			t.Fatalf("page %d: %+v, %v", pages, page, err)
		}
		got = append(got, page.Sessions...)
		if after = page.Next; after == "" {
			break
		}
	}
	if len(got) != 5 {
		t.Fatalf("%d sessions, want 5", len(got))
	}
	for i, s := range got {
		oid := session.ObjectOf(s.ID)
		if s.Server != "demo" || s.State != "resident" || s.Isolate != w.host.IsolateOf(oid) || s.Epoch != w.host.Epoch(oid) || s.Created.IsZero() || s.Activity.Before(s.Created) {
			t.Errorf("%+v", s)
		}
		if i > 0 && got[i-1].ID >= s.ID {
			t.Errorf("%s after %s", s.ID, got[i-1].ID)
		}
	}
	w.host.Reset(session.ObjectOf(got[0].ID), actor.Aborted, nil)
	check(t, w.sessionRests(got[0].ID))
}

// One bad row holds up nobody's list.
func TestSessionThatDoesNotDecodeIsListedAsSuch(t *testing.T) {
	w := newWorld(t, "")
	id := w.open()
	bad := session.ObjectOf("0")
	epoch, err := storage.Claim(t.Context(), w.store, bad)
	check(t, err)
	check(t, storage.Commit(t.Context(), w.store, &storage.Batch{ID: bad, Epoch: epoch, Puts: []storage.Entry{{Key: "meta", Value: []byte("{")}}}))
	w.store.Release(bad, epoch)
	all, err := w.client.Sessions(t.Context(), admin.SessionQuery{})
	if err != nil || len(all.Sessions) != 2 || all.Sessions[0].State != "unreadable" || all.Sessions[1].ID != id {
		t.Errorf("%+v, %v", all, err)
	}
}

// A session that was reset is in storage alone, as soon as its runtime is gone.
func (w *world) sessionRests(id string) error {
	for {
		all, err := w.client.Sessions(w.t.Context(), admin.SessionQuery{})
		if err != nil {
			return err
		}
		for _, s := range all.Sessions {
			if s.ID == id && s.State == "resting" && s.Epoch == 0 {
				return nil
			}
		}
	}
}

// What makes no sense is refused, with the field and what it may be: a filter that
// is dropped would make a strike hit everybody.
func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	w := newWorld(t, "")
	for _, c := range []struct {
		method, path, body string
		status             int
		text, hint         string
	}{
		{"POST", "/v1/reset", ``, 400, "the request is empty", "session, class, name, isolate, cause, reason"},
		{"POST", "/v1/reset", `{"isolate":`, 400, "not JSON", "session, class"},
		{"POST", "/v1/reset", `[]`, 400, "an array, not an object", "session, class"},
		{"POST", "/v1/reset", `{"isolate":1}{}`, 400, "follows the JSON object", "one object"},
		{"POST", "/v1/reset", `{"isolat":1}`, 400, "isolat: unknown field", "session, class, name, isolate"},
		{"POST", "/v1/reset", `{"isolate":"1"}`, 400, "isolate: is a string", "a whole number"},
		{"POST", "/v1/reset", `{"isolate":1.5}`, 400, "isolate: is the number 1.5", "a whole number"},
		{"POST", "/v1/reset", `{"session":7}`, 400, "session: is a number", "a text"},
		{"POST", "/v1/reset", `{"isolate":4}`, 400, "isolate: there is no isolate 4; this host has 0 to 3", "kalpa isolates list"},
		{"POST", "/v1/reset", `{"isolate":-1}`, 400, "isolate: there is no isolate -1", "kalpa isolates list"},
		{"POST", "/v1/reset", `{}`, 400, "no target", "--session ID"},
		{"POST", "/v1/reset", `{"session":"a","isolate":1}`, 400, "isolate: names a target, and something else does", "one target"},
		{"POST", "/v1/reset", `{"session":"a","name":"b"}`, 400, "session: names a target, and something else does", "one target"},
		{"POST", "/v1/reset", `{"class":"mcp-session"}`, 400, "name: is missing", "one target"},
		{"POST", "/v1/reset", `{"name":"b"}`, 400, "class: is missing", "one target"},
		{"POST", "/v1/reset", `{"class":"c","name":"b"}`, 400, `class: "c" is no class`, "mcp-session"},
		{"POST", "/v1/reset", `{"class":"mcp-session","name":"a\u0000"}`, 400, "name: ", ""},
		{"POST", "/v1/reset", `{"session":"nobody"}`, 404, `no session "nobody"`, "kalpa sessions list"},
		{"POST", "/v1/reset", `{"session":"a\u0000"}`, 404, `no session`, "kalpa sessions list"},
		{"POST", "/v1/reset", `{"isolate":1,"cause":"overloaded"}`, 400, `cause: "overloaded" is not a cause`, "memory_limit, cache_overflow"},
		{"POST", "/v1/reset", `{"reason":"` + strings.Repeat("x", 70000) + `"}`, 413, "more than 65536 bytes", ""},
		{"POST", "/v1/chaos", `{}`, 400, "point: is missing", "before-commit, after-commit"},
		{"POST", "/v1/chaos", `{"point":"later"}`, 400, `point: "later" is not a point`, "before-commit, after-commit"},
		{"POST", "/v1/chaos", `{"point":"before-commit","scope":"world"}`, 400, `scope: "world" is not a scope`, "object, isolate, process"},
		{"POST", "/v1/chaos", `{"point":"before-commit","cause":"bad"}`, 400, `cause: "bad"`, "memory_limit"},
		{"POST", "/v1/chaos", `{"point":"before-commit","scope":"process","cause":"aborted"}`, 400, "cause: a process", "leave it out"},
		{"POST", "/v1/chaos", `{"point":"before-commit","probability":0}`, 400, "probability: 0", "more than 0"},
		{"POST", "/v1/chaos", `{"point":"before-commit","probability":1.1}`, 400, "probability: 1.1", "1 at most"},
		{"POST", "/v1/chaos", `{"point":"before-commit","probability":"1"}`, 400, "probability: is a string", "a number"},
		{"POST", "/v1/chaos", `{"point":"before-commit","skip":-1}`, 400, "skip: ", "0 or more"},
		{"POST", "/v1/chaos", `{"point":"before-commit","times":0}`, 400, "times: ", "without end"},
		{"POST", "/v1/chaos", `{"point":"before-commit","times":-2}`, 400, "times: ", "without end"},
		{"POST", "/v1/chaos", `{"point":"before-commit","hold":"soon"}`, 400, `hold: "soon"`, "200ms"},
		{"POST", "/v1/chaos", `{"point":"before-commit","hold":"2m"}`, 400, `hold: "2m"`, "25s at most"},
		{"POST", "/v1/chaos", `{"point":"before-commit","hold":"-1s"}`, 400, `hold: "-1s"`, "200ms"},
		{"POST", "/v1/chaos", `{"point":"before-commit","hold":1}`, 400, "hold: is a number", "a text"},
		{"POST", "/v1/chaos", `{"point":"before-commit","tool":"add","method":"ping"}`, 400, "method: ping calls no tool", "leave it out"},
		{"POST", "/v1/chaos", `{"point":"before-commit","session":"nobody"}`, 404, "no session", "kalpa sessions list"},
		{"POST", "/v1/chaos", `{"point":"before-commit","session":"a","class":"b"}`, 400, "session: ", "--class CLASS"},
		{"POST", "/v1/chaos", `{"point":"before-commit","class":"c"}`, 400, "class: ", "mcp-session"},
		{"POST", "/v1/chaos", `{"point":"before-commit","isolate":9}`, 400, "isolate: ", "kalpa isolates list"},
		{"DELETE", "/v1/chaos/x", ``, 400, "number: ", "kalpa chaos list"},
		{"DELETE", "/v1/chaos/7", ``, 404, "no strike 7", "kalpa chaos list"},
		{"GET", "/v1/sessions?limit=0", ``, 400, `limit: "0"`, "1 to 1000"},
		{"GET", "/v1/sessions?limit=1001", ``, 400, `limit: "1001"`, "1 to 1000"},
		{"GET", "/v1/sessions?limits=1", ``, 400, "limits: unknown parameter", "limit, after, prefix, server and state"},
		{"GET", "/v1/sessions?state=asleep", ``, 400, `state: "asleep"`, "resident, active, resting"},
		{"GET", "/v1/sessions/nobody", ``, 404, `no session "nobody"`, "kalpa sessions list"},
		{"DELETE", "/v1/sessions/nobody", ``, 404, `no session "nobody"`, "kalpa sessions list"},
		{"POST", "/v1/sessions/nobody/dispose", ``, 404, `no session "nobody"`, "kalpa sessions list"},
		{"POST", "/v1/sessions/nobody/dispose?force=1", ``, 400, `force: "1"`, "true or false"},
		{"GET", "/v1/objects", ``, 400, "class: ", "kalpa objects list"},
		{"GET", "/v1/object?class=c", ``, 400, "name: ", "kalpa objects list CLASS"},
		{"GET", "/v1/object?class=c&name=n", ``, 404, "nothing is stored of c/n", "kalpa objects list CLASS"},
		{"GET", "/v1/object?class=c&name=n&after=*", ``, 400, "after: ", "the page before"},
		{"DELETE", "/v1/object?class=c&name=n", ``, 404, "nothing is stored of c/n", "kalpa objects list CLASS"},
		{"GET", "/v1/object/export?class=c&name=n", ``, 404, "nothing is stored of c/n", "kalpa objects list CLASS"},
		{"POST", "/v1/object/import", `{}`, 415, "not of type application/x-ndjson", "kalpa objects export"},
		{"GET", "/v1/alarms?after=AAAA", ``, 400, "after: ", "the page before"},
		{"GET", "/v1/events?from=end", ``, 400, `from: "end"`, "start"},
		{"GET", "/v1/overview?history=yes", ``, 400, `history: "yes"`, "true or false"},
		{"GET", "/v1/backup", ``, 404, "can't be backed up", ""},
		{"GET", "/v1/reset", ``, 405, "/v1/reset takes no GET", "POST"},
		{"PUT", "/healthz", `{}`, 405, "/healthz takes no PUT", "GET"},
		{"GET", "/v2/reset", ``, 404, "nothing at /v2/reset", ""},
	} {
		r, err := http.NewRequest(c.method, w.admin.URL+c.path, strings.NewReader(c.body))
		check(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		check(t, err)
		check(t, response.Body.Close())
		var got struct{ Error, Hint string }
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Errorf("%s %s %.80s: %v in %s", c.method, c.path, c.body, err, raw)
		}
		if response.StatusCode != c.status || !strings.Contains(got.Error, c.text) || !strings.Contains(got.Hint, c.hint) {
			t.Errorf("%s %s %.80s: %d %s", c.method, c.path, c.body, response.StatusCode, raw)
		}
	}
	if left := w.host.Chaos().Armed(); len(left) != 0 {
		t.Errorf("what was refused was armed: %+v", left)
	}
}
