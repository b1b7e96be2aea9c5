package session

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Presence is how much of a session is in memory.
type Presence string

// From the most to the least.
const (
	Resident Presence = "resident" // it has a runtime, or one is being built or closed
	Active   Presence = "active"   // it is in memory, without a runtime
	Resting  Presence = "resting"  // it is in storage alone
	Ended    Presence = "ended"    // it is over, and its rows are about to go
	// Unreadable: its first row does not decode. Nothing else is known of it.
	Unreadable Presence = "unreadable"
)

// Presences are all of them.
var Presences = []Presence{Resident, Active, Resting, Ended, Unreadable}

// Info is what can be seen of a session without activating it. Epoch, Owed and
// Activity are of storage and may be a commit behind.
type Info struct {
	ID       string
	Server   string
	Presence Presence
	Isolate  int
	Epoch    uint64 // of its incarnation; 0: it has none
	Owed     int    // requests that it has accepted and not answered
	Created  time.Time
	Activity time.Time // the last request, reply or answer
	Alarm    time.Time // zero: none is set
}

// Detail is all that can be seen of a session without activating it.
type Detail struct {
	Info
	Version string // of the protocol; empty until initialize was answered
	Subject string // whose it is; empty: nobody's in particular
	Client  string // the name and the version that it gave
	Retry   int    // of the alarm
	Waiting []Waiting
	Streams []StreamInfo
	Rows    int
	Bytes   int64 // of the rows
}

// Waiting is a request that waits for its answer.
type Waiting struct {
	ID           string // as the client wrote it
	Method, Tool string
	Stream       string
	Epoch        uint64 // of the incarnation that has it
	Generation   uint64 // of the runtime; 0: it has not been sent yet
	Started      bool   // it may have reached the runtime
	Again        bool   // it was lost once, and is run again
	Since        time.Time
}

// StreamInfo is a stream that has a row or events.
type StreamInfo struct {
	ID      string
	Events  int
	Bytes   int64  // of the events
	Flushed string // the last event that is known to have reached the client
	Done    bool   // all of it has
}

// Look looks at a session, without activating it. It fails with ErrUnknown when
// there is none with this id.
func (s *Service) Look(ctx context.Context, id string) (Info, error) {
	i, _, err := s.look(ctx, id)
	return i, err
}

func (s *Service) look(ctx context.Context, id string) (Info, *meta, error) {
	m, err := s.meta(ctx, id)
	if err != nil {
		return Info{}, nil, err
	}
	i := s.glance(id, m)
	return i, m, s.fill(ctx, &i)
}

// glance is what the first row of a session says, nil when it does not decode, and what
// is in memory.
func (s *Service) glance(id string, m *meta) Info {
	oid := ObjectOf(id)
	i := Info{ID: id, Presence: Unreadable, Isolate: s.host.IsolateOf(oid)}
	if m != nil {
		i.Server, i.Epoch, i.Created, i.Activity = m.Server, s.host.Epoch(oid), m.Created, m.Created
		i.Presence = s.presence(i, m)
	}
	return i
}

// fill adds what the other rows of a session say.
func (s *Service) fill(ctx context.Context, i *Info) error {
	if i.Presence == Unreadable {
		return nil
	}
	store, oid := s.host.Store(), ObjectOf(i.ID)
	if row, err := store.Get(ctx, oid, keyActivity); err != nil {
		return err
	} else if row != nil {
		_ = json.Unmarshal(row, &i.Activity) // a row that does not decode is the session's to report
	}
	for _, err := range store.List(ctx, oid, storage.Range{Prefix: prefixOwed}) {
		if err != nil {
			return err
		}
		i.Owed++
	}
	if a, err := store.Alarm(ctx, oid); err == nil { // likewise
		i.Alarm = a.At
	}
	return nil
}

// meta reads the first row of a session; nil when it does not decode.
func (s *Service) meta(ctx context.Context, id string) (*meta, error) {
	oid := ObjectOf(id)
	if oid.Validate() != nil {
		return nil, ErrUnknown
	}
	row, err := s.host.Store().Get(ctx, oid, keyMeta)
	switch {
	case err != nil:
		return nil, err
	case row == nil:
		return nil, ErrUnknown
	}
	m := &meta{}
	if json.Unmarshal(row, m) != nil {
		m = nil
	}
	return m, nil
}

func (s *Service) presence(i Info, m *meta) Presence {
	s.mu.Lock()
	resident := s.current[i.ID] != nil
	s.mu.Unlock()
	switch {
	case m.Ended:
		return Ended
	case resident:
		return Resident
	case i.Epoch > 0:
		return Active
	}
	return Resting
}

