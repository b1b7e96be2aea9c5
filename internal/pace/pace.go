// Package pace sets the pace of the garbage collector, for a host whose heap is small
// under a high load, grows, or is large and at rest.
//
// Go collects when the heap has doubled, whatever it is. A host with a live heap of ten
// MB that serves tens of thousands of requests a second does so many times a second, and
// [Floor] lets it take that much before it does. Where much of what is allocated stays, as
// when sessions are opened, garbage lies between it, and its places are too small to be
// given back: there is less of them where collections are closer, and [Growing] is what
// may come up then. And what a burst has left behind stays with the process for minutes,
// while nothing needs it: at rest it is given back, once, and what is evicted later when
// that is over.
//
// The pages of a heap that grows are huge ones, where the system gives them to who asks: see
// room.
//
// Who sets GOGC or GOMEMLIMIT has decided, and is left alone.
package pace

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// Floor is what may come up in garbage before a collection while a load goes on that
	// leaves nothing behind, in bytes; Growing is the same at all other times.
	Floor   = 32 << 20
	Growing = 8 << 20
	// usual is GOGC where that is less than what is live. While a small heap grows it is
	// less, since garbage becomes holes then. In a large one, of many small things that
	// stay, a collection costs more than the holes are worth, and more than by Go's 100.
	usual   = 130
	growing = 70
	// small is what is live in a small heap, in bytes, at most.
	small = 20 << 20
	// evicted is what an object that was evicted had in memory, in bytes, at the least:
	// docs/benchmarks.md has 1,300 for the smallest.
	evicted = 1 << 10
	// staying is the part of what is allocated, one in so many, that stays where the heap
	// grows.
	staying = 16
	// worth is the part of what is live, one in so many, that is worth to be given back:
	// that costs a collection. It is never less than leastWorth nor more than mostWorth, in
	// bytes.
	worth = 8
	// worthAtEnd is the same for what was evicted, once evictions have come to an end: once
	// there are few in a look, one in so many of those that there were.
	worthAtEnd = 64
	leastWorth = 2 << 20
	mostWorth  = 16 << 20
	// resting is what a host allocates in a look's time at rest, in bytes: sweeps, health
	// checks.
	resting = 1 << 20

	every = 300 * time.Millisecond
)

// reading is what is looked at, in bytes.
type reading struct {
	allocated uint64 // since the process began
	live      uint64 // what the last collection has left
	held      uint64 // what is live, garbage, or free and not given back
	evicted   uint64 // objects, since the process began
}

// pacer decides. It keeps what it has seen at the last look.
type pacer struct {
	last      reading
	collected reading // the first after the last collection
	most      uint64  // that was live since the last rest, in bytes
	percent   int     // GOGC as it is
	steady    bool    // a load goes on that leaves nothing behind
	quiet     bool    // nothing was going on before the last look
	rests     bool    // nor before the one before that: a pause is no rest
	given     bool    // back, since something was going on
}

// look decides what GOGC should be, and whether to give back what is not in use.
func (p *pacer) look(now reading) (percent int, giveBack bool) {
	quiet := now.allocated-p.last.allocated < resting
	p.rests = quiet && p.quiet
	// What was evicted counts as live until the next collection.
	left := min((now.evicted-p.collected.evicted)*evicted, now.live)
	if !quiet || left > leastWorth {
		p.given = false
	}
	if now.live != p.collected.live {
		p.steady = now.live < p.most+(now.allocated-p.collected.allocated)/staying
		p.collected, p.most, left = now, max(now.live, p.most), 0
	}
	if p.rests {
		p.most, p.steady = now.live, false
	}
	percent = p.percent
	if want := gogc(now.live, p.steady); want == usual || want*4 < percent*3 || want*3 > percent*4 { // a change stops the world
		percent = want
	}
	enough := now.held > now.live+min(max(now.live/worth, leastWorth), mostWorth)
	over := (now.evicted-p.last.evicted)*evicted < left/worthAtEnd && left > max(now.live/worthAtEnd, leastWorth)
	if giveBack = p.rests && !p.given && (enough || over); giveBack {
		p.given, p.collected.evicted = true, now.evicted
	}
	p.last, p.percent, p.quiet = now, percent, quiet
	return percent, giveBack
}

// gogc has the heap grow by a floor, or by a part of it if that is more.
func gogc(live uint64, steady bool) int {
	floor, least := uint64(Growing), uint64(usual)
	if steady {
		floor = Floor
	} else if live <= small {
		least = growing
	}
	return int(max(least, floor*100/max(live, 4<<20))) //nolint:gosec // at most 800
}

// begin is a pacer that has seen how things are, with GOGC as it is.
func begin(percent int, now reading) pacer {
	return pacer{percent: percent, last: now, collected: reading{allocated: now.allocated, evicted: now.evicted}}
}

// Start paces the collector until stop is called, which waits for the end and puts
// things back as they were. evictions is how many objects have been evicted so far;
// memory is what the process may have in all, in bytes, 0 for not known.
func Start(evictions func() int64, memory int64) (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := gogc(0, false)
		was := debug.SetGCPercent(first)
		defer debug.SetGCPercent(was)
		room := makeRoom(memory)
		defer room.advise(false)
		p := begin(first, read(evictions)) // the room was allocated as well
		look := time.NewTicker(every)
		defer look.Stop()
		for {
			select {
			case <-ending:
				return
			case <-look.C:
			}
			before := p.percent
			percent, giveBack := p.look(read(evictions))
			if percent != before {
				debug.SetGCPercent(percent)
			}
			room.advise(!p.rests)
			if giveBack {
				debug.FreeOSMemory()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ending)
		<-ended
	})
}

func read(evictions func() int64) reading {
	all := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(all)
	return reading{
		allocated: all[0].Value.Uint64(), live: all[1].Value.Uint64(),
		held: all[2].Value.Uint64() + all[3].Value.Uint64(), evicted: uint64(evictions()), //nolint:gosec // a count
	}
}
