package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func testOrder(t *testing.T, s storage.Store) {
	const n = 500
	a, b := claim(t, s, alpha), claim(t, s, beta)
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	wg.Add(n)
	mu.Lock() // a callback must not run inside Submit
	for i := range n {
		note := func() {
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			wg.Done()
		}
		switch i % 5 {
		case 0:
			s.Submit(put(beta, b, "k", fmt.Sprint(i)), func(error) { note() })
		case 1:
			s.Submit(put(alpha, a-1, "k", "stale"), func(err error) {
				if !errors.Is(err, storage.ErrStaleEpoch) {
					t.Errorf("a stale batch: %v", err)
				}
				note()
			})
		case 2:
			s.Claim(storage.ID{Class: "other", Name: fmt.Sprint(i)}, func(uint64, bool, error) { note() })
		default:
			s.Submit(put(alpha, a, "k", fmt.Sprint(i)), func(err error) {
				if err != nil {
					t.Error(err)
				}
				note()
			})
		}
	}
	mu.Unlock()
	wg.Wait()
	if !slices.IsSorted(got) || len(got) != n {
		t.Errorf("callbacks ran in the order %v", got)
	}
	wantRows(t, s, alpha, "k=499")
}

func testClaimOrder(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	for i := range 100 {
		s.Submit(put(alpha, epoch, "k", fmt.Sprint(i)), func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	b := alarmAt(alpha, epoch, noon)
	s.Submit(b, func(error) {})
	newer := claim(t, s, alpha)
	wantRows(t, s, alpha, "k=99")
	// The new incarnation knows the alarm that the old one left.
	commit(t, s, alarmAt(alpha, newer, noon.Add(time.Hour)))
	if d := due(t, s, storage.Cursor{}, noon.Add(time.Hour), 9); len(d) != 1 || !d[0].At.Equal(noon.Add(time.Hour)) {
		t.Errorf("due: %v", d)
	}
}

func testClosed(t *testing.T, s storage.Store) {
	ctx := context.Background()
	epoch := claim(t, s, alpha)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, errGet := s.Get(ctx, alpha, "k")
	_, errAlarm := s.Alarm(ctx, alpha)
	_, errDue := s.Due(ctx, storage.Cursor{}, noon, 1)
	_, errObjects := s.Objects(ctx, "c", "", 1)
	_, errClaim := storage.Claim(ctx, s, alpha)
	var errList error
	for _, err := range s.List(ctx, alpha, storage.Range{}) {
		errList = err
	}
	errCommit := storage.Commit(ctx, s, put(alpha, epoch, "k", "v"))
	for i, err := range []error{errGet, errAlarm, errDue, errObjects, errClaim, errList, errCommit, s.Close()} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	s.Release(alpha, epoch)
}

func testCloseDrains(t *testing.T, s storage.Store) {
	epoch := claim(t, s, alpha)
	var mu sync.Mutex
	done := 0
	for i := range 200 {
		s.Submit(put(alpha, epoch, fmt.Sprint(i), "v"), func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			done++
			mu.Unlock()
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if done != 200 {
		t.Errorf("%d of 200 batches were answered", done)
	}
}
