// Package crowd fills a store with sessions, for tests and measurements of hosts that have
// very many: it copies what one real session has left, under new ids.
//
// The store must not be open in a host.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// Model is what a session at rest has in storage.
type Model struct {
	Rows  []storage.Entry
	Alarm storage.Alarm
}

// writers is how many sessions are being written at a time: their commits share groups.
const writers = 256

// Take reads a session of the store in dir.
func Take(ctx context.Context, dir, id string) (m Model, err error) {
	err = open(dir, func(s *pebble.Store) error {
		object := session.ObjectOf(id)
		for e, err := range s.List(ctx, object, storage.Range{}) {
			if err != nil {
				return err
			}
			m.Rows = append(m.Rows, e)
		}
		if len(m.Rows) == 0 {
			return fmt.Errorf("the store has no rows of session %s", id)
		}
		m.Alarm, err = s.Alarm(ctx, object)
		return err
	})
	return m, err
}

// Fill writes n sessions like the model into the store in dir, compacts it, and returns
// their ids, in no order. Their alarms are a millisecond apart, as those of sessions that
// were not used at the same moment are.
func Fill(ctx context.Context, dir string, m Model, n int) ([]string, error) {
	ids := make([]string, n)
	err := open(dir, func(s *pebble.Store) error {
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := w; i < n && errs[w] == nil; i += writers {
					ids[i] = session.NewID(time.UnixMilli(int64(i)))
					errs[w] = m.put(ctx, s, ids[i], time.Duration(i)*time.Millisecond)
				}
			})
		}
		wg.Wait()
		return errors.Join(append(errs, s.Compact(ctx))...)
	})
	return ids, err
}

// put writes one session as an incarnation of it would.
func (m Model) put(ctx context.Context, s storage.Store, name string, later time.Duration) error {
	id := session.ObjectOf(name)
	epoch, err := storage.Claim(ctx, s, id)
	if err != nil {
		return err
	}
	defer s.Release(id, epoch)
	batch := &storage.Batch{ID: id, Epoch: epoch, Puts: m.Rows}
	if !m.Alarm.At.IsZero() {
		batch.Alarm = &storage.Alarm{At: m.Alarm.At.Add(later)}
	}
	return storage.Commit(ctx, s, batch)
}

func open(dir string, use func(*pebble.Store) error) error {
	s, err := pebble.Open(pebble.Options{Dir: dir, Durability: storage.Relaxed, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}
