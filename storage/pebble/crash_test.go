package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// history is a workload that can be checked after a crash at any moment. Each
// object counts: turn n writes "n" into two rows, adds a row to a log, and sets
// the alarm to n seconds after noon, in one batch. So what is recovered of an
// object tells at once whether a batch was torn, or a later one landed without an
// earlier one.
type history struct {
	objects []*counter
	epoch   atomic.Uint64 // the newest that was given out
}

type counter struct {
	id                      storage.ID
	submitted, acknowledged atomic.Int64
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newHistory(objects int) *history {
	h := &history{}
	for i := range objects {
		h.objects = append(h.objects, &counter{id: storage.ID{Class: "counter", Name: fmt.Sprint(i)}})
	}
	return h
}

func (c *counter) batch(epoch uint64, n int64, filler int) *storage.Batch {
	v := []byte(fmt.Sprint(n))
	return &storage.Batch{ID: c.id, Epoch: epoch, Puts: []storage.Entry{
		{Key: "first", Value: v},
		{Key: fmt.Sprintf("log/%08d", n), Value: append(fmt.Appendf(nil, "%d ", epoch), make([]byte, filler)...)},
		{Key: "second", Value: v},
	}, Alarm: &storage.Alarm{At: noon.Add(time.Duration(n) * time.Second)}}
}

// run keeps every object busy until the context ends: incarnations of some turns
// each, several turns in flight, and superseded ones that go on writing.
func (h *history) run(ctx context.Context, t testing.TB, s storage.Store, seed uint64) {
	var wg sync.WaitGroup
	for i, c := range h.objects {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for stale := uint64(0); ctx.Err() == nil; {
				epoch, err := storage.Claim(ctx, s, c.id)
				if err != nil {
					if ctx.Err() == nil && !errors.Is(err, storage.ErrClosed) {
						t.Errorf("claim: %v", err)
					}
					return
				}
				for last := h.epoch.Load(); epoch > last && !h.epoch.CompareAndSwap(last, epoch); last = h.epoch.Load() {
				}
				if stale != 0 {
					s.Submit(&storage.Batch{ID: c.id, Epoch: stale, Clear: true, Puts: []storage.Entry{{Key: "stale"}}}, func(err error) {
						if !errors.Is(err, storage.ErrStaleEpoch) && ctx.Err() == nil {
							t.Errorf("a stale batch: %v (I4)", err)
						}
					})
				}
				stale = epoch
				done := make(chan error, 32)
				turns := 1 + rng.IntN(20)
				for range turns {
					n := c.submitted.Load() + 1
					c.submitted.Store(n)
					s.Submit(c.batch(epoch, n, rng.IntN(3000)), func(err error) {
						if err == nil {
							c.acknowledged.Store(n)
						}
						done <- err
					})
				}
				for range turns {
					if err := <-done; err != nil {
						return // crashed or closed
					}
				}
			}
		})
	}
	wg.Wait()
}

// point is a moment of a history: what had been acknowledged when it came.
type point struct {
	acknowledged []int64
	epoch        uint64
}

func (h *history) now() point {
	p := point{epoch: h.epoch.Load()}
	for _, c := range h.objects {
		p.acknowledged = append(p.acknowledged, c.acknowledged.Load())
	}
	return p
}

// total is how many turns have been acknowledged.
func (h *history) total() (n int64) {
	for _, c := range h.objects {
		n += c.acknowledged.Load()
	}
	return n
}

// await waits until so many have.
func (h *history) await(t testing.TB, turns int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); h.total() < turns; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d turns have been acknowledged in a minute, want %d", h.total(), turns)
		}
	}
}

