package session

import (
	"context"
	"encoding/json"
	"errors"
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
}

// Look looks at a session, without activating it. It fails with ErrUnknown when
// there is none with this id.
func (s *Service) Look(ctx context.Context, id string) (Info, error) {
	oid := storage.ID{Class: Class, Name: id}
	if oid.Validate() != nil {
		return Info{}, ErrUnknown
	}
	store := s.host.Store()
	row, err := store.Get(ctx, oid, keyMeta)
	switch {
	case err != nil:
		return Info{}, err
	case row == nil:
		return Info{}, ErrUnknown
	}
	var m meta
	if json.Unmarshal(row, &m) != nil {
		return Info{ID: id, Presence: Unreadable}, nil
	}
	i := Info{ID: id, Server: m.Server, Isolate: s.host.IsolateOf(oid), Epoch: s.host.Epoch(oid), Created: m.Created, Activity: m.Created}
	if row, err = store.Get(ctx, oid, keyActivity); err != nil {
		return Info{}, err
	} else if row != nil {
		_ = json.Unmarshal(row, &i.Activity) // a row that does not decode is the session's to report
	}
	for _, err := range store.List(ctx, oid, storage.Range{Prefix: prefixOwed}) {
		if err != nil {
			return Info{}, err
		}
		i.Owed++
	}
	s.mu.Lock()
	resident := s.current[id] != nil
	s.mu.Unlock()
	switch {
	case m.Ended:
		i.Presence = Ended
	case resident:
		i.Presence = Resident
	case i.Epoch > 0:
		i.Presence = Active
	default:
		i.Presence = Resting
	}
	return i, nil
}

// List looks at the sessions whose ids come after the one given, in the order of
// their ids, at most limit of them. There are more when next is not empty; they
// come after it.
func (s *Service) List(ctx context.Context, after string, limit int) (page []Info, next string, err error) {
	ids, err := s.host.Store().Objects(ctx, Class, after, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1].Name
	}
	for _, id := range ids {
		switch i, err := s.Look(ctx, id.Name); {
		case errors.Is(err, ErrUnknown): // it has gone since
		case err != nil:
			return nil, "", err
		default:
			page = append(page, i)
		}
	}
	return page, next, nil
}

// ResidentsIn is the number of runtimes that are resident in an isolate.
func (s *Service) ResidentsIn(isolate int) int64 {
	s.telemetry.mu.Lock()
	defer s.telemetry.mu.Unlock()
	return s.telemetry.residents[isolate]
}

// ObjectOf is the object of the session with this id.
func ObjectOf(id string) storage.ID { return storage.ID{Class: Class, Name: id} }
