package alarm

import (
	"encoding/json"
	"strings"

	"github.com/kalpahost/kalpa/storage"
)

// Checker looks at an object's rows of the schedule layer from outside, in the order
// of their keys. The zero Checker is for the next object.
type Checker struct {
	sized map[string]bool // entries whose payload is to come
	count int
}

// Row looks at a row whose key begins with Prefix, and says what is wrong with it.
func (c *Checker) Row(e storage.Entry) error {
	switch key := e.Key; {
	case key == destroyKey:
		var mark struct{ At any }
		return json.Unmarshal(e.Value, &mark)
	case strings.HasPrefix(key, entryPrefix):
		r, err := decodeRow(key[len(entryPrefix):], e.Value)
		if err != nil {
			return err
		}
		c.count++
		if r.Sized {
			if c.sized == nil {
				c.sized = map[string]bool{}
			}
			c.sized[r.ID] = true
		}
	case strings.HasPrefix(key, payloadPrefix):
		delete(c.sized, key[len(payloadPrefix):])
	}
	return nil
}

// End names a schedule whose payload is gone; empty: there is none. It returns how
// many schedules there were.
func (c *Checker) End() (schedules int, without string) {
	for id := range c.sized {
		without = max(without, id)
	}
	return c.count, without
}

// ReadEntries reads the schedules of an object from its rows, from outside, without
// their payloads. Those that do not decode are left out.
func ReadEntries(rows func(storage.Range) ([]storage.Entry, error)) ([]Entry, error) {
	all, err := rows(storage.Range{Prefix: entryPrefix})
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range all {
		if r, err := decodeRow(e.Key[len(entryPrefix):], e.Value); err == nil {
			entries = append(entries, r.Entry)
		}
	}
	return entries, nil
}
