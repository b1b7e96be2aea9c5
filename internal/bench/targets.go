package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// A target is what kalpa should reach: a row of the page's first table. Whether it is
// met is computed from the medians, by this program.
type target struct {
	work, against, least string // as the table has them; the first two name it
	part                 string // that measures it
	bounds               []bound
}

// bound is what a figure of a target keeps to.
type bound struct {
	figure string // what is measured, as %s of a text
	limit  float64
	most   bool // the limit is the most that it may be, and not the least
	length bool // it is how long was measured: a shorter time shows less, and is no failure
}

func atLeast(limit float64, figure string) bound { return bound{figure: figure, limit: limit} }
func atMost(limit float64, figure string) bound {
	return bound{figure: figure, limit: limit, most: true}
}

// asFast is a target that is so many times as fast as something else.
func asFast(work, against string, times float64, part string) target {
	return target{work, against, fmt.Sprintf("%gx", times), part, []bound{atLeast(times, "%s times as fast")}}
}

// missed is by what factor a value misses the bound; 1 or less: it does not.
func (b bound) missed(v float64) float64 {
	if b.most {
		return v / b.limit
	}
	return b.limit / v
}

const (
	workerdSessions = "McpAgent on workerd"
	sdkSessions     = "Go SDK, in memory"
	workerdObjects  = "Durable Objects on workerd"
)

var (
	targetAdd      = asFast("tools/call add, 32 sessions, durable", workerdSessions, 12, "calls")
	targetSDK      = asFast("the same", sdkSessions, 1.5, "calls")
	targetMany     = target{"the same with 1,000 sessions", sdkSessions, "1.5x, p99 no worse", "calls", []bound{atLeast(1.5, "%s times as fast"), atMost(1, "p99 %s times as long")}}
	targetIncr     = asFast("tools/call incr, which counts durably, 32 sessions", workerdSessions, 12, "calls")
	targetOpen     = asFast("opening sessions", sdkSessions, 1, "opening")
	targetResident = target{"memory of a resident session", sdkSessions, "no more", "memory", []bound{atMost(1, "%s times as much")}}
	targetIdle     = target{"memory of an idle session, of 1,000,000", "", "under 300 bytes, under 600 MB in all", "start", []bound{atMost(300, "%s bytes"), atMost(600, "%s MB in all")}}
	targetDisk     = target{"disk of an idle session, after compaction", "", "under 1 KiB", "start", []bound{atMost(1024, "%s bytes")}}
	targetWake     = target{"waking an idle session: its first call", "its warm call", "under 2 ms p50 more", "wake", []bound{atMost(2, "%s ms more")}}
	targetStart    = target{"start to ready with 1,000,000 sessions stored", "", "under 2 s", "start", []bound{atMost(2000, "%s ms")}}
	targetLasting  = target{"throughput after 1 h of mixed load with churn", "a host's first minute, in turn", "0.95x, memory flat", "lasting", []bound{atLeast(0.95, "%s times as fast"), atMost(1.1, "%s times the memory"), {figure: "after %s min", limit: 60, length: true}}}
	targetReplay   = target{"SSE replay of 1,000 events", "", "50 MB/s", "replay", []bound{atLeast(50, "%s MB/s")}}
	targetStdio    = asFast("stdio runtime, echo server", "the same child, driven over its pipes", 0.7, "stdio")

	targetNoop     = asFast("a request of an object that does nothing", workerdObjects, 6, "objects")
	targetNoops    = asFast("the same, over 1,000 objects, 64 connections", workerdObjects, 6, "objects")
	targetNoopEach = asFast("the same, over 1,000 objects, a connection for each", workerdObjects, 6, "objects")
	targetCount    = asFast("a durable increment of one object", workerdObjects, 4, "objects")
	targetFresh    = asFast("the same, over 1,000 new objects, 32 connections", workerdObjects, 20, "objects")
	targetFew      = asFast("the same, over 1,000 objects in memory, 64 connections", workerdObjects, 20, "objects")
	targetEach     = asFast("the same, over 1,000 objects in memory, a connection for each", workerdObjects, 20, "objects")
	targetObject   = target{"memory of a small object at rest, of 100,000", "", "under 1.5 kB, under 200 MB in all", "objects", []bound{atMost(1500, "%s bytes"), atMost(200, "%s MB in all")}}
	targetActivate = target{"activation of an object with 1 KiB of state on disk, inside the host", "", "under 150 µs p50", "inside", []bound{atMost(150, "%s µs")}}
	targetTurn     = target{"a turn without storage, inside the host", "", "under 1 µs", "inside", []bound{atMost(1, "%s µs")}}
)

// targets are in the order of the table.
var targets = []target{
	targetAdd, targetSDK, targetMany, targetIncr, targetOpen, targetResident, targetIdle, targetDisk, targetWake, targetStart,
	targetLasting, targetReplay, targetStdio,
	targetNoop, targetNoops, targetNoopEach, targetCount, targetFresh, targetFew, targetEach, targetObject, targetActivate, targetTurn,
}

// row is the target's, with what was found for each of its bounds.
func (t target) row(found []spread, command string) []string {
	var figures []string
	worst, met := 0.0, "met"
	for i, b := range t.bounds {
		figures = append(figures, fmt.Sprintf(b.figure, found[i]))
		switch missed := b.missed(found[i].median); {
		case !b.length:
			worst = max(worst, missed)
		case missed > 1:
			met = "met so far"
		}
	}
	switch {
	case math.IsNaN(worst):
		met = "not measured"
	case worst > 1:
		met = fmt.Sprintf("**not met**, by a factor of %s", digits(worst))
	}
	return []string{t.work, t.against, t.least, strings.Join(figures, "; "), met, "`" + command + "`"}
}

var targetsHead = []string{"work", "against", "at least", "measured", "", "command"}

// found notes what was measured for a target, and puts it into the page's table. Rows
// of other targets stay as they were.
func (b *bench) found(t target, found ...spread) error {
	row := t.row(found, b.command(t.part, slices.ContainsFunc(allPeers, func(p peer) bool { return p.name == t.against })))
	b.say("%s: %s: %s", t.work, row[3], row[4])
	if b.out == "-" {
		return b.write("targets", table([][]string{targetsHead, row}))
	}
	page, err := os.ReadFile(b.out)
	if err != nil {
		return err
	}
	rows := [][]string{targetsHead}
	for _, other := range targets {
		switch kept := rowOf(string(page), other); {
		case other.work == t.work && other.against == t.against:
			rows = append(rows, row)
		case kept != nil:
			rows = append(rows, kept)
		default:
			rows = append(rows, []string{other.work, other.against, other.least, "-", "not measured", "`" + b.command(other.part, false) + "`"})
		}
	}
	return b.write("targets", table(rows))
}

// rowOf finds a target's row in the page; nil if there is none.
func rowOf(page string, t target) []string {
	start := fmt.Sprintf("| %s | %s | ", t.work, t.against)
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, start) {
			if cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | "); len(cells) == len(targetsHead) {
				return cells
			}
		}
	}
	return nil
}
