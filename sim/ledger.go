package sim

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// Keys of a session's rows that are judged: of events, of what is owed, and of the
// streams that POSTs and GETs have opened.
const (
	eventRows = "e/"
	owedRows  = "q/"
	postRows  = eventRows + "p"
	getRows   = eventRows + "g"
)

// moved judges a batch that moves answers from the streams of POSTs to that of a GET: of
// an id it may do so only while no live request has the same, for the client would take
// the one's answer for the other's.
func (h *history) moved(b *storage.Write) {
	if b.ID.Class != session.Class {
		return
	}
	image := h.w.disk.image
	for _, e := range b.Puts {
		if !strings.HasPrefix(e.Key, getRows) || !slices.ContainsFunc(b.Deletes, func(key string) bool {
			return strings.HasPrefix(key, postRows) && bytes.Equal(image.Get(b.ID, key), e.Value) && !h.retires(b.ID, key)
		}) {
			continue
		}
		id := gjson.GetBytes(e.Value, "id").Raw
		for _, row := range image.List(b.ID, storage.Range{Prefix: owedRows}) {
			if gjson.GetBytes(row.Value, "epoch").Uint() == b.Epoch && gjson.GetBytes(row.Value, "id").String() == id && !slices.Contains(b.Deletes, row.Key) {
				h.violate("I1", "session %s puts an answer to id %s on a GET stream, and a live request (%s) has that id", b.ID.Name, id, row.Key)
			}
		}
	}
}

// flush is how far a stream has been delivered, as a front has told its session.
type flush struct {
	upto session.EventID
	at   time.Time
}

// delivered is told of each flush that a front confirms.
func (h *history) delivered(id storage.ID, event string) {
	e, err := session.ParseEventID(event)
	if err != nil {
		return
	}
	of := h.flushes[id]
	if of == nil {
		of = map[string]flush{}
		h.flushes[id] = of
	}
	if was, ok := of[e.Stream]; !ok || was.upto.Less(e) {
		of[e.Stream] = flush{e, h.w.s.now}
	}
}

// retires reports that an event which a batch deletes has been delivered: it has had its
// retention, and does not move, though another may have the same words.
func (h *history) retires(id storage.ID, key string) bool {
	stream, _, _ := strings.Cut(strings.TrimPrefix(key, eventRows), "/")
	f, ok := h.flushes[id][stream]
	return ok && key <= session.EventKey(f.upto)
}

// retired judges at rest that what has been delivered is stored no longer than its
// retention, and the quarter of it that alarms may be late.
func (h *history) retired() {
	if h.w.clockMoved > 0 {
		return // what was noted by a clock that was ahead may be due long after
	}
	kept := h.w.plan.Retention*5/4 + time.Minute
	for _, id := range sortedIDs(h.flushes) {
		for _, stream := range sortedKeys(h.flushes[id]) {
			f := h.flushes[id][stream]
			if h.w.s.now.Sub(f.at) < kept {
				continue
			}
			if row := h.w.disk.image.Get(id, "s/"+stream); stream[0] == 'p' && row != nil && !gjson.GetBytes(row, "done").Bool() {
				continue // not all of it: the host keeps such a stream whole, after a reset, until it ends
			}
			for _, row := range h.w.disk.image.List(id, storage.Range{Prefix: eventRows + stream + "/"}) {
				if row.Key <= session.EventKey(f.upto) {
					h.violate("I8", "event %s of session %s of client %s was delivered at %v at the latest, and is stored still, after a retention of %v", row.Key, id.Name, h.w.clientOf(id.Name), f.at.Sub(h.w.start), h.w.plan.Retention)
					return
				}
			}
		}
	}
}
