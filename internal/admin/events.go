package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Bounds of the feed.
const (
	// MaxEvents is how many of the latest events a host remembers.
	MaxEvents = 4096
	// maxFollowers bounds those that follow the feed at once.
	maxFollowers = 64
	// eventsBeat is how often something is written to a follower, at least: so that
	// what lies between the two does not take the silence for an end.
	eventsBeat = 15 * time.Second
)

// Event is something that has happened on the host, of GET /v1/events.
type Event struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Type string    `json:"type"` // see EventTypes
	// Which it is about. Of an isolate there is the number alone.
	Session string `json:"session,omitempty"`
	Server  string `json:"server,omitempty"`
	Class   string `json:"class,omitempty"`
	Name    string `json:"name,omitempty"`
	Isolate *int   `json:"isolate,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
	// Generation is that of the runtime within the epoch.
	Generation uint64 `json:"generation,omitempty"`
	// Reason is the cause of a reset, why an execution was lost, a runtime disposed of,
	// or a session ended.
	Reason  string `json:"reason,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Method  string `json:"method,omitempty"` // of the request whose execution was lost
	Tool    string `json:"tool,omitempty"`
	Objects int    `json:"objects,omitempty"` // that were reset with their isolate
}

// EventTypes are the types of events, with what they say.
var EventTypes = [][2]string{
	{"session.opened", "a session was opened by its client's initialize"},
	{"session.ended", "a session has ended; `reason`: deleted, expired, not_initialized or operator"},
	{"runtime.built", "a runtime is ready: a process, or a plugin's"},
	{"runtime.failed", "a runtime could not be built; `detail` says why"},
	{"runtime.disposed", "a runtime is gone; `reason`: idle, exited, ended, operator, reset, shutdown or build_failed"},
	{"execution.lost", "a request was answered as lost; `reason` is that of the error, with its `method` and `tool`"},
	{"object.reset", "an object was reset; `reason` is the cause"},
	{"isolate.reset", "an isolate was reset, with `objects` of them; no event for each"},
	{"gap", "events are missing: the host was started again since the last one, or there were more than it remembers"},
}

// feed is the latest events, in a ring, for any number of readers.
type feed struct {
	boot      string // what the ids of this process begin with
	now       func() time.Time
	isolateOf func(session string) int

	mu        sync.Mutex
	ring      []Event
	first     uint64        // the number of the oldest that is remembered
	next      uint64        // of the event to come
	wake      chan struct{} // closed when there is another
	ended     bool
	followers int
}

func newFeed(now func() time.Time) *feed {
	return &feed{boot: strconv.FormatInt(now().UnixMilli(), 36), now: now, first: 1, next: 1, wake: make(chan struct{})}
}

func (f *feed) id(n uint64) string { return f.boot + "." + strconv.FormatUint(n, 10) }

func (f *feed) add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.ID, e.At = f.id(f.next), f.now().UTC()
	if len(f.ring) < MaxEvents {
		f.ring = append(f.ring, e)
	} else {
		f.ring[(f.next-1)%MaxEvents] = e
		f.first++
	}
	f.next++
	close(f.wake)
	f.wake = make(chan struct{})
}

// end lets all who follow go.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended = true
		close(f.wake)
		f.wake = make(chan struct{})
	}
}

// place finds where to go on after an id; empty: from now on. gap: some are missing.
func (f *feed) place(after string) (n uint64, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after == "" {
		return f.next, false
	}
	boot, number, _ := strings.Cut(after, ".")
	last, err := strconv.ParseUint(number, 10, 64)
	if err != nil || boot != f.boot || last >= f.next {
		return f.first, true
	}
	return last + 1, false
}

// after returns the events from a number on; when there is none yet, wake is closed
// when there is.
func (f *feed) after(n uint64) (events []Event, next uint64, gap, ended bool, wake <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < f.first {
		n, gap = f.first, true
	}
	for ; n < f.next && len(events) < 256; n++ {
		events = append(events, f.ring[(n-1)%MaxEvents])
	}
	return events, n, gap, f.ended, f.wake
}

