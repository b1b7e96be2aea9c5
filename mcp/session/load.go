package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// source reads a session's rows; a turn is one.
type source interface {
	List(storage.Range) iter.Seq2[storage.Entry, error]
}

// load rebuilds the state from storage. What the ledger holds was left by
// incarnations that are gone, and is answered as lost to why, by their epochs, or run
// again.
func (s *state) load(src source, why func(epoch uint64) Loss, now time.Time, o *out) error {
	s.now = now
	var rows []*owed
	// Everything but the events and the runtime's own state.
	for _, r := range []storage.Range{{End: prefixEvent}, {Start: prefixEvent + "\xff", End: prefixState}} {
		for e, err := range src.List(r) {
			if err != nil {
				return err
			}
			if err := s.loadRow(e, &rows); err != nil {
				if e.Key == keyMeta {
					return err
				}
				s.logger().Error("a row of the session does not decode and is left alone", "key", e.Key, "error", err)
			}
		}
	}
	if s.meta == nil {
		return nil
	}
	s.cfg = s.configured(s.meta.Server)
	s.activeStored = s.active
	if s.active.IsZero() {
		s.active = s.meta.Created
	}
	if s.active.After(now) {
		s.active = now
	}
	for _, r := range rows {
		if s.streams[r.stream.id] == nil {
			set(&s.streams, r.stream.id, r.stream)
		}
	}
	for _, id := range sortedKeys(s.streams) {
		if err := s.loadLog(src, s.streams[id], now); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.approvals, func(a, b *approval) int { return a.At.Compare(b.At) })
	for _, a := range s.approvals {
		if a.Outcome == "" {
			a.Outcome, a.Done = OutcomeGone, now.UTC().Round(0)
			o.put(a.key(), encode(a))
		}
	}
	slices.SortStableFunc(s.marks, func(a, b mark) int { return a.at.Compare(b.at) })
	if len(s.marks) > 0 {
		s.sweepAfter(s.marks[0].at)
	}
	if s.meta.Ended {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b *owed) int { return a.At.Compare(b.At) })
	for _, r := range rows {
		if r.since = r.At; r.since.After(now) {
			r.since = now
		}
	}
	for _, r := range rows {
		r.stream.owes = append(r.stream.owes, r)
		s.live = append(s.live, r)
		r.size = int64(len(r.Kept))
		s.liveBytes += r.size
	}
	for _, r := range rows {
		if l := why(r.Epoch); !s.again(r, l, now, o) {
			s.lose(r, l, o)
		}
	}
	if len(s.rt.queue) > 0 {
		s.build(now, o)
	}
	if s.meta.Version == "" && !s.meta.Ended {
		s.end("not_initialized", o) // initialize was never answered: nobody can use this session
	}
	s.saveStreams(o)
	return nil
}

var errNotJSON = errors.New("the value is not JSON")

func (s *state) loadRow(e storage.Entry, rows *[]*owed) error {
	if !json.Valid(e.Value) {
		return errNotJSON // all are; what is kept raw would be found out much later
	}
	switch key := e.Key; {
	case key == keyMeta:
		s.meta = &meta{}
		return json.Unmarshal(e.Value, s.meta)
	case key == keyActivity:
		return json.Unmarshal(e.Value, &s.active)
	case key == keyInitialize:
		s.initParams = s.said.same(e.Value)
	case key == keyResult:
		s.result = s.said.same(e.Value)
	case key == keyInitialized:
		if _, err := wire.Parse(e.Value); err != nil {
			return err
		}
		s.initialized = s.said.same(e.Value)
	case key == keyRepeatable:
		return s.loadRepeatable(e.Value)
	case key == keyLevel:
		s.level = e.Value
	case strings.HasPrefix(key, prefixApproval):
		return s.loadApproval(e.Value)
	case strings.HasPrefix(key, prefixSub):
		set(&s.subs, key[len(prefixSub):], e.Value)
	case strings.HasPrefix(key, prefixHeld):
		n, err := strconv.ParseUint(key[len(prefixHeld):], 16, 64)
		if err != nil {
			return err
		}
		m, err := wire.Parse(e.Value)
		if err != nil {
			return err
		}
		s.heldNext = max(s.heldNext, n)
		s.held = append(s.held, heldRow{n, m})
		s.heldBytes += int64(len(e.Value))
	case strings.HasPrefix(key, prefixStream):
		return s.loadStream(key[len(prefixStream):], e.Value)
	case strings.HasPrefix(key, prefixOwed):
		id, ord, _ := strings.Cut(key[len(prefixOwed):], "/")
		r := &owed{}
		if err := json.Unmarshal(e.Value, r); err != nil {
			return err
		}
		var err error
		if r.ord, err = strconv.Atoi(ord); err != nil {
			return err
		}
		// The stream's own row comes later in the order of keys.
		for _, o := range *rows {
			if o.stream.id == id {
				r.stream = o.stream
			}
		}
		if r.stream == nil {
			r.stream = &stream{id: id, post: true}
			set(&s.streams, id, r.stream)
		}
		*rows = append(*rows, r)
	default:
		return fmt.Errorf("the key is not one of a session's")
	}
	return nil
}

func (s *state) loadStream(id string, value []byte) error {
	var r streamRow
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	st := s.streams[id]
	if st == nil {
		st = &stream{id: id, post: strings.HasPrefix(id, "p")}
		set(&s.streams, id, st)
	}
	st.prime, st.over, st.flushedAt = r.Prime, r.Over, r.At
	if r.Flushed != "" {
		var err error
		if st.flushed, err = ParseEventID(r.Flushed); err != nil {
			return err
		}
		st.sent = st.flushed
	}
	switch {
	case r.Done:
		st.last = st.flushed
		s.marks = append(s.marks, mark{upto: st.last, at: r.At, whole: true})
		delete(s.streams, id) // read back if its client comes once more
	case st.over:
		s.marks = append(s.marks, mark{upto: EventID{id, 1 << 62, 0}, at: r.At, whole: true})
	case !st.post:
		s.get = st
		if r.Flushed != "" {
			s.marks = append(s.marks, mark{upto: st.flushed, at: r.At})
		}
	}
	return nil
}

// loadLog finds the end of a stream's log and its size.
func (s *state) loadLog(src source, st *stream, now time.Time) error {
	st.detached, st.loaded = now, true
	if st.flushedAt.After(now) {
		st.flushedAt = now
	}
	if st.done() && st.last.Stream != "" {
		return nil // delivered to its end, and about to go
	}
	for e, err := range src.List(storage.Range{Prefix: prefixEvent + st.id + "/"}) {
		if err != nil {
			return err
		}
		id, err := parseEventKey(e.Key)
		if err != nil {
			s.logger().Error("an event is left alone", "key", e.Key, "error", err)
			continue
		}
		st.last = id
		st.bytes += int64(len(e.Value))
	}
	s.logBytes += st.bytes
	return nil
}
