package alarm

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// load returns the turn. Once in an incarnation it reads the rows; from then on the table
// is what they are.
func (s *Schedule) load() (Rows, error) {
	rows, err := s.o.Owner.Turn()
	if err != nil {
		return nil, err
	}
	if s.loaded {
		s.notice(rows)
		return rows, nil
	}
	return rows, s.read(rows)
}

// read makes the table what the rows are.
func (s *Schedule) read(rows Rows) error {
	var table Table
	type bad struct {
		id    string
		value []byte
		err   error
	}
	var unreadable []bad
	// The mark and the entries lie side by side.
	for e, err := range rows.List(storage.Range{Start: destroyKey, End: entryEnd}) {
		if err != nil {
			return err
		}
		if e.Key == destroyKey {
			var mark struct{ At time.Time }
			if err := json.Unmarshal(e.Value, &mark); err != nil || mark.At.IsZero() {
				mark.At = rows.Now() // it is condemned, whenever that was to be
			}
			table.Destroy = wall(mark.At)
			continue
		}
		id := e.Key[len(entryPrefix):]
		r, err := decodeRow(id, e.Value)
		if err != nil {
			unreadable = append(unreadable, bad{id, e.Value, err})
			continue
		}
		table.set(r, nil)
	}
	aside := map[string]bool{}
	for e, err := range rows.List(storage.Range{Prefix: asidePrefix}) {
		if err != nil {
			return err
		}
		aside[e.Key[len(asidePrefix):]] = true
	}
	s.table, s.aside, s.loaded = table, aside, true
	for _, b := range unreadable {
		s.setAside(rows, b.id, b.value, b.err)
	}
	s.noticeWritten(rows)
	s.settle(rows)
	return nil
}

// store writes a row.
func (s *Schedule) store(rows Rows, r *row) {
	r.Wrote = wall(rows.Now())
	b, err := r.encode()
	if err != nil {
		panic(fmt.Sprintf("alarm: a row of plain values does not encode: %v", err))
	}
	rows.Put(entryPrefix+r.ID, b)
}

// update changes a row, in the table and in storage.
func (s *Schedule) update(rows Rows, r *row, change func(*row)) {
	s.table.set(r, change)
	s.store(rows, r)
}

// drop removes a row, if it is there.
func (s *Schedule) drop(rows Rows, id string) {
	r := s.table.get(id)
	if r == nil {
		return
	}
	s.table.remove(id)
	rows.Delete(entryPrefix + id)
	if r.Sized {
		rows.Delete(payloadPrefix + id)
	}
}

// payload reads a row's payload.
func (s *Schedule) payload(rows Rows, r *row) ([]byte, error) {
	if !r.Sized {
		return nil, nil
	}
	b, err := rows.Get(payloadPrefix + r.ID)
	if err == nil && b == nil {
		err = ErrPayloadGone
	}
	return b, err
}

// cleared is told that the turn has deleted all rows of the object. A pending
// destroy goes on.
func (s *Schedule) cleared(rows Rows) {
	s.table, s.aside = Table{Destroy: s.table.Destroy}, nil
	s.loaded = true
	if !s.table.Destroy.IsZero() {
		s.condemn(rows, s.table.Destroy)
	}
}
