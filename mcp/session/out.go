package session

import (
	"sync"

	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// out is what a step yields: a batch, what to read before it is sealed, and what
// to do once it is durable.
type out struct {
	puts    []storage.Entry
	deletes []string
	clear   bool
	reads   []read
	trims   []trim
	effects []effect
	moved   int64 // bytes moved to the GET stream
	settled []settlement
	again   int64 // lost calls that are run again
}

// outs are those that are not in use, with room for what most steps yield.
var outs = sync.Pool{New: func() any { return new(out) }}

// mostOut bounds the room that is kept, in entries of each kind.
const mostOut = 64

// newOut returns an empty one, to be released once it has been applied.
func newOut() *out { return outs.Get().(*out) }

// release gives the room back for the next step.
func (o *out) release() {
	if max(cap(o.puts), cap(o.deletes), cap(o.effects)) > mostOut {
		return
	}
	clear(o.puts)
	clear(o.deletes)
	clear(o.effects)
	*o = out{puts: o.puts[:0], deletes: o.deletes[:0], effects: o.effects[:0]}
	outs.Put(o)
}

func (o *out) put(key string, value []byte) {
	o.puts = append(o.puts, storage.Entry{Key: key, Value: value})
}
func (o *out) delete(key string) { o.deletes = append(o.deletes, key) }
func (o *out) do(e effect)       { o.effects = append(o.effects, e) }

// settle notes the end of a request; answer is zero when it was taken back.
func (o *out) settle(r *owed, answer wire.Message) {
	o.settled = append(o.settled, settlement{r.Method, r.Tool, r.At, answer, r.lost})
}
