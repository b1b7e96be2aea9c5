package session

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// Checker looks at a session's rows from outside, in the order of their keys. Make one
// with NewChecker for each session.
type Checker struct {
	s       *state
	id      string
	rows    []*owed
	events  map[string]int // by stream
	streams map[string]*streamRow
	other   bool // there are rows beside meta
	found   func(storage.Finding)
}

// NewChecker makes a Checker of a session; found takes what is wrong with it.
func NewChecker(id string, found func(storage.Finding)) *Checker {
	c := &Checker{id: id, found: found, events: map[string]int{}, streams: map[string]*streamRow{}}
	c.s = newState(id, 0, &Service{log: slog.New(slog.DiscardHandler)})
	return c
}

func (c *Checker) say(severity storage.Severity, what, lost, do string) {
	c.found(storage.Finding{Severity: severity, About: "session " + c.id, What: what, Lost: lost, Do: do})
}

// Row looks at a row.
func (c *Checker) Row(e storage.Entry) {
	if e.Key != keyMeta {
		c.other = true
	}
	switch key := e.Key; {
	case strings.HasPrefix(key, prefixState):
		return // the runtime's own
	case strings.HasPrefix(key, prefixEvent):
		c.event(e)
	default:
		if err := c.s.loadRow(e, &c.rows); err != nil {
			c.bad(key, err)
			return
		}
		if stream, ok := strings.CutPrefix(key, prefixStream); ok {
			var r streamRow
			if json.Unmarshal(e.Value, &r) == nil {
				c.streams[stream] = &r
			}
		}
	}
}

// bad says what a row that does not decode costs.
func (c *Checker) bad(key string, err error) {
	lost := "what the row says; the session goes on without it"
	switch {
	case key == keyMeta:
		lost = "the session: its client can't use it any more"
	case strings.HasPrefix(key, prefixOwed):
		lost = "the request that the row is about: its client is never answered"
	case strings.HasPrefix(key, prefixEvent):
		lost = "a message to the client; the others of the stream are delivered"
	case strings.HasPrefix(key, "hs/"):
		lost = "a part of what a rebuilt server is told about its client"
	}
	c.say(storage.Damage, fmt.Sprintf("the row %q does not decode: %v", key, err), lost, "restore a backup, or end the session: kalpa sessions end "+c.id)
}

func (c *Checker) event(e storage.Entry) {
	id, err := parseEventKey(e.Key)
	if err == nil && len(e.Value) > 0 {
		_, err = wire.Parse(e.Value)
	}
	if err != nil {
		c.bad(e.Key, err)
		return
	}
	c.events[id.Stream]++
}

// Checked says what the rows were of, for who counts.
type Checked struct {
	Server string
	Ended  bool
	Owed   int
	Events int
}

// End compares the rows with each other, when all have been seen.
func (c *Checker) End() Checked {
	all := Checked{Owed: len(c.rows)}
	for _, stream := range sortedKeys(c.events) {
		all.Events += c.events[stream]
		if c.streams[stream] == nil {
			c.say(storage.Warning, fmt.Sprintf("the stream %s has %d events and no row of its own", stream, c.events[stream]), "nothing; the events stay until the session ends", "")
		}
	}
	for _, r := range c.rows {
		switch st := c.streams[r.stream.id]; {
		case st == nil:
			c.say(storage.Warning, fmt.Sprintf("the request %s is owed on the stream %s, which has no row of its own", r.ID, r.stream.id), "nothing; it is answered as lost when the session is used", "")
		case st.Done:
			c.say(storage.Damage, fmt.Sprintf("the request %s is owed on the stream %s, which is marked as delivered to its end", r.ID, r.stream.id), "the answer to that request, perhaps", "end the session: kalpa sessions end "+c.id)
		}
	}
	if c.s.meta == nil {
		if c.other {
			c.say(storage.Damage, "it has rows, and not the first one, which says whose it is", "the session: its client can't use it any more", "remove what is left: kalpa objects delete "+Class+" "+c.id)
		}
		return all
	}
	all.Server, all.Ended = c.s.meta.Server, c.s.meta.Ended
	return all
}
