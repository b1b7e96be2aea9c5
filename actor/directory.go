package actor

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

const shards = 64

// directory maps an identity to its incarnation. It holds the queue of each
// object that is not at rest; one lock for each shard decides whether an event
// goes to the incarnation's mailbox or is held back.
type directory struct {
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	entries map[storage.ID]*entry
}

// entry is an object that is not at rest.
type entry struct {
	inc *incarnation // nil while claiming
	// queue holds the events that are not yet taken, oldest first. While the entry is
	// active there is a token in the mailbox for each of them.
	queue []envelope
	bytes int64 // of what is in it
	// claiming: the store was asked for an epoch, and the watchdog has looked so often
	// since.
	looks    uint32
	claiming bool
	state    entryState
}

type entryState uint8

const (
	starting entryState = iota // the epoch is being claimed, or the actor spawned
	active
	passivating // asked to stop; what comes is held back
)

// envelope is an event on its way, with what to do if it never arrives; that need not be
// said of one that is failable.
type envelope struct {
	event any
	fail  func(error)
	size  int64  // of the event, if it is Sized
	at    uint32 // the sweep's tick when it was queued
	own   bool   // it was posted by the incarnation itself, and is for no other
}

// failable is an event that is told itself that it has not arrived.
type failable interface{ undelivered(err error) }

// Sized is an event whose bytes count toward [Options].MaxQueuedBytes.
type Sized interface{ Size() int }

// overloaded says why an object can't take another event, NoCause when it can. Called
// with the shard's lock.
func (h *Host) overloaded(en *entry, size int64) Cause {
	switch o := &h.o; {
	case len(en.queue) == 0:
		return NoCause
	case len(en.queue) >= o.MaxQueued:
		return Overload
	case en.bytes+size > o.MaxQueuedBytes:
		return OverloadedBytes
	case o.MaxQueuedFor > 0 && time.Duration(h.ticks.Load()-en.queue[0].at)*sweepTick >= o.MaxQueuedFor:
		return OverloadedAge
	}
	return NoCause
}

// put adds an event to the queue. Called with the shard's lock.
func (h *Host) put(en *entry, e envelope) {
	e.at = h.ticks.Load()
	en.bytes += e.size
	en.queue = append(en.queue, e)
}

func (d *directory) init() {
	for i := range d.shards {
		d.shards[i].entries = map[storage.ID]*entry{}
	}
}

// shard is where an object is listed. The upper half of the hash is used: the lower
// one decides the isolate.
func (d *directory) shard(id storage.ID) *shard { return &d.shards[fnv(id)>>32%shards] }

// incarnation is the object's current one, nil when there is none.
func (d *directory) incarnation(id storage.ID) *incarnation {
	s := d.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		return e.inc
	}
	return nil
}

// all lists the objects that are not at rest.
func (d *directory) all() iter.Seq[storage.ID] {
	return func(yield func(storage.ID) bool) {
		for i := range d.shards {
			s := &d.shards[i]
			s.mu.Lock()
			ids := make([]storage.ID, 0, len(s.entries))
			for id := range s.entries {
				ids = append(ids, id)
			}
			s.mu.Unlock()
			slices.SortFunc(ids, func(a, b storage.ID) int {
				return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name))
			})
			for _, id := range ids {
				if !yield(id) {
					return
				}
			}
		}
	}
}

