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
	by map[string][]EventID // by session, the last of each stream
}

// add notes what a front has flushed.
func (c *confirmed) add(session, event string) {
	e, err := ParseEventID(event)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string][]EventID{}
	}
	of := c.by[session]
	if i := slices.IndexFunc(of, func(o EventID) bool { return o.Stream == e.Stream }); i < 0 {
		c.by[session] = append(of, e)
	} else if of[i].Less(e) {
		of[i] = e
	}
}

// written forgets what a durable row tells of. A stream that is empty is all of the
// session's.
func (c *confirmed) written(session, stream string, upto EventID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := slices.DeleteFunc(c.by[session], func(e EventID) bool { return stream == "" || e.Stream == stream && !upto.Less(e) })
	if len(of) == 0 {
		delete(c.by, session)
	} else {
		c.by[session] = of
	}
}

// of is what an incarnation that begins has to be told.
func (c *confirmed) of(session string) []EventID {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.by[session])
	slices.SortFunc(all, func(a, b EventID) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}
