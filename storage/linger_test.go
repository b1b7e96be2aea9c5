package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// lingers is a batch that lingers.
func lingers(id ID, epoch uint64, key string) *Batch {
	b := keyed(id, epoch, key)
	b.Lingers = true
	return b
}

// heard is what was told, in order.
type heard struct {
	mu   sync.Mutex
	told []string
}

func (h *heard) say(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, what)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

// of returns a callback that notes what is told of a batch.
func (h *heard) of(name string) func(error) {
	return func(err error) {
		if errors.Is(err, ErrStaleEpoch) {
			name += " stale"
		} else if err != nil {
			name += " " + err.Error()
		}
		h.say(name)
	}
}

// TestABatchLingers: what ends its wait, what it lands with, and what is told of it.
func TestABatchLingers(t *testing.T) {
	a, other := ID{"c", "a"}, ID{"c", "o"}
	for name, tt := range map[string]struct {
		then    func(c *Committer, epoch, others uint64, h *heard)
		waiting bool // for its time
		large   bool // it is
		groups  string
		told    []string
	}{
		"alone":    {then: func(*Committer, uint64, uint64, *heard) {}, waiting: true, groups: "[[a:1]]", told: []string{"1"}},
		"the next": {then: func(c *Committer, e, _ uint64, h *heard) { c.Submit(keyed(a, e, "2"), h.of("2")) }, groups: "[[a:12]]", told: []string{"1", "2"}},
		"the next lingers": {then: func(c *Committer, e, _ uint64, h *heard) {
			c.Submit(lingers(a, e, "2"), h.of("2"))
		}, groups: "[[a:12]]", told: []string{"1", "2"}},
		"another object's": {then: func(c *Committer, _, o uint64, h *heard) {
			c.Submit(keyed(other, o, "2"), h.of("2"))
		}, waiting: true, groups: "[[o:2] [a:1]]", told: []string{"2", "1"}},
		"a stale one": {then: func(c *Committer, _, o uint64, h *heard) {
			c.Submit(keyed(a, o, "2"), h.of("2"))
		}, groups: "[[a:1]]", told: []string{"1", "2 stale"}},
		"an invalid one": {then: func(c *Committer, e, _ uint64, h *heard) {
			c.Submit(keyed(a, e, ""), func(err error) { h.say(fmt.Sprint(errors.Is(err, ErrInvalid))) })
		}, groups: "[[a:1]]", told: []string{"1", "true"}},
		"a large one": {then: func(c *Committer, e, _ uint64, h *heard) {
			b := keyed(a, e, "2")
			for range mostJoined {
				b.Puts = append(b.Puts, Entry{Key: "x"})
			}
			c.Submit(b, h.of("2"))
		}, groups: "[[a:1 a:2xxxxxxxxxxxxxxxx]]", told: []string{"1", "2"}},
		"none, as it is large": {then: func(*Committer, uint64, uint64, *heard) {}, large: true, groups: "[[a:1]]", told: []string{"1"}},
		"a clear": {then: func(c *Committer, e, _ uint64, h *heard) {
			b := keyed(a, e, "2")
			b.Clear = true
			c.Submit(b, h.of("2"))
		}, groups: "[[a:clear2]]", told: []string{"1", "2"}},
		"a claim": {then: func(c *Committer, _, _ uint64, h *heard) {
			c.Claim(a, func(uint64, bool, error) { h.say("claimed") })
		}, groups: "[[a:1]]", told: []string{"1", "claimed"}},
		"a release":       {then: func(c *Committer, e, _ uint64, _ *heard) { c.Release(a, e) }, groups: "[[a:1]]", told: []string{"1"}},
		"the store's end": {then: func(c *Committer, _, _ uint64, _ *heard) { _ = c.Close() }, groups: "[[a:1]]", told: []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &scripted{}
				c := newCommitter(t, b, CommitterOptions{})
				defer c.Close()
				epoch, others := mustClaim(t, c, a), mustClaim(t, c, other)
				h := &heard{}
				first := lingers(a, epoch, "1")
				if tt.large {
					first.Puts[0].Value = make([]byte, mostLingering)
				}
				c.Submit(first, h.of("1"))
				synctest.Wait()
				if lingers := len(h.all()) == 0; lingers == tt.large {
					t.Fatalf("it lingers: %v", lingers)
				}
				tt.then(c, epoch, others, h)
				synctest.Wait()
				if there := slices.Contains(h.all(), "1"); there == tt.waiting {
					t.Errorf("before its time: %v", h.all())
				}
				time.Sleep(DefaultLinger)
				synctest.Wait()
				if got := fmt.Sprint(b.log()); got != tt.groups || !slices.Equal(h.all(), tt.told) {
					t.Errorf("landed %s, told %v; want %s, %v", got, h.all(), tt.groups, tt.told)
				}
			})
		})
	}
}

