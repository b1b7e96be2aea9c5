package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// watched are the kinds of what a world's sessions tell, with their reasons.
func watched(w *world) (told func() []string) {
	var mu sync.Mutex
	var all []string
	w.svc.Watch(func(o session.Occurrence) {
		mu.Lock()
		defer mu.Unlock()
		if o.Session == "" || o.Server != "model" || o.Epoch == 0 {
			w.t.Errorf("%+v", o)
		}
		all = append(all, strings.TrimSpace(strings.Join([]string{o.Kind, o.Method, o.Tool, o.Outcome, o.Reason}, " ")))
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestWhatBecomesOfASessionIsTold(t *testing.T) {
	w := newWorld(t, nil)
	told := watched(w)
	c := w.open1()
	l := c.post(call("1", "hang"))
	w.within(5*time.Second, "the call to be delivered", func() bool { return w.saw("hang") == 1 })
	if err := w.svc.End(t.Context(), c.id); err != nil {
		t.Fatal(err)
	}
	if got := l.wait().text(); !strings.Contains(got, `"reason":"ended"`) {
		t.Error(got)
	}
	w.within(5*time.Second, "the runtime to be disposed", func() bool { return slices.Contains(told(), "runtime.disposed    ended") })
	want := []string{"session.opened", "runtime.built", "request.settled initialize  result", "session.ended    operator", "request.settled tools/call hang lost ended", "runtime.disposed    ended"}
	got := told()
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("%q was not told of: %q", one, got)
		}
	}
	if err := w.svc.End(t.Context(), c.id); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("ended again: %v", err)
	}
	if err := w.svc.End(t.Context(), "nobody"); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("one that never was: %v", err)
	}
}

// A session that wakes by itself says so, and what it does then.
func TestAnAlarmThatRunsIsTold(t *testing.T) {
	w := newWorld(t, func(s *session.Server) { s.IdleTimeout = time.Second })
	told := watched(w)
	w.open1()
	w.within(20*time.Second, "the runtime to be reclaimed", func() bool { return slices.Contains(told(), "runtime.disposed    idle") })
	w.within(20*time.Second, "the alarm to be told", func() bool { return slices.Contains(told(), "alarm.run") })
}

// A runtime that owes nothing is disposed of, and the next request builds another; one
// that owes answers is not, unless it must be.
func TestARuntimeIsDisposedOf(t *testing.T) {
	w := newWorld(t, nil)
	told := watched(w)
	c := w.open1()
	if was, err := w.svc.Dispose(t.Context(), c.id, false); !was || err != nil {
		t.Fatal(was, err)
	}
	w.within(5*time.Second, "the runtime to be gone", func() bool { _, open := w.runtimes(); return open == 0 })
	if was, err := w.svc.Dispose(t.Context(), c.id, false); was || err != nil {
		t.Error("disposed of twice", was, err)
	}
	c.post(call("1", "count")).wait().has(`"n":1`)
	l := c.post(call("2", "hang"))
	w.within(5*time.Second, "the call to be delivered", func() bool { return w.saw("hang") == 1 })
	_, err := w.svc.Dispose(t.Context(), c.id, false)
	if busy, ok := errors.AsType[*session.Busy](err); !ok || busy.Owed != 1 {
		t.Errorf("a busy one: %v", err)
	}
	if was, err := w.svc.Dispose(t.Context(), c.id, true); !was || err != nil {
		t.Error(was, err)
	}
	if got := l.wait().text(); !strings.Contains(got, `"reason":"aborted"`) {
		t.Error(got)
	}
	c.post(call("3", "count")).wait().has(`"n":2`)
	if got := told(); !slices.Contains(got, "runtime.disposed    operator") {
		t.Error(got)
	}
	if _, err := w.svc.Dispose(t.Context(), "nobody", false); !errors.Is(err, session.ErrUnknown) {
		t.Error(err)
	}
}

// A host that does not have a session's server can still end it.
func TestASessionWhoseServerIsGoneCanBeEnded(t *testing.T) {
	w := newWorld(t, nil)
	c := w.open1()
	w.shutdown()
	w.serverTuned = func(s *session.Server) { s.Name = "other" }
	w.boot()
	if err := w.svc.End(t.Context(), c.id); err != nil {
		t.Fatal(err)
	}
	if i, err := w.svc.Look(t.Context(), c.id); err == nil && i.Presence != session.Ended {
		t.Errorf("%+v, %v", i, err)
	}
}

