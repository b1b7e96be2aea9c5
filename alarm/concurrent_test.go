package alarm

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// slow is a store whose reads of the index return late, so that much happens
// between what they saw and what is made of it.
type slow struct{ storage.Store }

func (s slow) Due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	rows, err := s.Store.Due(ctx, after, until, limit)
	time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	return rows, err
}

// claim begins an incarnation for a test.
func claim(t testing.TB, s storage.Store, id storage.ID) uint64 {
	t.Helper()
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// crowd is a target that runs each alarm on a goroutine of its own, for a while,
// and completes it in one of the ways that there are.
type crowd struct {
	t     *testing.T
	store storage.Store
	wg    sync.WaitGroup

	members map[storage.ID]*member
}

type member struct {
	mu      sync.Mutex // held while it commits: an object's turns
	epoch   uint64
	row     time.Time
	running bool
	fired   int
}

func (c *crowd) commit(id storage.ID, m *member, at time.Time) {
	err := storage.Commit(context.Background(), c.store, &storage.Batch{ID: id, Epoch: m.epoch, Alarm: &storage.Alarm{At: at}})
	if err != nil {
		c.t.Error(err)
	}
	m.row = storage.Alarm{At: at}.Normal().At
}

func (c *crowd) Fire(d storage.Due, done func(error)) {
	if now := time.Now(); d.At.After(now) {
		c.t.Errorf("%v fired %v before its time (I6)", d.ID, d.At.Sub(now))
	}
	m := c.members[d.ID]
	m.mu.Lock()
	if m.running {
		c.t.Errorf("%v fired while it was in flight (I6)", d.ID)
	}
	m.running = true
	m.mu.Unlock()
	c.wg.Go(func() {
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		m.mu.Lock()
		if !m.row.IsZero() && !m.row.After(time.Now()) {
			m.fired++
			if rand.IntN(3) == 0 {
				c.commit(d.ID, m, time.Now().Add(time.Duration(rand.IntN(20)-5)*time.Millisecond))
			} else {
				c.commit(d.ID, m, time.Time{})
			}
		}
		m.running = false
		m.mu.Unlock()
		done(nil)
	})
}

// The driver as it is in production: objects set, move and delete their alarms
// from several goroutines while it scans, and in the end none is left.
func TestAlarmsOfACrowdAllFireWhileEverythingMoves(t *testing.T) {
	store := slow{storage.NewMemory()}
	defer store.Close()
	c := &crowd{t: t, store: store, members: make(map[storage.ID]*member)}
	var ids []storage.ID
	for i := range 300 {
		id := object(fmt.Sprint(i))
		ids = append(ids, id)
		c.members[id] = &member{epoch: claim(t, store, id)}
	}
	start := func() *Dispatcher {
		d, err := New(Options{Store: store, Target: c, MaxInFlight: 64, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := start()
	for range 3 {
		var setters sync.WaitGroup
		for s := range 4 {
			setters.Go(func() {
				for range 1500 {
					id := ids[rand.IntN(len(ids)/4)*4+s]
					m := c.members[id]
					m.mu.Lock()
					at := time.Now().Add(time.Duration(rand.IntN(60)-10) * time.Millisecond)
					if rand.IntN(10) == 0 {
						at = time.Time{}
					}
					c.commit(id, m, at)
					m.mu.Unlock()
				}
			})
		}
		setters.Wait()
		if err := d.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wg.Wait()
		d = start()
	}
	left := func() (n int) {
		for _, m := range c.members {
			m.mu.Lock()
			if !m.row.IsZero() {
				n++
			}
			m.mu.Unlock()
		}
		return n
	}
	// A row that was set back to a time that it had been fired for waits for 2.5 s.
	for deadline := time.Now().Add(10 * time.Second); left() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d alarms have never been fired: %+v", left(), d.Stats())
		}
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.wg.Wait()
	fired := 0
	for _, m := range c.members {
		fired += m.fired
	}
	if fired < 300 {
		t.Errorf("only %d alarms were fired: this was no test", fired)
	}
}

// After Stop has returned nothing is fired, also when it comes at the worst time.
func TestNothingIsFiredAfterStop(t *testing.T) {
	store := slow{storage.NewMemory()}
	defer store.Close()
	for i := range 200 {
		id := object(fmt.Sprint(i))
		if err := storage.Commit(t.Context(), store, &storage.Batch{ID: id, Epoch: claim(t, store, id), Alarm: &storage.Alarm{At: time.Now()}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		target := &counting{}
		d, err := New(Options{Store: store, Target: target, MaxInFlight: 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(1000))*time.Microsecond)
		_ = d.Stop(ctx) // what is in flight is never done
		cancel()
		n := target.count()
		time.Sleep(3 * time.Millisecond)
		if target.count() != n {
			t.Fatal("an alarm was fired after Stop")
		}
		if err := d.Stop(canceled()); n > 0 && err == nil {
			t.Fatal("Stop does not say that alarms are running")
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// counting is a target that never finishes.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) Fire(storage.Due, func(error)) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