func (d *directory) empty() bool {
	for i := range d.shards {
		d.shards[i].mu.Lock()
		n := len(d.shards[i].entries)
		d.shards[i].mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}

// enqueue puts an event into an object's queue, and starts the object if it is
// at rest.
func (h *Host) enqueue(id storage.ID, e envelope) error {
	if sized, ok := e.event.(Sized); ok {
		e.size = int64(sized.Size())
	}
	s := h.dir.shard(id)
	s.mu.Lock()
	en := s.entries[id]
	if en == nil {
		create := h.classes[id.Class]
		if create == nil {
			s.mu.Unlock()
			return h.noClass("send", id)
		}
		// The names may be parts of a request, which they must not keep in memory.
		id = storage.ID{Class: strings.Clone(id.Class), Name: strings.Clone(id.Name)}
		en = &entry{}
		s.entries[id] = en
		h.put(en, e)
		s.mu.Unlock()
		h.claim(id, create)
		return nil
	}
	if cause := h.overloaded(en, e.size); cause != NoCause {
		if _, control := e.event.(Drain); !control {
			s.mu.Unlock()
			return &Error{Op: "send", ID: id, Cause: cause, Hint: "send less, or later; do less in each turn"}
		}
	}
	h.put(en, e)
	if en.state == active {
		en.inc.poke()
	}
	s.mu.Unlock()
	return nil
}

// claim begins the next incarnation of an object whose entry is starting.
func (h *Host) claim(id storage.ID, create func() Machine) {
	s := h.dir.shard(id)
	s.mu.Lock()
	en := s.entries[id]
	en.claiming, en.looks = true, 0
	s.mu.Unlock()
	h.o.Store.Claim(id, func(epoch uint64, fresh bool, err error) {
		s.mu.Lock()
		waits := s.entries[id] == en && en.claiming
		en.claiming, en.looks = false, 0
		s.mu.Unlock()
		switch {
		case !waits: // any more
			if err == nil {
				h.o.Store.Release(id, epoch)
			}
		case err != nil:
			h.abandon(id, &Error{Op: "start", ID: id, Err: err})
		default:
			newIncarnation(h, id, epoch, fresh, create()).spawn()
		}
	})
}

// abandon gives up an entry that could not be started.
func (h *Host) abandon(id storage.ID, err error) {
	defer h.looked()
	s := h.dir.shard(id)
	s.mu.Lock()
	en := s.entries[id]
	if en == nil || en.inc != nil {
		s.mu.Unlock()
		return
	}
	queue := en.queue
	en.claiming = false
	delete(s.entries, id)
	s.mu.Unlock()
	failAll(queue, err)
}

func failAll(queue []envelope, err error) {
	for _, e := range queue {
		if e.fail != nil {
			e.fail(err)
		} else if f, ok := e.event.(failable); ok {
			f.undelivered(err)
		}
	}
}

// activate is called when an incarnation's actor runs: what was held back comes
// first.
func (h *Host) activate(inc *incarnation) {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if en := s.entries[inc.id]; en != nil && en.inc == inc && en.state == starting {
		en.state = active
		for range en.queue {
			inc.poke()
		}
	}
}

// take removes the oldest event of an incarnation's queue.
func (h *Host) take(inc *incarnation) (envelope, bool) {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	en := inc.entry
	if en.inc != inc || len(en.queue) == 0 {
		return envelope{}, false
	}
	e := en.queue[0]
	en.queue[0] = envelope{}
	en.queue = en.queue[1:]
	en.bytes -= e.size
	if len(en.queue) == 0 {
		en.queue = nil
	}
	return e, true
}

// putBack returns an event that was taken by an incarnation that is over to its
// queue: what becomes of that is decided when the incarnation is released, so that
// who is told, and sends again, reaches the next one. False: it has been.
func (h *Host) putBack(inc *incarnation, e envelope) bool {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	en := inc.entry
	if en.inc != inc {
		return false
	}
	en.queue = slices.Insert(en.queue, 0, e)
	en.bytes += e.size
	return true
}

// release takes an incarnation out of the directory. What has been held back
// goes to the next one; with a cause, what its mailbox had been given fails.
func (h *Host) release(inc *incarnation, cause error) {
	defer h.looked()
	s := inc.shard
	s.mu.Lock()
	en := s.entries[inc.id]
	if en == nil || en.inc != inc {
		s.mu.Unlock()
		return
	}
	var lost []envelope
	if cause != nil && en.state != passivating && !inc.torn.Load() {
		lost, en.queue, en.bytes = en.queue, nil, 0
	}
	en.queue = slices.DeleteFunc(en.queue, func(e envelope) bool { return e.own })
	h.o.Store.Release(inc.id, inc.epoch)
	again := len(en.queue) > 0
	if again {
		en.state, en.inc = starting, nil
	} else {
		en.inc = nil
		delete(s.entries, inc.id)
	}
	s.mu.Unlock()
	failAll(lost, cause)
	if again {
		h.claim(inc.id, h.classes[inc.id.Class])
	}
}
