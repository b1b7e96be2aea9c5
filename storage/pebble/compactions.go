package pebble

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactAgain is how long no compaction begins after one has failed.
const compactAgain = time.Second

// compactions tells the engine when it may compact: at once, as many at a time as it asks
// for, and not for a while after a compaction has failed. What the engine has for that by
// itself tries again without a pause: over a damaged table of level 0, hundreds of times a
// second for as long as the process runs.
//
// The engine calls TrySchedule with its locks held; c.mu comes behind these. What may take
// them is called by run alone.
type compactions struct {
	db          pebble.DBForCompaction
	look        chan struct{} // that there may be something to grant
	quit, ended chan struct{}

	mu      sync.Mutex
	running int
	until   time.Time // nothing begins before that
	closed  bool
}

var (
	_ pebble.CompactionScheduler   = (*compactions)(nil)
	_ pebble.CompactionGrantHandle = (*compactions)(nil)
)

func newCompactions() *compactions {
	return &compactions{look: make(chan struct{}, 1)}
}

// failed is told by the engine's listener, which may hold the engine's locks.
func (c *compactions) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(compactAgain)
}

// begin takes room for one compaction, if there is some.
func (c *compactions) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.running >= c.db.GetAllowedWithoutPermission() || time.Now().Before(c.until) {
		return false
	}
	c.running++
	return true
}

func (c *compactions) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

func (c *compactions) poke() {
	select {
	case c.look <- struct{}{}:
	default:
	}
}

// run grants what was refused, once there is room for it again.
func (c *compactions) run() {
	defer close(c.ended)
	// It ends a pause, and what is allowed changes at times without a word.
	tick := time.NewTicker(compactAgain)
	defer tick.Stop()
	for {
		select {
		case <-c.quit:
			return
		case <-c.look:
		case <-tick.C:
		}
		for c.begin() {
			if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.db.Schedule(c) {
				c.end()
				break
			}
		}
	}
}

// Register implements [pebble.CompactionScheduler].
func (c *compactions) Register(_ int, db pebble.DBForCompaction) {
	c.db, c.quit, c.ended = db, make(chan struct{}), make(chan struct{})
	go c.run()
}

// Unregister implements [pebble.CompactionScheduler].
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	close(c.quit)
	<-c.ended
}

// TrySchedule implements [pebble.CompactionScheduler].
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.begin() {
		return false, nil
	}
	return true, c
}

// UpdateGetAllowedWithoutPermission implements [pebble.CompactionScheduler].
func (c *compactions) UpdateGetAllowedWithoutPermission() { c.poke() }

// Done implements [pebble.CompactionGrantHandle].
func (c *compactions) Done() {
	c.end()
	c.poke()
}

// Started, MeasureCPU and CumulativeStats implement [pebble.CompactionGrantHandle], for
// who divides a machine among several stores.
func (c *compactions) Started()                                          {}
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
