package session

import (
	"slices"
	"strings"
	"sync"
)

// confirmed are the flushes that fronts have told of and that no row tells of yet:
// a session writes them along with something else, or a little later. They outlive
// its incarnations, so that one that is reset meanwhile does not answer again what
// its client has. (A process that is killed takes them along.)
type confirmed struct {
	mu sync.Mutex
	by map[string]map[string]EventID // by session and stream
}

// add notes what a front has flushed.
func (c *confirmed) add(session, event string) {
	e, err := ParseEventID(event)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.by[session]
	if of == nil {
		if c.by == nil {
			c.by = map[string]map[string]EventID{}
		}
		of = map[string]EventID{}
		c.by[session] = of
	}
	if old, ok := of[e.Stream]; !ok || old.Less(e) {
		of[e.Stream] = e
	}
}

// written forgets what a durable row tells of. A stream that is empty is all of the
// session's.
func (c *confirmed) written(session, stream string, upto EventID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.by[session]
	if e, ok := of[stream]; ok && !upto.Less(e) {
		delete(of, stream)
	}
	if len(of) == 0 || stream == "" {
		delete(c.by, session)
	}
}

// of is what an incarnation that begins has to be told.
func (c *confirmed) of(session string) []EventID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []EventID
	for _, e := range c.by[session] {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b EventID) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}
