package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// openers is how many sessions are being opened at a time.
const openers = 16

// settling is how long a server gets before its memory is read.
const settling = 2 * time.Second

// population is a server and how many sessions it is given.
type population struct {
	*server
	sessions int
}

// memory opens many sessions at each server, in a fresh process in each round, and
// makes a table of what they cost.
func (b *bench) memory(ctx context.Context, all []population) (string, error) {
	type result struct{ before, each, opened []float64 }
	results := make([]result, len(all))
	for round := range b.rounds {
		for i, p := range all {
			if p.skipped != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return "", err
			}
			folder, err := b.folder(fmt.Sprintf("memory-%d-%d", round, i))
			if err != nil {
				return "", err
			}
			before, after, rate, err := p.populate(ctx, folder)
			if err != nil {
				p.skipped = err
				b.say("memory: %s is out: %v", p.name, err)
				continue
			}
			r := &results[i]
			r.before = append(r.before, float64(before)/1e6)
			r.each = append(r.each, float64(after-before)/1e3/float64(p.sessions))
			r.opened = append(r.opened, rate)
			b.say("memory, round %d, %s: %.1f MB, %.1f kB a session, %.0f opened/s", round+1, p.name, r.before[round], r.each[round], rate)
		}
	}
	rows := [][]string{{"server", "sessions", "MB before", "kB a session", "opened/s", "kalpa takes"}}
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
			p.name, grouped(fmt.Sprint(p.sessions)), summarize(r.before).String(), summarize(r.each).String(), summarize(r.opened).String(), times,
		})
	}
	return table(rows) + told(notes), nil
}

// populate starts the server, gives it its sessions, and reads its memory before and
// after.
func (p population) populate(ctx context.Context, folder string) (before, after int64, rate float64, err error) {
	if err := p.start(ctx, folder, startLimit); err != nil {
		return 0, 0, 0, err
	}
	defer p.end()
	time.Sleep(settling)
	if before, err = p.resident(); err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	if err := p.fill(); err != nil {
		return 0, 0, 0, err
	}
	rate = float64(p.sessions) / time.Since(begin).Seconds()
	time.Sleep(settling)
	after, err = p.resident()
	return before, after, rate, err
}

// fill opens the sessions, with one call each. Their connections are closed.
func (p population) fill() error {
	work := make(chan int)
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for w := range openers {
		wg.Go(func() {
			for n := range work {
				c, err := open(p.endpoint)
				if err == nil {
					err = c.call("add", fmt.Sprintf(`{"a":%d,"b":1}`, n), fmt.Sprint(n+1))
					c.close()
				}
				if errs[w] == nil {
					errs[w] = err
				}
			}
		})
	}
	for n := range p.sessions {
		work <- n
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}
