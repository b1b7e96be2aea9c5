package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/internal/crowd"
)

const (
	// woken is how many stored sessions are called after each start.
	woken = 20
	// counted is how often the model session has counted.
	counted = 1
	// million is how many sessions the targets speak of.
	million = 1_000_000
)

// unbounded lets a host have as many sessions as there are.
var unbounded = []string{"--max-sessions", "0"}

// measureStart measures starts on a store with many sessions, beside an empty one, and
// what those sessions take.
func (b *bench) measureStart(ctx context.Context) error {
	full, err := b.folder("start")
	if err != nil {
		return err
	}
	model, err := b.model(ctx, full)
	if err != nil {
		return fmt.Errorf("the model session: %w", err)
	}
	b.say("start: the %d rows of a session are written for %d more", len(model.Rows), b.stored)
	begin := time.Now()
	ids, err := crowd.Fill(ctx, filepath.Join(full, "data"), model, b.stored)
	if err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	b.say("start: written in %v", time.Since(begin).Round(time.Second))
	// The first start takes away what the writing left: old logs and tables.
	if _, err := b.boot(ctx, full, ids[:woken]); err != nil {
		return err
	}
	disk, err := allocated(filepath.Join(full, "data"))
	if err != nil {
		return err
	}
	each := float64(disk) / float64(len(ids))

	var fullBoots, emptyBoots boots
	for round := range b.rounds {
		from := woken * (round + 1)
		one, err := b.boot(ctx, full, ids[from:from+woken])
		if err != nil {
			return err
		}
		fullBoots.add(one)
		folder, err := b.folder(fmt.Sprintf("start-empty-%d", round))
		if err != nil {
			return err
		}
		// The second start: the first one makes the store.
		if _, err := b.boot(ctx, folder, nil); err != nil {
			return err
		}
		empty, err := b.boot(ctx, folder, nil)
		if err != nil {
			return err
		}
		emptyBoots.add(empty)
		b.say("start, round %d: listening after %.0f ms, ready after %.0f ms, %.0f MB; empty: %.0f, %.0f, %.0f",
			round+1, one.listening, one.ready, one.memory, empty.listening, empty.ready, empty.memory)
	}
	passed := ids[woken*(b.rounds+1):]
	passed = passed[:min(b.passed, len(passed))]
	after, err := b.pass(ctx, full, passed)
	if err != nil {
		return err
	}
	idle := (after - summarize(emptyBoots.memory).median) * 1e6 / float64(len(ids))
	b.say("start: %.0f MB after %d of them were resident and are not any more; %.0f bytes each on disk", after, len(passed), each)
	number := grouped(fmt.Sprint(len(ids)))
	text := table([][]string{
		{"", number + " sessions", "empty store"},
		{"process start to the line that it listens, ms", summarize(fullBoots.listening).String(), summarize(emptyBoots.listening).String()},
		{"process start to the first initialize answered, ms", summarize(fullBoots.ready).String(), summarize(emptyBoots.ready).String()},
		{"first call of a stored session, ms, median of " + fmt.Sprint(woken), summarize(fullBoots.wake).String(), ""},
		{"resident memory after that, MB", summarize(fullBoots.memory).String(), summarize(emptyBoots.memory).String()},
		{fmt.Sprintf("resident memory after %s of them were called, and were evicted again, MB", grouped(fmt.Sprint(len(passed)))), digits(after), ""},
		{"what that is more than the host of the empty store has, for each stored session, bytes", digits(idle), ""},
		{"on disk after compaction, bytes a session", digits(each), ""},
	})
	err = b.publish("start", "start", false, text)
	if err != nil || len(ids) < million {
		return err // the targets are about a million
	}
	one := func(v float64) spread { return summarize([]float64{v}) }
	return errors.Join(b.found(targetIdle, one(idle), one(after)), b.found(targetDisk, one(each)), b.found(targetStart, summarize(fullBoots.ready)))
}

// boot is one start: times in milliseconds, memory in megabytes.
type boot struct{ listening, ready, wake, memory float64 }

type boots struct{ listening, ready, wake, memory []float64 }

func (all *boots) add(one boot) {
	all.listening = append(all.listening, one.listening)
	all.ready = append(all.ready, one.ready)
	all.wake = append(all.wake, one.wake)
	all.memory = append(all.memory, one.memory)
}

// boot starts a host on a folder and ends it with kill -9. Each of the stored
// sessions must go on counting where its model was.
func (b *bench) boot(ctx context.Context, folder string, stored []string) (one boot, err error) {
	if err := ctx.Err(); err != nil {
		return one, err
	}
	begin := time.Now()
	p, endpoint, took, err := b.kalpa.serve(folder, unbounded...)
	if err != nil {
		return one, err
	}
	defer p.stop()
	c, err := newClient(endpoint)
	if err != nil {
		return one, err
	}
	err = c.initialize()
	one.listening, one.ready = milliseconds(took), milliseconds(time.Since(begin))
	c.close()
	if err != nil {
		return one, err
	}
	var wakes []time.Duration
	for _, id := range stored {
		if c, err = resume(endpoint, id); err != nil {
			return one, err
		}
		asked := time.Now()
		if err := c.call("incr", "{}", fmt.Sprint(counted+1)); err != nil {
			return one, fmt.Errorf("a stored session: %w", err)
		}
		wakes = append(wakes, time.Since(asked))
		c.close()
	}
	slices.Sort(wakes)
	one.wake = milliseconds(percentile(wakes, 0.5))
	time.Sleep(settling)
	memory, err := p.resident()
	if err != nil {
		return one, err
	}
	one.memory = float64(memory) / 1e6
	return one, nil
}

// pass calls stored sessions, waits until all of them have been evicted again, and
// returns the host's memory, in megabytes.
func (b *bench) pass(ctx context.Context, folder string, ids []string) (float64, error) {
	s := b.kalpa.watched().server("kalpa", append(slices.Clone(unbounded), briefly...)...)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return 0, err
	}
	defer s.end()
	if _, err := stored(ids).each(s.endpoint, "add", openers); err != nil {
		return 0, fmt.Errorf("calling stored sessions: %w", err)
	}
	if err := s.quiet(ctx); err != nil {
		return 0, err
	}
	time.Sleep(settling)
	memory, err := s.resident()
	return float64(memory) / 1e6, err
}

// model opens one session as a client does, waits until it is idle, and returns what is
// left of it.
func (b *bench) model(ctx context.Context, folder string) (none crowd.Model, err error) {
	host := b.kalpa.watched().server("kalpa", briefly...)
	if err := host.start(ctx, folder, startLimit); err != nil {
		return none, err
	}
	defer host.end()
	c, err := open(host.endpoint)
	if err != nil {
		return none, err
	}
	defer c.close()
	for n := range counted {
		if err := c.call("incr", "{}", fmt.Sprint(n+1)); err != nil {
			return none, err
		}
	}
	if err := host.quiet(ctx); err != nil {
		return none, err
	}
	if err := host.terminate(20 * time.Second); err != nil {
		return none, err
	}
	return crowd.Take(ctx, filepath.Join(folder, "data"), c.session)
}