// serve is GET /v1/events: server-sent events, from the one after Last-Event-ID (or
// the parameter after), else from now on; with from=start, all that are remembered.
func (f *feed) serve(w http.ResponseWriter, r *http.Request) error {
	q, err := params(r, "after", "from", "type", "session")
	if err != nil {
		return err
	}
	from := q.Get("from")
	if from != "" && from != "start" {
		return wrong("from", "start, or nothing", "%q is no place in the feed", from)
	}
	f.mu.Lock()
	full := f.followers >= maxFollowers
	if !full {
		f.followers++
	}
	f.mu.Unlock()
	if full {
		return &Error{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("%d follow the events already, which is the limit", maxFollowers)}
	}
	defer func() { f.mu.Lock(); f.followers--; f.mu.Unlock() }()

	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = q.Get("after")
	}
	n, gap := f.place(after)
	if after == "" && from == "start" {
		f.mu.Lock()
		n = f.first
		f.mu.Unlock()
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	beat := time.NewTicker(eventsBeat)
	defer beat.Stop()
	if _, err := fmt.Fprint(w, ": events\n\n"); err != nil {
		return nil // the client has gone
	}
	for {
		events, next, missed, ended, wake := f.after(n)
		if gap || missed {
			gap = false
			writeEvent(w, Event{Type: "gap", At: f.now().UTC()})
		}
		for _, e := range events {
			if (q.Get("type") == "" || strings.HasPrefix(e.Type, q.Get("type"))) && (q.Get("session") == "" || f.concerns(&e, q.Get("session"))) {
				writeEvent(w, e)
			}
		}
		n = next
		if control.Flush() != nil {
			return nil
		}
		if len(events) > 0 {
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return nil
		case <-beat.C:
			_, _ = fmt.Fprint(w, ": still here\n\n") // the flush tells
		}
	}
}

// concerns tells whether an event is about a session, or about the isolate that it lives
// in.
func (f *feed) concerns(e *Event, id string) bool {
	return e.Session == id || e.Type == "isolate.reset" && f.isolateOf != nil && *e.Isolate == f.isolateOf(id)
}

func writeEvent(w http.ResponseWriter, e Event) {
	data, err := json.Marshal(e)
	if err != nil {
		return // an Event always encodes
	}
	if e.ID != "" {
		_, _ = fmt.Fprintf(w, "id: %s\n", e.ID)
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data) // the flush tells
}

// watch makes the feed and the figures hear of what happens.
func (a *api) watch() {
	a.o.Sessions.Watch(func(o session.Occurrence) {
		switch o.Kind {
		case session.AlarmRun:
			a.diary.add(a.now(), &o)
			return
		case session.RequestSettled:
			a.diary.add(a.now(), &o)
			a.figures.settled(o.Took, o.Lost(), o.Outcome)
			if !o.Lost() {
				return
			}
			o.Kind = "execution.lost"
		}
		a.feed.add(Event{
			Type: o.Kind, Session: o.Session, Server: o.Server, Isolate: &o.Isolate, Epoch: o.Epoch, Generation: o.Generation,
			Reason: o.Reason, Detail: o.Detail, Method: o.Method, Tool: o.Tool,
		})
	})
	a.o.Host.Watch(actor.Watcher{
		Reset: func(e *actor.Error, isolate int) {
			event := Event{Type: "object.reset", Class: e.ID.Class, Name: e.ID.Name, Isolate: &isolate, Epoch: e.Epoch, Reason: e.Cause.String()}
			if e.ID.Class == session.Class {
				event.Session, event.Class, event.Name = e.ID.Name, "", ""
			}
			if e.Err != nil {
				event.Detail = e.Err.Error()
			}
			a.feed.add(event)
		},
		IsolateReset: func(isolate int, c actor.Cause, objects int, reason error) {
			event := Event{Type: "isolate.reset", Isolate: &isolate, Reason: c.String(), Objects: objects}
			if reason != nil {
				event.Detail = reason.Error()
			}
			a.feed.add(event)
		},
	})
}