// begin is a history's first time, which ends in order: so there is something that no
// crash may take, whatever the durability.
func (h *history) begin(t testing.TB, o pebble.Options, seed uint64) {
	t.Helper()
	s := mustOpen(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.run(ctx, t, s, seed)
	}()
	h.await(t, 20)
	cancel()
	<-ended
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = mustOpen(t, o)
	h.check(t, s, h.now(), true)
	h.resume(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// resume lets the history go on from what is stored.
func (h *history) resume(t testing.TB, s storage.Store) {
	t.Helper()
	for _, c := range h.objects {
		n := h.recovered(t, s, c)
		c.submitted.Store(n)
		c.acknowledged.Store(n)
	}
}

// check compares a recovered store with the point before the crash. With durable
// false it may have lost the end of what was acknowledged.
func (h *history) check(t testing.TB, s storage.Store, p point, durable bool) (recovered int64) {
	t.Helper()
	ctx := context.Background()
	alarms := map[storage.ID]time.Time{}
	due, err := s.Due(ctx, storage.Cursor{}, noon.AddDate(1, 0, 0), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range due {
		if _, twice := alarms[d.ID]; twice {
			t.Errorf("%v is in the index twice (I6)", d.ID)
		}
		alarms[d.ID] = d.At
	}
	for i, c := range h.objects {
		n := h.recovered(t, s, c)
		if durable && n < p.acknowledged[i] {
			t.Errorf("%v: turn %d was acknowledged, and %d was recovered (I3)", c.id, p.acknowledged[i], n)
		}
		if n > c.submitted.Load() {
			t.Errorf("%v: turn %d was recovered, and %d was the last (I3)", c.id, n, c.submitted.Load())
		}
		a, err := s.Alarm(ctx, c.id)
		if err != nil {
			t.Fatal(err)
		}
		want := noon.Add(time.Duration(n) * time.Second)
		if n == 0 {
			want = time.Time{}
		}
		if !a.At.Equal(want) || !alarms[c.id].Equal(want) {
			t.Errorf("%v: alarm row %v, index %v, want %v (I6)", c.id, a.At, alarms[c.id], want)
		}
		epoch, err := storage.Claim(ctx, s, c.id)
		if err != nil || epoch <= p.epoch {
			t.Errorf("%v: epoch %d after %d, %v (I4)", c.id, epoch, p.epoch, err)
		}
		recovered += n
	}
	return recovered
}

// recovered returns the turn that an object is at, and checks that nothing of it
// is torn.
func (h *history) recovered(t testing.TB, s storage.Store, c *counter) (n int64) {
	t.Helper()
	number := map[string]string{}
	logged, lastEpoch := int64(0), uint64(0)
	for e, err := range s.List(context.Background(), c.id, storage.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if suffix, ok := strings.CutPrefix(e.Key, "log/"); ok {
			logged++
			text, _, _ := strings.Cut(string(e.Value), " ")
			epoch, _ := strconv.ParseUint(text, 10, 64)
			if suffix != fmt.Sprintf("%08d", logged) || epoch < lastEpoch {
				t.Fatalf("%v: row %d of the log is %s, of epoch %d after %d", c.id, logged, e.Key, epoch, lastEpoch)
			}
			lastEpoch = epoch
			continue
		}
		number[e.Key] = string(e.Value)
	}
	want := map[string]string{"first": fmt.Sprint(logged), "second": fmt.Sprint(logged)}
	if logged == 0 {
		want = map[string]string{}
	}
	if fmt.Sprint(number) != fmt.Sprint(want) {
		t.Errorf("%v: a torn batch: %v, and %d rows in the log", c.id, number, logged)
	}
	return logged
}

// crashes runs a history, cuts the power at some moments of it, and checks what
// is left. A seed gives the same plan, not the same interleaving.
func crashes(t *testing.T, d storage.Durability, unsynced func(*rand.Rand) int, check func(*testing.T, *history, storage.Store, point) int64) {
	seed := rand.Uint64()
	if text := os.Getenv("KALPA_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("KALPA_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	recovered := int64(0)
	for range rounds {
		fs := vfs.NewCrashableMem()
		h := newHistory(1 + rng.IntN(12))
		h.begin(t, pebble.Options{Dir: "a/data", FS: fs, Durability: d}, seed)
		for boot := range 3 { // crash, recover, and crash again
			s, err := pebble.Open(pebble.Options{Dir: "a/data", FS: fs, Durability: d, Logger: silent,
				Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
			if err != nil {
				t.Fatalf("boot %d: %v", boot, err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.run(ctx, t, s, seed)
			}()
			h.await(t, h.total()+rng.Int64N(400))
			p := h.now()
			fs2 := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced(rng), RNG: rng})
			cancel()
			<-ended
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			fs = fs2
			r, err := pebble.Open(pebble.Options{Dir: "a/data", FS: fs, Durability: d, Logger: silent,
				Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
			if err != nil {
				t.Fatalf("after the crash of boot %d: %v", boot, err)
			}
			recovered += check(t, h, r, p)
			h.resume(t, r)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("KALPA_SEED=%d", seed)
			}
		}
	}
	if recovered == 0 {
		t.Error("nothing was ever recovered: the test tests nothing")
	}
}

func TestAPowerCutTakesNothingThatWasAcknowledged(t *testing.T) {
	for name, unsynced := range map[string]func(*rand.Rand) int{
		"nothing unsynced survives": func(*rand.Rand) int { return 0 },
		"all unsynced survives":     func(*rand.Rand) int { return 100 },
		"some unsynced survives":    func(r *rand.Rand) int { return 1 + r.IntN(99) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashes(t, storage.Sync, unsynced, func(t *testing.T, h *history, s storage.Store, p point) int64 {
				return h.check(t, s, p, true)
			})
		})
	}
}

// With relaxed durability a power cut may take the end of the history. What is
// left is a whole beginning, epochs are never given out twice, and the store opens.
func TestAPowerCutTakesAnEndOfARelaxedStore(t *testing.T) {
	for name, unsynced := range map[string]func(*rand.Rand) int{
		"nothing unsynced survives": func(*rand.Rand) int { return 0 },
		"some unsynced survives":    func(r *rand.Rand) int { return 1 + r.IntN(99) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashes(t, storage.Relaxed, unsynced, func(t *testing.T, h *history, s storage.Store, p point) int64 {
				return h.check(t, s, p, false)
			})
		})
	}
}
