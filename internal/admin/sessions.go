package admin

import (
	"errors"
	"net/http"
	"slices"

	"github.com/kalpahost/kalpa/mcp/session"
)

func (a *api) isolates(http.ResponseWriter, *http.Request) (any, error) {
	return Isolates{a.eachIsolate(0)}, nil
}

// eachIsolate looks at all, with so many of the objects that hold most of each.
func (a *api) eachIsolate(holders int) []Isolate {
	all := []Isolate{}
	for n := range a.o.Host.Isolates() {
		is := a.o.Host.Isolate(n)
		one := Isolate{Number: n, Resident: a.o.Sessions.ResidentsIn(n), Heap: is.Heap, HeapLimit: is.HeapLimit, SoftLimit: max(is.SoftLimit, 0)}
		for _, objects := range is.Objects {
			one.Objects += objects
		}
		if holders > 0 {
			for _, held := range a.o.Host.Holders(n, holders) {
				one.Holders = append(one.Holders, Holder{held.ID.Class, held.ID.Name, held.Bytes, held.Abandoned})
			}
		}
		all = append(all, one)
	}
	return all
}

func (a *api) sessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "limit", "after", "prefix", "server", "state")
	if err != nil {
		return nil, err
	}
	limit, err := pageOf(q)
	if err != nil {
		return nil, err
	}
	state := session.Presence(q.Get("state"))
	if state != "" && !slices.Contains(session.Presences, state) {
		return nil, wrong("state", "one of "+join(words(session.Presences)), "%q is not a state of sessions", state)
	}
	found, next, err := a.o.Sessions.List(r.Context(), session.Query{After: q.Get("after"), Limit: limit, Prefix: q.Get("prefix"), Server: q.Get("server"), State: state})
	if err != nil {
		return nil, err
	}
	page := Sessions{Sessions: []Session{}, Next: next}
	for _, s := range found {
		page.Sessions = append(page.Sessions, sessionOf(s))
	}
	return page, nil
}

type word string

func (w word) String() string { return string(w) }

func words[T ~string](all []T) (out []word) {
	for _, w := range all {
		out = append(out, word(w))
	}
	return out
}

func sessionOf(s session.Info) Session {
	return Session{
		ID: s.ID, Server: s.Server, State: string(s.Presence), Isolate: s.Isolate, Epoch: s.Epoch, Owed: s.Owed,
		Created: s.Created, Activity: s.Activity, Alarm: s.Alarm,
	}
}

func (a *api) session(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	d, err := a.o.Sessions.Detail(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, unknownSession(r.PathValue("id"), err)
	}
	s := SessionDetail{
		Session: sessionOf(d.Info), Version: d.Version, Subject: d.Subject, Client: d.Client, Retry: d.Retry,
		Waiting: []Waiting{}, Streams: []Stream{}, Rows: d.Rows, Bytes: d.Bytes,
	}
	for _, w := range d.Waiting {
		s.Waiting = append(s.Waiting, Waiting{w.ID, w.Method, w.Tool, w.Stream, w.Since, w.Epoch, w.Generation, w.Started, w.Again})
	}
	for _, st := range d.Streams {
		s.Streams = append(s.Streams, Stream(st))
	}
	return s, nil
}

func (a *api) endSession(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := params(r); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	a.o.Logger.Warn("the end of a session was asked for", "session", id)
	if err := a.o.Sessions.End(r.Context(), id); err != nil {
		return nil, unknownSession(id, err)
	}
	return Ended{id}, nil
}

func (a *api) dispose(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "force")
	if err != nil {
		return nil, err
	}
	force, err := truth(q, "force")
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	a.o.Logger.Warn("the disposal of a session's runtime was asked for", "session", id, "force", force)
	was, err := a.o.Sessions.Dispose(r.Context(), id, force)
	if busy, ok := errors.AsType[*session.Busy](err); ok {
		return nil, &Error{Status: http.StatusConflict, Text: busy.Error(), Hint: "wait for them, or use --force: they are answered as lost then"}
	}
	if err != nil {
		return nil, unknownSession(id, err)
	}
	return Disposed{id, was}, nil
}

func unknownSession(id string, err error) error {
	if errors.Is(err, session.ErrUnknown) {
		return notFound("kalpa sessions list shows them; the id is what the client sends as Mcp-Session-Id", "there is no session %q", id)
	}
	return err
}
