package alarm

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Rows is one turn of an object, as a Schedule uses it: what is written lands
// with the turn's own writes, in one commit.
type Rows interface {
	Get(key string) ([]byte, error)
	List(r storage.Range) iter.Seq2[storage.Entry, error]
	Put(key string, value []byte)
	Delete(key string)
	Now() time.Time
}

// Prefix begins the keys of a schedule's rows in its object's storage. What begins
// with a zero byte is out of reach of an object's own code, so keys can't collide.
//
//	Prefix "destroy"    the mark of a condemned object: when it is torn down
//	Prefix "e/" id      an entry, as JSON
//	Prefix "p/" id      its payload
//	Prefix "x/" id      an entry that can't be run, as it was found; its payload stays
//	Prefix "y/" id      the payload of such an entry whose ID was taken again
const Prefix = "\x00schedule/"

const (
	destroyKey    = Prefix + "destroy"
	entryPrefix   = Prefix + "e/"
	entryEnd      = Prefix + "e0" // the first key after all entries
	payloadPrefix = Prefix + "p/"
	asidePrefix   = Prefix + "x/"
	movedPrefix   = Prefix + "y/"
)

// Schedule multiplexes an object's deadlines through its one alarm. There is one
// for each incarnation. Its methods belong to the object's code, in a turn of it:
// elsewhere they fail. KeepAlive and its release are the exceptions.
//
// Nobody sets the object's alarm beneath a Schedule: it is derived, at the end of
// each turn and in the same commit, from the rows, the keep-alives and the
// sources.
type Schedule struct {
	o       KeeperOptions
	table   Table
	aside   map[string]bool // the IDs of what was set aside
	alive   keepAlives
	sources sources

	loaded  bool
	seen    time.Time // the clock in the last turn, with its monotonic reading
	gone    bool      // the object has been torn down
	named   uint64
	runs    uint64
	waiting []string                           // rows that are due and have no room
	cancels map[uint64]context.CancelCauseFunc // of the runs in progress
	teardown
}

// AddSource registers a deadline of the object's own: the object's Alarm is
// called when it is due, and until it wants a later time, or none. Another source
// of the same name is replaced. Sources last as long as the incarnation, so they
// belong where it starts: an alarm wakes an object that has done no more than
// that.
func (s *Schedule) AddSource(name string, source Source) { s.sources.add(name, source) }

// KeepAlive keeps the incarnation from being evicted, and its alarm at most a
// Heartbeat away, until it is released. Releasing twice is releasing once. When
// the last one is released the alarm is derived again.
func (s *Schedule) KeepAlive() (release func()) {
	if s.o.Seams.NoRelease {
		return s.alive.hold(func() {})
	}
	return s.alive.hold(s.o.Owner.Released)
}

// Get returns a schedule with its payload; false when there is none. It fails with
// ErrPayloadGone, and returns the rest, when the payload is not there: such a
// schedule is set aside when it is due.
func (s *Schedule) Get(id string) (Entry, bool, error) {
	rows, err := s.load()
	if err != nil {
		return Entry{}, false, err
	}
	r := s.table.get(id)
	if r == nil {
		return Entry{}, false, nil
	}
	payload, err := s.payload(rows, r)
	if err != nil {
		return r.entry(nil), false, &Error{Op: "get", ID: s.o.ID, Err: fmt.Errorf("%q: %w", id, err)}
	}
	return r.entry(payload), true, nil
}

// List returns all schedules, without their payloads, in the order in which they
// are due.
func (s *Schedule) List() ([]Entry, error) {
	if _, err := s.load(); err != nil {
		return nil, err
	}
	all := make([]Entry, 0, s.table.len())
	for _, r := range s.table.ordered {
		all = append(all, r.entry(nil))
	}
	return all, nil
}

// Cancel removes a schedule; false when there is none. A run of it that has begun
// goes on.
func (s *Schedule) Cancel(id string) (bool, error) {
	rows, err := s.load()
	if err != nil || s.table.get(id) == nil {
		return false, err
	}
	s.drop(rows, id)
	return true, nil
}