// Detail looks at all of a session, without activating it.
func (s *Service) Detail(ctx context.Context, id string) (*Detail, error) {
	i, m, err := s.look(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &Detail{Info: i}
	if m != nil {
		d.Version, d.Subject = m.Version, m.Principal.Subject
	}
	if a, err := s.host.Store().Alarm(ctx, ObjectOf(id)); err == nil {
		d.Retry = a.Retry
	}
	streams := map[string]*StreamInfo{}
	stream := func(id string) *StreamInfo {
		if streams[id] == nil {
			streams[id] = &StreamInfo{ID: id}
		}
		return streams[id]
	}
	for e, err := range s.host.Store().List(ctx, ObjectOf(id), storage.Range{}) {
		if err != nil {
			return nil, err
		}
		d.Rows++
		d.Bytes += int64(len(e.Key) + len(e.Value))
		switch key := e.Key; {
		case key == keyInitialize:
			var p struct {
				ClientInfo struct{ Name, Version string }
			}
			if json.Unmarshal(e.Value, &p) == nil {
				d.Client = strings.TrimSpace(p.ClientInfo.Name + " " + p.ClientInfo.Version)
			}
		case strings.HasPrefix(key, prefixOwed):
			id, _, _ := strings.Cut(key[len(prefixOwed):], "/")
			var r owed
			if json.Unmarshal(e.Value, &r) == nil {
				d.Waiting = append(d.Waiting, Waiting{string(r.ID), r.Method, r.Tool, id, r.Epoch, r.Gen, r.Started, r.Again, r.At})
			}
		case strings.HasPrefix(key, prefixEvent):
			if id, err := parseEventKey(key); err == nil {
				st := stream(id.Stream)
				st.Events++
				st.Bytes += int64(len(e.Value))
			}
		case strings.HasPrefix(key, prefixStream):
			var r streamRow
			if st := stream(key[len(prefixStream):]); json.Unmarshal(e.Value, &r) == nil {
				st.Flushed, st.Done = r.Flushed, r.Done
			}
		}
	}
	for _, id := range sortedKeys(streams) {
		d.Streams = append(d.Streams, *streams[id])
	}
	return d, nil
}

// Query selects sessions.
type Query struct {
	After  string   // those whose ids come after it
	Limit  int      // at most so many
	Prefix string   // whose ids begin with it
	Server string   // of this server; empty: of all
	State  Presence // empty: any
}

func (q Query) wants(i Info) bool {
	return (q.Server == "" || i.Server == q.Server) && (q.State == "" || i.Presence == q.State)
}

// maxScan bounds the sessions that one List looks at, so that a filter that few pass
// does not hold up the caller: it gets what there is so far, and goes on.
const maxScan = 5000

// List looks at sessions, in the order of their ids. There may be more when next is not
// empty: they come after it. A page may have less than the limit, and none at all, and
// not be the last.
func (s *Service) List(ctx context.Context, q Query) (page []Info, next string, err error) {
	seen, last := 0, ""
	for id, err := range s.candidates(ctx, q) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == q.Limit || seen == maxScan {
			return page, last, nil
		}
		seen, last = seen+1, id
		m, err := s.meta(ctx, id)
		if errors.Is(err, ErrUnknown) { // it has gone since
			continue
		}
		if err != nil {
			return nil, "", err
		}
		i := s.glance(id, m)
		if !q.wants(i) {
			continue
		}
		if err := s.fill(ctx, &i); err != nil {
			return nil, "", err
		}
		page = append(page, i)
	}
	return page, "", nil
}

// candidates are the ids that a query may be about, in order: from memory for what is
// there, else from the store, by pages.
func (s *Service) candidates(ctx context.Context, q Query) iter.Seq2[string, error] {
	if q.State == Resident || q.State == Active {
		return s.inMemory(q)
	}
	return func(yield func(string, error) bool) {
		after := q.After
		if q.Prefix > after { // the one that is the prefix comes before those that go on from it
			after = q.Prefix
			if _, err := s.meta(ctx, q.Prefix); !errors.Is(err, ErrUnknown) && !yield(q.Prefix, err) {
				return
			}
		}
		for n := q.Limit + 1; ; n *= 2 { // those that follow a page that was not full are mostly passed over
			n = min(n, 1000)
			ids, err := s.host.Store().Objects(ctx, Class, after, n)
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range ids {
				if !strings.HasPrefix(id.Name, q.Prefix) || !yield(id.Name, nil) {
					return
				}
				after = id.Name
			}
			if len(ids) == 0 {
				return
			}
		}
	}
}

func (s *Service) inMemory(q Query) iter.Seq2[string, error] {
	var ids []string
	for id := range s.host.InMemory(Class) {
		if id.Name > q.After && strings.HasPrefix(id.Name, q.Prefix) {
			ids = append(ids, id.Name)
		}
	}
	if q.State == Resident {
		s.mu.Lock()
		for id := range s.current {
			if id > q.After && strings.HasPrefix(id, q.Prefix) {
				ids = append(ids, id)
			}
		}
		s.mu.Unlock()
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// ResidentsIn is the number of runtimes that are resident in an isolate.
func (s *Service) ResidentsIn(isolate int) int64 {
	s.telemetry.mu.Lock()
	defer s.telemetry.mu.Unlock()
	return s.telemetry.residents[isolate]
}

// ResidentsOf is the number of runtimes that each server has resident; none: it is not
// there.
func (s *Service) ResidentsOf() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]int{}
	for _, rt := range s.current {
		by[rt.server.Name]++
	}
	return by
}

// Servers are the names of those that are hosted, sorted.
func (s *Service) Servers() []string { return sortedKeys(s.servers.all()) }

// ObjectOf is the object of the session with this id.
func ObjectOf(id string) storage.ID { return storage.ID{Class: Class, Name: id} }
