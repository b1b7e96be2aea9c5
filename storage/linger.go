package storage

import (
	"slices"
	"time"
)

// DefaultLinger bounds how long a batch that lingers waits for the next one of its
// object. It is longer than most answers of a server in this process take on a loaded
// machine, and shorter than anybody notices.
const DefaultLinger = 8 * time.Millisecond

// mostLingering bounds the Size of a batch that lingers. The bytes of a larger one would be
// missed: they count, and others may wait for them.
const mostLingering = 64 << 10

// mostJoined bounds the rows of each of two batches that are joined: each of the first is
// looked for among those of the second.
const mostJoined = 16

// lingering are batches that have been submitted and wait for the next one of their
// object, or for two ticks of a clock that goes only while there are any. It is used
// under the Committer's lock.
type lingering struct {
	of   map[ID]*linger
	line []*linger // in the order in which they came, some taken already
	tick uint64
}

type linger struct {
	request request // the zero request: it was taken
	since   uint64  // the tick
}

// add lets a request linger. It reports whether the clock has to be started.
func (l *lingering) add(r request) (first bool) {
	w := &linger{request: r, since: l.tick}
	if l.of == nil {
		l.of = make(map[ID]*linger)
	}
	l.of[r.id] = w
	l.line = append(l.line, w)
	return len(l.line) == 1
}

// take ends the wait of an object's batch, if one lingers.
func (l *lingering) take(id ID) (r request, ok bool) {
	w := l.of[id]
	if w == nil {
		return request{}, false
	}
	delete(l.of, id)
	r, w.request = w.request, request{}
	return r, true
}

// over ends the wait of those that have seen a whole tick, or of all, and begins the next.
// It reports whether the clock has to go on.
func (l *lingering) over(all bool, each func(request)) (more bool) {
	n := 0
	for ; n < len(l.line) && (all || l.line[n].since < l.tick); n++ {
		if r := l.line[n].request; r.batch != nil {
			delete(l.of, r.id)
			each(r)
		}
	}
	l.line = slices.Delete(l.line, 0, n)
	l.tick++
	return len(l.line) > 0
}

// joins reports whether the batches of two requests, the second of which was submitted
// right after the first for the same object, may land as one.
func (r *request) joins(next *request) bool {
	a, b := r.batch, next.batch
	return next.kind == submitting && next.err == nil && a.Epoch == b.Epoch &&
		len(a.Puts) <= mostJoined && len(b.Puts)+len(b.Deletes) <= mostJoined
}

// join makes one request of two.
func (r *request) join(next request) request {
	first, second := r.done, next.done
	next.batch = Join(r.batch, next.batch)
	next.size += r.size
	next.done = func(err error) { first(err); second(err) }
	return next
}

// Join returns a batch that does what a and then b do. Both are of one incarnation, and
// neither is changed.
func Join(a, b *Batch) *Batch {
	j := &Batch{ID: b.ID, Epoch: b.Epoch, Fresh: a.Fresh, Clear: a.Clear || b.Clear, Alarm: b.Alarm}
	if b.Clear {
		j.Deletes, j.Puts = b.Deletes, b.Puts
		return j
	}
	if j.Alarm == nil {
		j.Alarm = a.Alarm
	}
	if !a.Fresh { // else there is nothing to delete but what a has put
		j.Deletes = slices.Concat(a.Deletes, b.Deletes)
	}
	j.Puts = make([]Entry, 0, len(a.Puts)+len(b.Puts))
	for _, e := range a.Puts {
		again := slices.Contains(b.Deletes, e.Key) || slices.ContainsFunc(b.Puts, func(o Entry) bool { return o.Key == e.Key })
		if !again {
			j.Puts = append(j.Puts, e)
		}
	}
	j.Puts = append(j.Puts, b.Puts...)
	return j
}