func ids(page []session.Info) (all []string) {
	for _, i := range page {
		all = append(all, i.ID)
	}
	return all
}

// crowd stores n sessions of two servers, s0 and s1.
func (w *world) crowd(n int) {
	w.t.Helper()
	for n := range n {
		id := storage.ID{Class: session.Class, Name: fmt.Sprintf("%c8%02d", 'a'+n%3, n)} // no id that is drawn has an 8 or a 9
		epoch, err := storage.Claim(w.t.Context(), w.store, id)
		if err != nil {
			w.t.Fatal(err)
		}
		meta := fmt.Appendf(nil, `{"server":"s%d","principal":{},"created":"2026-01-01T00:00:00Z","version":"2025-06-18"}`, n%2)
		if err := storage.Commit(w.t.Context(), w.store, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "meta", Value: meta}}}); err != nil {
			w.t.Fatal(err)
		}
		w.store.Release(id, epoch)
	}
}

func TestSessionsAreFound(t *testing.T) {
	w := newWorld(t, nil)
	w.crowd(30)
	c := w.open1()
	for _, q := range []struct {
		session.Query
		n int
	}{
		{session.Query{}, 31},
		{session.Query{Prefix: "b8"}, 10},
		{session.Query{Prefix: "b801"}, 1},
		{session.Query{Prefix: "b80"}, 3},
		{session.Query{Prefix: "z9"}, 0},
		{session.Query{Server: "s0"}, 15},
		{session.Query{Server: "s1", Prefix: "a8"}, 5},
		{session.Query{Server: "none"}, 0},
		{session.Query{State: session.Resting}, 30},
		{session.Query{State: session.Resident}, 1},
		{session.Query{State: session.Active}, 0},
		{session.Query{State: session.Resident, Prefix: c.id[:3]}, 1},
		{session.Query{State: session.Resident, After: c.id}, 0},
	} {
		for _, limit := range []int{1, 2, 7, 100} {
			q := q
			q.Limit = limit
			var all []string
			for pages := 0; ; pages++ {
				page, next, err := w.svc.List(t.Context(), q.Query)
				if err != nil || len(page) > limit || pages > 40 {
					t.Fatalf("%+v: %v, %v", q, page, err)
				}
				all = append(all, ids(page)...)
				if q.After = next; next == "" {
					break
				}
			}
			if !slices.IsSorted(all) || len(slices.Compact(all)) != q.n {
				t.Errorf("%+v: %q", q, all)
			}
		}
	}
	hang := c.post(call(`"x"`, "hang"))
	w.within(5*time.Second, "the call to be delivered", func() bool { return w.saw("hang") == 1 })
	d, err := w.svc.Detail(t.Context(), c.id)
	if err != nil || d.Client != "t 1" || d.Version != "2025-11-25" || len(d.Waiting) != 1 || d.Waiting[0].ID != `"x"` || d.Waiting[0].Tool != "hang" || !d.Waiting[0].Started || len(d.Streams) == 0 || d.Rows == 0 || d.Alarm.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
	hang.gone()
}

// What a filter passes over costs one read, of the row that says so, and ids are read
// together, however small the page is.
func TestAFilterReadsLittleOfWhatItPassesOver(t *testing.T) {
	const sessions = 300
	w := newWorld(t, nil)
	w.crowd(sessions)
	store := w.store.(*countingStore)
	for _, q := range []session.Query{{State: session.Ended}, {Server: "none"}, {Server: "s0", State: session.Ended}} {
		store.gets.Store(0)
		store.lists.Store(0)
		store.objects.Store(0)
		q.Limit = 1
		if page, next, err := w.svc.List(t.Context(), q); err != nil || len(page) > 0 || next != "" {
			t.Fatalf("%+v: %v, %q, %v", q, page, next, err)
		}
		if gets, lists, objects := store.gets.Load(), store.lists.Load(), store.objects.Load(); gets > sessions || lists > 0 || objects > 10 {
			t.Errorf("%+v: of %d sessions %d rows were read, %d times many rows, %d times ids", q, sessions, gets, lists, objects)
		}
	}
}
