package alarm

import (
	"iter"
	"maps"
	"slices"
)

// Aside is a schedule that can't be run and was taken out of the way of the others.
type Aside struct {
	ID string
	// Row is the schedule's row. One that does not decode is as it was found; any other
	// decodes into an Entry, as JSON.
	Row []byte
	// Payload is what the callback would have been given, nil for nothing.
	Payload []byte
}

// SetAside yields what can't be run, by ID: rows that did not decode, or whose
// payload did not; that name a callback which the object no longer has; cron that can't
// be run; and what ran the object out of memory again and again. They are kept for
// whoever wants to register them again, at most MaxSetAside, until Discard; a later one
// of the same ID takes the place of an earlier one. The schedule may be used meanwhile.
func (s *Schedule) SetAside() iter.Seq2[Aside, error] {
	return func(yield func(Aside, error) bool) {
		rows, err := s.load()
		if err != nil {
			yield(Aside{}, err)
			return
		}
		for _, id := range slices.Sorted(maps.Keys(s.aside)) {
			if a, err := s.asideOf(rows, id); !yield(a, err) || err != nil {
				return
			}
		}
	}
}

func (s *Schedule) asideOf(rows Rows, id string) (Aside, error) {
	a := Aside{ID: id}
	var err error
	if a.Row, err = rows.Get(asidePrefix + id); err != nil {
		return a, err
	}
	if a.Payload, err = rows.Get(movedPrefix + id); err == nil && a.Payload == nil && s.table.get(id) == nil {
		a.Payload, err = rows.Get(payloadPrefix + id)
	}
	return a, err
}

// Discard deletes what was set aside under an ID; false when nothing was.
func (s *Schedule) Discard(id string) (bool, error) {
	rows, err := s.load()
	if err != nil || !s.aside[id] {
		return false, err
	}
	delete(s.aside, id)
	rows.Delete(asidePrefix + id)
	rows.Delete(movedPrefix + id)
	if s.table.get(id) == nil {
		rows.Delete(payloadPrefix + id)
	}
	return true, nil
}

// setAside takes a row out of the way of the others, and keeps it. Its payload stays
// where it is: there may be many, and large.
func (s *Schedule) setAside(rows Rows, id string, value []byte, why error) {
	kept := s.aside[id] || len(s.aside) < MaxSetAside
	s.count(SetAside)
	s.o.Logger.Error("a schedule can't be run and was set aside", "object", s.o.ID.String(), "schedule", id, "error", why, "kept", kept)
	s.table.remove(id)
	rows.Delete(entryPrefix + id)
	if !kept {
		rows.Delete(payloadPrefix + id)
		return
	}
	if s.aside == nil {
		s.aside = map[string]bool{}
	}
	s.aside[id] = true
	rows.Put(asidePrefix+id, value)
	rows.Delete(movedPrefix + id) // of an earlier one
}

// retire sets a row aside that decodes, as it was before the run that found it out.
func (s *Schedule) retire(rows Rows, r *row, why error) {
	idle := *r
	idle.Running = nil
	b, _ := idle.encode() // plain values
	s.setAside(rows, r.ID, b, why)
}

// stepAside moves the payload of what was set aside under an ID that is taken again.
func (s *Schedule) stepAside(rows Rows, id string) error {
	if !s.aside[id] {
		return nil
	}
	payload, err := rows.Get(payloadPrefix + id)
	if err == nil && payload != nil {
		rows.Put(movedPrefix+id, payload)
		rows.Delete(payloadPrefix + id)
	}
	return err
}
