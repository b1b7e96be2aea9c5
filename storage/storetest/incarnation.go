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

// isFresh claims an object.
func isFresh(t *testing.T, s storage.Store, id storage.ID) (epoch uint64, fresh bool) {
	t.Helper()
	done := make(chan error, 1)
	s.Claim(id, func(e uint64, f bool, err error) {
		epoch, fresh = e, f
		done <- err
	})
	if err := <-done; err != nil {
		t.Fatalf("claim %v: %v", id, err)
	}
	return epoch, fresh
}

func testFresh(t *testing.T, s storage.Store) {
	first, fresh := isFresh(t, s, alpha)
	if !fresh {
		t.Error("an object of which nothing was ever stored is not fresh")
	}
	second, fresh := isFresh(t, s, alpha)
	if !fresh {
		t.Error("an object whose incarnation has committed nothing is not fresh any more")
	}
	if err := storage.Commit(context.Background(), s, put(alpha, first, "a", "1")); !errors.Is(err, storage.ErrStaleEpoch) {
		t.Fatal(err)
	}
	third, fresh := isFresh(t, s, alpha)
	if !fresh {
		t.Error("an object is not fresh after a batch that was refused")
	}
	if second >= third {
		t.Errorf("epoch %d after %d", third, second)
	}
	// The claim is queued right behind the batch.
	s.Submit(put(alpha, third, "a", "1"), func(error) {})
	fourth, fresh := isFresh(t, s, alpha)
	if fresh {
		t.Error("an object is fresh that has a row")
	}
	commit(t, s, &storage.Batch{ID: alpha, Epoch: fourth, Clear: true})
	if _, fresh = isFresh(t, s, alpha); fresh {
		t.Error("an object is fresh again that was cleared")
	}
	if _, fresh = isFresh(t, s, beta); !fresh {
		t.Error("another object is not fresh")
	}
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