// TestNothingLingersForever: a batch waits for its time and no longer, however many come.
func TestNothingLingersForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommitter(t, &scripted{}, CommitterOptions{})
		defer c.Close()
		var mu sync.Mutex
		var waited []time.Duration
		for i := range 200 {
			id := ID{"c", fmt.Sprint(i)}
			epoch, begun := mustClaim(t, c, id), time.Now()
			c.Submit(lingers(id, epoch, "k"), func(error) {
				mu.Lock()
				defer mu.Unlock()
				waited = append(waited, time.Since(begun))
			})
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(DefaultLinger)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(waited) != 200 || slices.Min(waited) < DefaultLinger/2 || slices.Max(waited) > DefaultLinger {
			t.Errorf("%d waited from %v to %v", len(waited), slices.Min(waited), slices.Max(waited))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.lingers.of) + len(c.lingers.line); n > 0 {
			t.Errorf("%d are still known", n)
		}
	})
}

// TestWhatLingersCountsAsQueued: who finds no room for that reason gets it in its time,
// also the one that would have ended the wait.
func TestWhatLingersCountsAsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, other := ID{"c", "a"}, ID{"c", "o"}
		c := newCommitter(t, &scripted{}, CommitterOptions{QueueBytes: 2 * controlBytes})
		defer c.Close()
		epoch, others := mustClaim(t, c, a), mustClaim(t, c, other)
		h := &heard{}
		first := lingers(a, epoch, "1")
		first.Puts[0].Value = make([]byte, controlBytes)
		c.Submit(first, h.of("1"))
		go c.Submit(keyed(a, epoch, "2"), h.of("2"))
		synctest.Wait()
		go c.Submit(keyed(other, others, "3"), h.of("3"))
		synctest.Wait()
		if n := c.Stats().QueueBytes; n < controlBytes || len(h.all()) > 0 {
			t.Errorf("%d bytes count, and %v is told", n, h.all())
		}
		time.Sleep(DefaultLinger)
		synctest.Wait()
		if got, want := h.all(), []string{"1", "2", "3"}; !slices.Equal(got, want) || c.Stats().QueueBytes != 0 {
			t.Errorf("told %v, want %v; %d bytes count", got, want, c.Stats().QueueBytes)
		}
	})
}

// TestJoinedBatchesDoWhatBothDo, whatever they are and whatever was there.
func TestJoinedBatchesDoWhatBothDo(t *testing.T) {
	id := ID{"c", "n"}
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	rapid.Check(t, func(rt *rapid.T) {
		step := 0
		batch := func(clear int) *Batch {
			b := &Batch{ID: id, Epoch: 1, Clear: rapid.IntRange(0, clear).Draw(rt, "clear") == 1}
			b.Deletes = rapid.SliceOfN(key, 0, 2).Draw(rt, "deletes")
			for _, k := range rapid.SliceOfNDistinct(key, 0, 3, rapid.ID[string]).Draw(rt, "puts") {
				step++
				b.Puts = append(b.Puts, Entry{Key: k, Value: fmt.Append(nil, step)})
			}
			switch rapid.IntRange(0, 2).Draw(rt, "alarm") {
			case 1:
				b.Alarm = &Alarm{}
			case 2:
				step++
				b.Alarm = &Alarm{At: time.Unix(int64(step), 0)}
			}
			return b
		}
		apply := func(bs ...*Batch) string {
			m, f := NewImage(), NewFence(1)
			in := f.Claim(id)
			if err := in.Acquire(id, 0, Alarm{}); err != nil {
				rt.Fatal(err)
			}
			for _, b := range bs {
				b := *b
				b.Epoch = in.Epoch
				w, ok := f.Admit(&b)
				if !ok {
					rt.Fatal("not admitted")
				}
				m.Apply(&w)
			}
			epoch, alarm := m.Head(id)
			return fmt.Sprint(epoch, alarm, m.List(id, Range{}), m.Due(Cursor{}, time.Unix(1000, 0), 10))
		}
		first, a, b := batch(0), batch(3), batch(3)
		if want, got := apply(first, a, b), apply(first, Join(a, b)); got != want {
			rt.Fatalf("joined\n%s, want\n%s", got, want)
		}
		a.Fresh = true
		if want, got := apply(a, b), apply(Join(a, b)); got != want {
			rt.Fatalf("joined, of a fresh object\n%s, want\n%s", got, want)
		}
		if j := Join(a, b); !a.Clear && !b.Clear && len(j.Deletes) > 0 {
			rt.Fatalf("of a fresh object %q are deleted", j.Deletes)
		}
	})
}
