package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// connections of a load on objects.
	connections = 64
	// spreadOver is how many objects a load is spread over that is not on one.
	spreadOver = 1000
	// atRestObjects is how many objects at rest the target speaks of.
	atRestObjects = 100_000
	// cold is how many objects are activated in each round, one after the other.
	cold = 2000
	// The load on new objects is that of the peers' README: as many connections, for as long.
	newConnections = 32
	newFor         = 5 * time.Second
)

// measureObjects compares objects with those of the peer.
func (b *bench) measureObjects(ctx context.Context) error {
	k, err := b.build(ctx, "./internal/bench/object", "")
	if err != nil {
		return err
	}
	both := func() []*server {
		all := []*server{k.server("kalpa"), durableObjects.server(b.peers)}
		for _, s := range all {
			s.ready = ready
		}
		return all
	}
	var tables []string
	for _, load := range []struct {
		name, what string
		r          requests
		target     target
	}{
		{"noop", "A request that does nothing, to one object:",
			requests{op: "noop", want: "ok", objects: 1, connections: connections}, targetNoop},
		{"noops", "The same, over 1,000 objects in memory, and 64 connections:",
			requests{op: "noop", want: "ok", objects: spreadOver, connections: connections}, targetNoops},
		{"noop-each", "The same, and a connection for each of the 1,000 objects:",
			requests{op: "noop", want: "ok", objects: spreadOver, connections: spreadOver}, targetNoopEach},
		{"count", "A durable increment of one object:",
			requests{op: "incr", objects: 1, connections: connections}, targetCount},
		{"fresh", "The same, over 1,000 objects that are new in each round: 32 connections, for 5 s from the first request on:",
			requests{op: "incr", objects: spreadOver, connections: newConnections, fresh: true}, targetFresh},
		{"few", "The same, over 1,000 objects in memory, and 64 connections:",
			requests{op: "incr", objects: spreadOver, connections: connections}, targetFew},
		{"each", "The same, and a connection for each of the 1,000 objects:",
			requests{op: "incr", objects: spreadOver, connections: spreadOver}, targetEach},
	} {
		r := load.r
		r.prefix, r.warmup, r.d = "o", b.warmup, b.d
		if r.fresh {
			r.warmup, r.d = 0, newFor
		}
		all, rows, err := b.compare(ctx, load.name, "calls/s", both(), r.turn)
		if err != nil {
			return err
		}
		if err := b.found(load.target, all.faster(1)); err != nil {
			return err
		}
		tables = append(tables, load.what+"\n\n"+rows)
	}
	rest, err := b.atRest(ctx, both())
	if err != nil {
		return err
	}
	return b.publish("objects", "objects", true, strings.Join(append(tables, rest), "\n"))
}

// turn drives the load at a server: at objects that there were not before, or when every
// object is in memory.
func (r requests) turn(s *server, round int) (sample, error) {
	if r.fresh {
		r.prefix = fmt.Sprintf("%s%d-", r.prefix, round)
		return r.load().run(s.endpoint)
	}
	all := r
	all.once = true
	if _, err := all.load().all(s.endpoint); err != nil {
		return sample{}, err
	}
	return r.load().run(s.endpoint)
}

// ready: a server of objects answers.
func ready(endpoint string) error {
	_, err := requests{op: "noop", want: "ok", connections: 1, objects: 1, prefix: "ready", once: true}.load().all(endpoint)
	return err
}

