package pebble

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
)

// pending counts the alarms that were there when the store was opened, beside
// everything else: opening does not wait for it.
type pending struct {
	cancel  context.CancelFunc
	counted chan struct{}
	found   int64
	err     error
}

// countPending must be called before anything is committed.
func countPending(db *pebble.DB) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{cancel: cancel, counted: make(chan struct{})}
	at := db.NewSnapshot()
	go func() {
		defer close(p.counted)
		p.found, p.err = countIndex(ctx, at)
		if err := at.Close(); p.err == nil {
			p.err = err
		}
	}()
	return p
}

func countIndex(ctx context.Context, at *pebble.Snapshot) (n int64, err error) {
	lower, upper := storage.IndexBounds(storage.Cursor{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	it, err := at.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%ctxRows == 0 && ctx.Err() != nil {
			return n, ctx.Err()
		}
	}
	return n, it.Error()
}

// stop ends counting and waits for it.
func (p *pending) stop() {
	p.cancel()
	<-p.counted
}

// Alarms is how many objects have an alarm; false while those that were there
// before the store was opened are still being counted, or can't be.
func (s *Store) Alarms() (n int64, known bool) {
	select {
	case <-s.pending.counted:
		return s.pending.found + s.Stats().Alarms, s.pending.err == nil
	default:
		return 0, false
	}
}
