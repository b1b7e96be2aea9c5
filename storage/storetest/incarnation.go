package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func testStale(t *testing.T, s storage.Store) {
	old := claim(t, s, alpha)
	commit(t, s, put(alpha, old, "a", "old"))
	newer := claim(t, s, alpha)
	if newer <= old {
		t.Fatalf("epoch %d after %d", newer, old)
	}
	for _, epoch := range []uint64{old, 0, newer + 1} {
		err := storage.Commit(context.Background(), s, put(alpha, epoch, "a", "stale"))
		var e *storage.Error
		if !errors.Is(err, storage.ErrStaleEpoch) || !errors.As(err, &e) || e.ID != alpha {
			t.Errorf("commit at epoch %d, newest is %d: %v", epoch, newer, err)
		}
	}
	err := storage.Commit(context.Background(), s, put(beta, newer, "a", "unclaimed"))
	if !errors.Is(err, storage.ErrStaleEpoch) {
		t.Errorf("commit to an object that is not claimed: %v", err)
	}
	wantRows(t, s, alpha, "a=old")
	commit(t, s, put(alpha, newer, "a", "new"))
	wantRows(t, s, alpha, "a=new")
	wantRows(t, s, beta, "")
}

func testRelease(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	commit(t, s, put(alpha, epoch, "a", "1"))
	s.Release(alpha, epoch)
	err := storage.Commit(context.Background(), s, put(alpha, epoch, "a", "2"))
	if !errors.Is(err, storage.ErrStaleEpoch) {
		t.Errorf("commit after the release: %v", err)
	}
	wantRows(t, s, alpha, "a=1")
	if next := claim(t, s, alpha); next <= epoch {
		t.Errorf("epoch %d after %d", next, epoch)
	}
}

func testReleaseOld(t *testing.T, s storage.Store) {
	old := claim(t, s, alpha)
	newer := claim(t, s, alpha)
	s.Release(alpha, old)
	s.Release(beta, old)
	commit(t, s, put(alpha, newer, "a", "1"))
	wantRows(t, s, alpha, "a=1")
}

func testEpochs(t *testing.T, s storage.Store) {
	last := uint64(0)
	for i := range 50 {
		id := storage.ID{Class: "c", Name: fmt.Sprint(i % 3)}
		epoch := claim(t, s, id)
		if epoch <= last || epoch >= 1<<53 {
			t.Fatalf("epoch %d after %d", epoch, last)
		}
		if i%2 == 0 {
			commit(t, s, put(id, epoch, "k", "v"))
		}
		last = epoch
	}
}

func testConcurrent(t *testing.T, s storage.Store) {
	const objects, turns = 16, 40
	var wg sync.WaitGroup
	for o := range objects {
		wg.Go(func() {
			id := storage.ID{Class: "c", Name: fmt.Sprint(o)}
			for i := range turns {
				epoch := claim(t, s, id)
				want := bytes.Repeat([]byte{byte(i)}, 100)
				b := &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k", Value: want}}, Alarm: &storage.Alarm{At: noon.Add(time.Duration(i) * time.Second)}}
				commit(t, s, b)
				if v, err := s.Get(context.Background(), id, "k"); err != nil || !bytes.Equal(v, want) {
					t.Errorf("%v after turn %d: %v, %v", id, i, v, err)
				}
				if _, err := s.Due(context.Background(), storage.Cursor{}, noon.Add(time.Hour), 5); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					s.Release(id, epoch)
				}
			}
		})
	}
	wg.Wait()
	if d := due(t, s, storage.Cursor{}, noon.Add(time.Hour), 100); len(d) != objects {
		t.Errorf("%d alarms of %d objects", len(d), objects)
	}
}
