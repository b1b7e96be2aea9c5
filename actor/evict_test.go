package actor

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// poster tells the test how to post to it, and what it handles.
type poster struct {
	begun   chan func(any) error
	handled chan uint64 // the epochs
}

func (p *poster) Start(t *Turn) error { p.begun <- t.Poster(); return nil }

func (p *poster) Handle(t *Turn, event any) {
	if event == "posted" {
		p.handled <- t.Epoch()
	}
}

func (p *poster) Alarm(t *Turn, _ alarm.Info, done func(*Turn, error)) { done(t, nil) }

func (p *poster) Idle() bool { return true }

// unswept starts a host that evicts nothing by itself, with one class.
func unswept(t *testing.T, class string, m func() Machine) *Host {
	t.Helper()
	store := storage.NewMemory()
	t.Cleanup(func() { store.Close() })
	h, err := NewHost(Options{Store: store, Logger: slog.New(slog.DiscardHandler), EvictAfter: -1, Isolates: 2})
	if err != nil {
		t.Fatal(err)
	}
	h.Register(class, m)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = h.Shutdown(ctx) // what is not idle is reset
	})
	return h
}

// What an incarnation has posted to itself when it is about to be evicted is handled,
// and by no other incarnation.
func TestWhatIsPostedDuringAnEvictionIsHandledByWhoPostedIt(t *testing.T) {
	p := &poster{make(chan func(any) error, 9), make(chan uint64, 9)}
	h := unswept(t, "poster", func() Machine { return p })
	id := storage.ID{Class: "poster", Name: "p"}
	if err := h.Send(id, "begin", nil); err != nil {
		t.Fatal(err)
	}
	post := <-p.begun
	inc := h.dir.incarnation(id)
	for inc.turns.Load() < 4 { // until the event has been handled
		time.Sleep(time.Millisecond)
	}
	s := inc.shard
	s.mu.Lock()
	s.entries[id].state = passivating
	s.mu.Unlock()
	if err := post("posted"); err != nil {
		t.Fatal(err)
	}
	h.sys.Root.Send(inc.pid, evict{})
	select {
	case epoch := <-p.handled:
		if epoch != inc.epoch {
			t.Errorf("what incarnation %d has posted was handled by %d", inc.epoch, epoch)
		}
	case <-time.After(5 * time.Second):
		t.Error("it was lost")
	}
}

// resident is a machine that keeps something.
type resident struct {
	kept [1 << 10]byte
}

func (r *resident) Start(*Turn) error                                    { return nil }
func (r *resident) Handle(*Turn, any)                                    { r.kept[0]++ }
func (r *resident) Alarm(t *Turn, _ alarm.Info, done func(*Turn, error)) { done(t, nil) }
func (r *resident) Idle() bool                                           { return true }

// busyUntil is a machine that is idle once it was told so, and counts who asks.
type busyUntil struct {
	asked   atomic.Int64
	idle    bool
	handled chan struct{}
}

func (b *busyUntil) Start(*Turn) error                                    { return nil }
func (b *busyUntil) Alarm(t *Turn, _ alarm.Info, done func(*Turn, error)) { done(t, nil) }
func (b *busyUntil) Handle(_ *Turn, event any) {
	b.idle = event == "rest"
	b.handled <- struct{}{}
}

func (b *busyUntil) Idle() bool {
	b.asked.Add(1)
	return b.idle
}

// What keeps an incarnation from being evicted ends in a turn. So who has said that it is
// not idle is not asked again at each sweep: there may be thousands of them.
func TestWhoIsNotIdleIsAskedOnceATurn(t *testing.T) {
	b := &busyUntil{handled: make(chan struct{}, 1)}
	h := unswept(t, "busy", func() Machine { return b })
	id := storage.ID{Class: "busy", Name: "a"}
	sweeps := func(until func() bool) {
		for range 200 {
			h.sweepAll()
			time.Sleep(time.Millisecond)
			if until() {
				return
			}
		}
	}
	for turn := range int64(3) {
		if err := h.Send(id, "work", nil); err != nil {
			t.Fatal(err)
		}
		<-b.handled
		sweeps(func() bool { return b.asked.Load() > turn })
		for range 20 {
			h.sweepAll()
			time.Sleep(time.Millisecond)
		}
		if n := b.asked.Load(); n != turn+1 {
			t.Fatalf("after %d turns it was asked %d times", turn+1, n)
		}
	}
	if err := h.Send(id, "rest", nil); err != nil {
		t.Fatal(err)
	}
	<-b.handled
	sweeps(func() bool { return h.dir.empty() })
	if !h.dir.empty() {
		t.Error("it rests, and was not evicted")
	}
}

// However many objects have been in memory at a time: of those that are evicted nothing
// is held.
func TestAnEvictedObjectIsNotKept(t *testing.T) {
	var alive atomic.Int64
	h := unswept(t, "resident", func() Machine {
		r := &resident{}
		alive.Add(1)
		runtime.AddCleanup(r, func(n *atomic.Int64) { n.Add(-1) }, &alive)
		return r
	})
	const objects = 100
	for n := range objects {
		if err := h.Send(storage.ID{Class: "resident", Name: fmt.Sprint(n)}, "begin", nil); err != nil {
			t.Fatal(err)
		}
	}
	for alive.Load() < objects {
		time.Sleep(time.Millisecond)
	}
	for limit := time.Now().Add(20 * time.Second); alive.Load() > 0; time.Sleep(time.Millisecond) {
		h.sweepAll()
		runtime.GC()
		if time.Now().After(limit) {
			t.Fatalf("%d of %d are still held; empty: %v", alive.Load(), objects, h.dir.empty())
		}
	}
}
