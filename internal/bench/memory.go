package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settling is how long a server gets before its memory is read.
const settling = 2 * time.Second

// population is a server and how many sessions it is given.
type population struct {
	*server
	sessions int
}

// measureMemory opens many sessions at each server, in a fresh process in each round.
func (b *bench) measureMemory(ctx context.Context) error {
	others := peerServers(b.peers)
	all := []population{{b.kalpa.server("kalpa"), b.resident}, {others[0], b.resident}, {others[1], b.agents}}
	type result struct{ before, each []float64 }
	results := make([]result, len(all))
	for round := range b.rounds {
		for i, p := range all {
			if p.skipped != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			folder, err := b.folder(fmt.Sprintf("memory-%d-%d", round, i))
			if err != nil {
				return err
			}
			before, after, err := p.populate(ctx, folder)
			if err != nil {
				p.skipped = err
				b.say("memory: %s is out: %v", p.name, err)
				continue
			}
			r := &results[i]
			r.before = append(r.before, float64(before)/1e6)
			r.each = append(r.each, float64(after-before)/1e3/float64(p.sessions))
			b.say("memory, round %d, %s: %.1f MB, %.1f kB a session", round+1, p.name, r.before[round], r.each[round])
		}
	}
	rows := [][]string{{"server", "sessions", "MB before", "kB a session", "kalpa takes"}}
	var notes []string
	for i, p := range all {
		if p.skipped != nil {
			notes = append(notes, fmt.Sprintf("Not measured: %s: %v.", p.name, p.skipped))
			continue
		}
		r, times := results[i], ""
		if i > 0 {
			times = summarize(ratios(results[0].each, r.each)).String() + " times as much a session"
		}
		rows = append(rows, []string{
			p.name, grouped(fmt.Sprint(p.sessions)), summarize(r.before).String(), summarize(r.each).String(), times,
		})
	}
	return errors.Join(b.publish("memory", "memory", true, table(rows)+told(notes)),
		b.found(targetResident, summarize(ratios(results[0].each, results[1].each))))
}

// populate starts the server, gives it its sessions, with one call each, and reads its
// memory before and after. Their connections are closed by then.
func (p population) populate(ctx context.Context, folder string) (before, after int64, err error) {
	if err := p.start(ctx, folder, startLimit); err != nil {
		return 0, 0, err
	}
	defer p.end()
	time.Sleep(settling)
	if before, err = p.resident(); err != nil {
		return 0, 0, err
	}
	if _, err := inhabit(p.endpoint, p.sessions); err != nil {
		return 0, 0, err
	}
	time.Sleep(settling)
	after, err = p.resident()
	return before, after, err
}

// inhabit opens sessions, with one call each.
func inhabit(endpoint string, n int) (sessions, error) {
	all, _, err := opened(endpoint, n)
	if err == nil {
		_, err = all.each(endpoint, "add", openers)
	}
	return all, err
}
