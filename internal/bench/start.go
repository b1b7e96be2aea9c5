package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

const (
	// woken is how many stored sessions are called after each start.
	woken = 20
	// writers is how many objects are being written at a time.
	writers = 256
	// counted is how often the model session has counted.
	counted = 1
)

// start measures starts on a store with many sessions, beside an empty one.
func (b *bench) start(ctx context.Context, k kalpa) (string, error) {
	full, err := b.folder("start")
	if err != nil {
		return "", err
	}
	b.say("start: a session is opened, and left alone for %v", b.settle)
	rows, alarm, err := b.model(ctx, k, full)
	if err != nil {
		return "", fmt.Errorf("the model session: %w", err)
	}
	b.say("start: its %d rows are written for %d more", len(rows), b.stored)
	begin := time.Now()
	ids, err := copies(ctx, full, rows, alarm, b.stored)
	if err != nil {
		return "", fmt.Errorf("writing the store: %w", err)
	}
	b.say("start: written in %v", time.Since(begin).Round(time.Second))

	first, err := b.boot(ctx, k, full, ids[:woken])
	if err != nil {
		return "", err
	}
	var fullBoots, emptyBoots boots
	fullBoots.disk = append(fullBoots.disk, first.disk)
	for round := range b.rounds {
		from := woken * (round + 1)
		one, err := b.boot(ctx, k, full, ids[from:from+woken])
		if err != nil {
			return "", err
		}
		fullBoots.add(one)
		folder, err := b.folder(fmt.Sprintf("start-empty-%d", round))
		if err != nil {
			return "", err
		}
		// The second start: the first one makes the store.
		if _, err := b.boot(ctx, k, folder, nil); err != nil {
			return "", err
		}
		empty, err := b.boot(ctx, k, folder, nil)
		if err != nil {
			return "", err
		}
		emptyBoots.add(empty)
		b.say("start, round %d: listening after %.0f ms, ready after %.0f ms, %.0f MB; empty: %.0f, %.0f, %.0f",
			round+1, one.listening, one.ready, one.memory, empty.listening, empty.ready, empty.memory)
	}
	sessions := grouped(fmt.Sprint(len(ids))) + " sessions"
	perSession := func(mb []float64) string {
		var bytes []float64
		for _, v := range mb {
			bytes = append(bytes, v*1e6/float64(len(ids)))
		}
		return summarize(bytes).String()
	}
	return table([][]string{
		{"", sessions, "empty store", "first start after the " + sessions + " were written"},
		{"process start to the line that it listens, ms", summarize(fullBoots.listening).String(), summarize(emptyBoots.listening).String(), digits(first.listening)},
		{"process start to the first initialize answered, ms", summarize(fullBoots.ready).String(), summarize(emptyBoots.ready).String(), digits(first.ready)},
		{"first call of a stored session, ms, median of " + fmt.Sprint(woken), summarize(fullBoots.wake).String(), "", digits(first.wake)},
		{"resident memory after that, MB", summarize(fullBoots.memory).String(), summarize(emptyBoots.memory).String(), digits(first.memory)},
		{"on disk, bytes a session", perSession(fullBoots.disk), "", perSession([]float64{first.diskBefore})},
	}), nil
}

// boot is one start: times in milliseconds, sizes in megabytes.
type boot struct{ listening, ready, wake, memory, diskBefore, disk float64 }

type boots struct{ listening, ready, wake, memory, disk []float64 }

func (all *boots) add(one boot) {
	all.listening = append(all.listening, one.listening)
	all.ready = append(all.ready, one.ready)
	all.wake = append(all.wake, one.wake)
	all.memory = append(all.memory, one.memory)
	all.disk = append(all.disk, one.disk)
}

// boot starts a host on a folder and ends it with kill -9. Each of the stored
// sessions must go on counting where its model was.
func (b *bench) boot(ctx context.Context, k kalpa, folder string, stored []string) (one boot, err error) {
	if err := ctx.Err(); err != nil {
		return one, err
	}
	data := filepath.Join(folder, "data")
	if len(stored) > 0 {
		if one.diskBefore, err = megabytes(data); err != nil {
			return one, err
		}
	}
	begin := time.Now()
	p, endpoint, took, err := k.serve(folder)
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
		if c, err = newClient(endpoint); err != nil {
			return one, err
		}
		c.session = id
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
	one.disk, err = megabytes(data)
	return one, err
}

func megabytes(folder string) (float64, error) {
	n, err := allocated(folder)
	return float64(n) / 1e6, err
}

// model opens one session as a client does, waits until its runtime has been
// reclaimed and what it need not keep is gone, and returns what is left of it.
func (b *bench) model(ctx context.Context, k kalpa, folder string) (rows []storage.Entry, alarm storage.Alarm, err error) {
	p, endpoint, _, err := k.serve(folder, "--idle-timeout", "1s")
	if err != nil {
		return nil, alarm, err
	}
	defer p.stop()
	c, err := open(endpoint)
	if err != nil {
		return nil, alarm, err
	}
	defer c.close()
	for n := range counted {
		if err := c.call("incr", "{}", fmt.Sprint(n+1)); err != nil {
			return nil, alarm, err
		}
	}
	select {
	case <-time.After(b.settle):
	case <-ctx.Done():
		return nil, alarm, ctx.Err()
	}
	if err := p.terminate(20 * time.Second); err != nil {
		return nil, alarm, err
	}
	err = store(folder, func(s *pebble.Store) error {
		id := storage.ID{Class: session.Class, Name: c.session}
		for e, err := range s.List(ctx, id, storage.Range{}) {
			if err != nil {
				return err
			}
			rows = append(rows, e)
		}
		if len(rows) == 0 {
			return errors.New("the store has no rows of it")
		}
		alarm, err = s.Alarm(ctx, id)
		return err
	})
	return rows, alarm, err
}

// copies writes the rows of one session under n new ids.
func copies(ctx context.Context, folder string, rows []storage.Entry, alarm storage.Alarm, n int) ([]string, error) {
	ids := make([]string, n)
	err := store(folder, func(s *pebble.Store) error {
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := w; i < n && errs[w] == nil; i += writers {
					ids[i] = session.NewID()
					errs[w] = put(ctx, s, storage.ID{Class: session.Class, Name: ids[i]}, rows, alarm, i)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	return ids, err
}

// put writes one object as an incarnation of it would. Alarms are spread, as those
// of sessions that were not used at the same moment are.
func put(ctx context.Context, s storage.Store, id storage.ID, rows []storage.Entry, alarm storage.Alarm, n int) error {
	epoch, err := storage.Claim(ctx, s, id)
	if err != nil {
		return err
	}
	defer s.Release(id, epoch)
	batch := &storage.Batch{ID: id, Epoch: epoch, Puts: rows}
	if !alarm.At.IsZero() {
		batch.Alarm = &storage.Alarm{At: alarm.At.Add(time.Duration(n) * time.Millisecond)}
	}
	return storage.Commit(ctx, s, batch)
}

// store opens the store that a host has left behind.
func store(folder string, use func(*pebble.Store) error) error {
	s, err := pebble.Open(pebble.Options{
		Dir: filepath.Join(folder, "data"), Durability: storage.Relaxed, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}
