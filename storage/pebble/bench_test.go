package pebble_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// The disk of the benchmarks is a folder of the working directory, and not one
// of TMPDIR, which may be in memory.
func benchStore(b *testing.B, d storage.Durability) *pebble.Store {
	b.Helper()
	dir, err := os.MkdirTemp(".", "bench-*.tmp")
	if err != nil {
		b.Fatal(err)
	}
	s := mustOpen(b, pebble.Options{Dir: dir, Durability: d})
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		os.RemoveAll(dir)
	})
	return s
}

// BenchmarkCommit is a closed loop: each committer waits for its batch of three
// rows of 200 bytes and an alarm that moves, as a session's turn writes it.
func BenchmarkCommit(b *testing.B) {
	for _, d := range []storage.Durability{storage.Sync, storage.Relaxed} {
		for _, committers := range []int{1, 32, 512} {
			b.Run(fmt.Sprintf("%v/%d", d, committers), func(b *testing.B) {
				s := benchStore(b, d)
				value := make([]byte, 200)
				var left atomic.Int64
				left.Store(int64(b.N))
				before := s.Stats()
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for c := range committers {
					wg.Go(func() {
						id := storage.ID{Class: "session", Name: fmt.Sprintf("01JQ3Z6T9V%016d", c)}
						epoch, err := storage.Claim(context.Background(), s, id)
						if err != nil {
							b.Error(err)
						}
						done := make(chan error, 1)
						answer := func(err error) { done <- err }
						at := time.Now()
						for i := 0; left.Add(-1) >= 0; i++ {
							batch := &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{
								{Key: fmt.Sprintf("event/%08d", i), Value: value}, {Key: "activity", Value: value}, {Key: "ledger/7/0", Value: value},
							}, Alarm: &storage.Alarm{At: at.Add(time.Duration(i) * time.Second)}}
							s.Submit(batch, answer)
							if err := <-done; err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				st := s.Stats()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				b.ReportMetric(float64(st.Commits-before.Commits)/float64(max(1, st.Groups-before.Groups)), "commits/group")
			})
		}
	}
}

// BenchmarkSubmit does not wait: it is what the committer itself can do.
func BenchmarkSubmit(b *testing.B) {
	s := benchStore(b, storage.Sync)
	id := storage.ID{Class: "session", Name: "01JQ3Z6T9VXXXXXXXXXXXXXXXX"}
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 200)
	var wg sync.WaitGroup
	wg.Add(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s.Submit(&storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{
			{Key: "event/1", Value: value}, {Key: "activity", Value: value}, {Key: "ledger/7/0", Value: value},
		}}, func(error) { wg.Done() })
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

func BenchmarkClaim(b *testing.B) {
	s := benchStore(b, storage.Sync)
	var wg sync.WaitGroup
	wg.Add(b.N)
	b.ReportAllocs()
	for i := range b.N {
		s.Claim(storage.ID{Class: "session", Name: fmt.Sprintf("%016d", i)}, func(uint64, bool, error) { wg.Done() })
	}
	wg.Wait()
}

// fill makes objects with a row and an alarm each, one second apart.
func fill(b *testing.B, s *pebble.Store, objects int) time.Time {
	b.Helper()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var wg sync.WaitGroup
	wg.Add(objects)
	for i := range objects {
		id := storage.ID{Class: "session", Name: fmt.Sprintf("%016d", i)}
		s.Claim(id, func(epoch uint64, _ bool, err error) {
			go func() {
				s.Submit(&storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k", Value: make([]byte, 100)}},
					Alarm: &storage.Alarm{At: start.Add(time.Duration(i) * time.Second)}}, func(err error) {
					if err != nil {
						b.Error(err)
					}
					s.Release(id, epoch)
					wg.Done()
				})
			}()
		})
	}
	wg.Wait()
	return start
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b, storage.Relaxed)
	fill(b, s, 100_000)
	ctx := context.Background()
	for _, key := range []string{"k", "none"} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				id := storage.ID{Class: "session", Name: fmt.Sprintf("%016d", i*7919%100_000)}
				if v, err := s.Get(ctx, id, key); err != nil || (v == nil) != (key == "none") {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// BenchmarkDue reads a page of 256 alarms out of a million: at the front, by
// cursor, and at a front from which a hundred thousand alarms have been served.
func BenchmarkDue(b *testing.B) {
	s := benchStore(b, storage.Relaxed)
	start := fill(b, s, 1_000_000)
	page := func(b *testing.B, after storage.Cursor, until time.Time, want int) {
		d, err := s.Due(context.Background(), after, until, 256)
		if err != nil || len(d) != want {
			b.Fatal(len(d), err)
		}
	}
	end := start.AddDate(1, 0, 0)
	b.Run("first", func(b *testing.B) {
		for range b.N {
			page(b, storage.Cursor{}, end, 256)
		}
	})
	b.Run("cursor", func(b *testing.B) {
		for range b.N {
			page(b, storage.Cursor{At: start.Add(500_000 * time.Second)}, end, 256)
		}
	})
	b.Run("none", func(b *testing.B) {
		for range b.N {
			page(b, storage.Cursor{}, start.Add(-time.Second), 0)
		}
	})
	var wg sync.WaitGroup
	const served = 100_000
	wg.Add(served)
	for i := range served {
		id := storage.ID{Class: "session", Name: fmt.Sprintf("%016d", i)}
		s.Claim(id, func(epoch uint64, _ bool, err error) {
			go s.Submit(&storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{}}, func(error) { wg.Done() })
		})
	}
	wg.Wait()
	b.Run("served", func(b *testing.B) {
		for range b.N {
			page(b, storage.Cursor{}, end, 256)
		}
	})
}

// BenchmarkClear deletes an object and reads another one, after ten thousand
// objects have been deleted: what a host does whose sessions end.
func BenchmarkClear(b *testing.B) {
	s := benchStore(b, storage.Relaxed)
	const gone = 10_000
	fill(b, s, gone+b.N)
	ctx := context.Background()
	clear := func(i int) {
		id := storage.ID{Class: "session", Name: fmt.Sprintf("%016d", i)}
		epoch, err := storage.Claim(ctx, s, id)
		if err != nil {
			b.Fatal(err)
		}
		if err := storage.Commit(ctx, s, &storage.Batch{ID: id, Epoch: epoch, Clear: true}); err != nil {
			b.Fatal(err)
		}
		s.Release(id, epoch)
	}
	for i := range gone {
		clear(i)
	}
	b.ResetTimer()
	for i := range b.N {
		clear(gone + i)
		if _, err := s.Get(ctx, storage.ID{Class: "session", Name: "other"}, "k"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	fs := vfs.NewMem()
	for range b.N {
		s := mustOpen(b, pebble.Options{FS: fs})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
