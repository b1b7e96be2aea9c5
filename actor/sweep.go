package actor

import (
	"cmp"
	"slices"
	"time"
)

// The sweep looks for objects and goroutines that rest, and for what takes too long: one
// timer for all, which visits a part of the directory at each tick and so everything once a
// second.
const (
	sweepTick  = 100 * time.Millisecond
	sweepParts = 10
)

func (h *Host) armSweep() {
	h.sweeping.Lock()
	defer h.sweeping.Unlock()
	if h.sweeping.stopped {
		return
	}
	h.sweeping.timer = h.o.Clock.AfterFunc(sweepTick, func() {
		h.sweeping.Lock()
		from := h.sweeping.next
		h.sweeping.next = (from + 1) % sweepParts
		h.sweeping.Unlock()
		h.ticks.Add(1)
		before := h.o.Clock.Now().Add(-h.o.EvictAfter)
		for i := from; i < shards; i += sweepParts {
			h.watch(&h.dir.shards[i])
			if h.o.EvictAfter >= 0 {
				h.sweepShard(&h.dir.shards[i], before)
			}
		}
		if from == 0 {
			h.pool.Trim()
			for _, i := range h.isolates {
				i.relieve() // of what has come to rest since
			}
		}
		h.armSweep()
	})
}

// sweepAll asks every object to rest that can.
func (h *Host) sweepAll() {
	now := h.o.Clock.Now().Add(time.Hour)
	for i := range h.dir.shards {
		h.sweepShard(&h.dir.shards[i], now)
	}
}

func (h *Host) sweepShard(s *shard, before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var resting []*entry
	for _, en := range s.entries {
		if en.state == active && len(en.queue) == 0 && !en.inc.atWork() && !en.inc.stayed() && en.inc.restsSince().Before(before) {
			resting = append(resting, en)
		}
	}
	slices.SortFunc(resting, func(a, b *entry) int { return cmp.Compare(a.inc.epoch, b.inc.epoch) })
	for _, en := range resting {
		en.state = passivating
		h.sys.Root.Send(en.inc.pid, evict{})
	}
}

// stayed reports that the machine was asked whether it is idle after its last turn, and
// said no. Called with the shard's lock.
func (inc *incarnation) stayed() bool { return inc.stays == inc.turns.Load() }

// atWork reports that a turn or a critical section is going on.
func (inc *incarnation) atWork() bool { return inc.turns.Load()%2 == 1 || inc.criticals.Load()%2 == 1 }