// atRest measures what objects take that rest in memory, and how long one takes that
// has to be brought there.
func (b *bench) atRest(ctx context.Context, servers []*server) (string, error) {
	type result struct{ before, after, each, first, again []float64 }
	results := make([]result, len(servers))
	counts := []int{b.objects, b.foreign}
	for round := range b.rounds {
		for i, s := range servers {
			if s.skipped != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return "", err
			}
			folder, err := b.folder(fmt.Sprintf("objects-%d-%d", round, i))
			if err != nil {
				return "", err
			}
			before, after, err := b.reside(ctx, s, folder, counts[i])
			var first, again float64
			if err == nil && i == 0 {
				first, again, err = b.activate(ctx, s, fmt.Sprintf("objects-cold-%d", round))
			}
			if err != nil {
				s.skipped = err
				b.say("objects at rest: %s is out: %v", s.name, err)
				continue
			}
			r := &results[i]
			r.before = append(r.before, before/1e6)
			r.after = append(r.after, after/1e6)
			r.each = append(r.each, (after-before)/float64(counts[i]))
			r.first = append(r.first, first)
			r.again = append(r.again, again)
			b.say("objects at rest, round %d, %s: %.1f MB, %.1f MB with %d objects, %.0f B each; first request %.3f ms, second %.3f ms", round+1, s.name, before/1e6, after/1e6, counts[i], r.each[round], first, again)
		}
	}
	rows := [][]string{{"server", "objects in memory", "MB before", "MB with them", "bytes each", "kalpa takes", "first request of an object with 1 KiB of state, ms, median of " + grouped(fmt.Sprint(cold)), "the second"}}
	var notes []string
	for i, s := range servers {
		if s.skipped != nil {
			notes = append(notes, fmt.Sprintf("Not measured: %s: %v.", s.name, s.skipped))
			continue
		}
		r, times, first, again := results[i], "", summarize(results[i].first).String(), summarize(results[i].again).String()
		if i > 0 {
			times, first, again = summarize(ratios(results[0].each, r.each)).String()+" times as much", "", ""
		}
		rows = append(rows, []string{s.name, grouped(fmt.Sprint(counts[i])), summarize(r.before).String(), summarize(r.after).String(), summarize(r.each).String(), times, first, again})
	}
	text := "Objects at rest:\n\n" + table(rows) + told(notes)
	if counts[0] < atRestObjects {
		return text, nil // the target is about as many
	}
	return text, b.found(targetObject, summarize(results[0].each), summarize(results[0].after))
}

// reside activates objects, and reads the server's memory before and after. Each must
// still be in memory then: it goes on counting.
func (b *bench) reside(ctx context.Context, s *server, folder string, objects int) (before, after float64, err error) {
	if err := s.start(ctx, folder, startLimit); err != nil {
		return 0, 0, err
	}
	defer s.end()
	r := requests{op: "mem", connections: connections, objects: objects, prefix: "m", once: true}
	time.Sleep(settling)
	was, err := s.resident()
	if err != nil {
		return 0, 0, err
	}
	if _, err := r.load().all(s.endpoint); err != nil {
		return 0, 0, err
	}
	time.Sleep(settling)
	is, err := s.resident()
	if err != nil {
		return 0, 0, err
	}
	r.counted = 1
	if _, err := r.load().all(s.endpoint); err != nil {
		return 0, 0, fmt.Errorf("some objects are not in memory any more: %w", err)
	}
	return float64(was), float64(is), nil
}

// activate is how long the first request of an object takes whose state is on disk, and the
// second, in milliseconds: at a server that has been killed and started again.
func (b *bench) activate(ctx context.Context, s *server, name string) (first, again float64, err error) {
	folder, err := b.folder(name)
	if err != nil {
		return 0, 0, err
	}
	fill := requests{op: "fill", want: "filled", connections: connections, objects: cold, prefix: "c", once: true}
	read := requests{op: "load", want: "1024", connections: 1, objects: cold, prefix: "c", once: true}
	if err = s.start(ctx, folder, startLimit); err == nil {
		_, err = fill.load().all(s.endpoint)
		s.end()
	}
	if err == nil {
		err = s.start(ctx, folder, startLimit)
	}
	if err != nil {
		return 0, 0, err
	}
	defer s.end()
	for _, took := range []*float64{&first, &again} {
		sample, err := read.load().all(s.endpoint)
		if err != nil {
			return 0, 0, err
		}
		*took = milliseconds(percentile(sample.took, 0.5))
	}
	return first, again, nil
}
