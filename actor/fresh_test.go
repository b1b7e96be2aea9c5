package actor_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// readStore counts what is read of objects.
type readStore struct {
	storage.Store
	reads atomic.Int64
}

func (s *readStore) Get(ctx context.Context, id storage.ID, key string) ([]byte, error) {
	s.reads.Add(1)
	return s.Store.Get(ctx, id, key)
}

func (s *readStore) List(ctx context.Context, id storage.ID, r storage.Range) iter.Seq2[storage.Entry, error] {
	s.reads.Add(1)
	return s.Store.List(ctx, id, r)
}

func (s *readStore) Alarm(ctx context.Context, id storage.ID) (storage.Alarm, error) {
	s.reads.Add(1)
	return s.Store.Alarm(ctx, id)
}

// Of an object to which nothing was ever committed storage has nothing, and is asked for
// nothing: neither rows nor schedules nor the alarm. What has been committed is read.
func TestAFreshObjectReadsNothingFromStorage(t *testing.T) {
	memory := storage.NewMemory()
	t.Cleanup(func() { memory.Close() })
	store := &readStore{Store: memory}
	h := start(t, actor.Options{Store: store})
	if n := do(t, h, "a", incr, 0); n != 0 {
		t.Fatalf("a new object counts from %d", n)
	}
	do(t, h, "b", setAlarm, 1_000_000)
	if n := store.reads.Load(); n != 0 {
		t.Errorf("%d reads of new objects", n)
	}
	for i := range 3 {
		if n := do(t, h, "a", incr, 1); n != i+1 {
			t.Errorf("it counts to %d, and has been counted up %d times", n, i+1)
		}
	}
	if store.reads.Load() == 0 {
		t.Error("nothing was read of what has been committed")
	}
	h.Reset(id("a"), actor.Aborted, errors.New("for the test"))
	if n := do(t, h, "a", incr, 1); n != 4 {
		t.Errorf("the next incarnation counts to %d", n)
	}
}
