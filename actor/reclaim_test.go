package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// hoarder is a machine that keeps what it has charged until it is asked for it.
type hoarder struct {
	p       *pressed
	name    string
	release func()
}

// hoard is the event by which it charges; needed is true while somebody uses that.
type hoard struct {
	bytes  int64
	needed bool
	done   chan error
	until  context.Context // nil: for as long as it takes
}

func (m *hoarder) Start(t *actor.Turn) error { m.name = t.ID().Name; return nil }

func (m *hoarder) Handle(t *actor.Turn, event any) {
	e, ok := event.(hoard)
	if !ok {
		return
	}
	rests := t.Now()
	if e.needed {
		rests = time.Time{}
	}
	t.Rests(rests)
	charge := t.Charger()
	go func() {
		ctx := context.Background()
		if e.until != nil {
			ctx = e.until
		}
		release, err := charge(ctx, e.bytes)
		m.p.Lock()
		m.release = release
		m.p.Unlock()
		e.done <- err
	}()
}

func (m *hoarder) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) { done(t, nil) }
func (m *hoarder) Idle() bool                                                       { return false }

func (m *hoarder) Reclaim(_ *actor.Turn, done func()) {
	m.p.Lock()
	defer m.p.Unlock()
	m.p.asked = append(m.p.asked, m.name)
	release := m.release
	if release == nil {
		done()
		return
	}
	m.release = nil
	give := func() { release(); done() }
	if m.p.slow {
		m.p.given = append(m.p.given, give)
		return
	}
	go give()
}

// pressed is a host of hoarders and things, whose clock a test moves.
type pressed struct {
	lab
	clock *clock.Fake
	sync.Mutex
	asked []string
	slow  bool     // what is asked for is given when the test says so
	given []func() // by these
}

const mib = 1 << 20

func newPressed(t *testing.T, o actor.Options) *pressed {
	p := &pressed{clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	store := storage.NewMemory()
	t.Cleanup(func() { store.Close() })
	if o.Isolates == 0 {
		o.Isolates = 1
	}
	o.Store, o.Clock, o.Logger, o.EvictAfter = store, p.clock, quiet, -1
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	things.Register(h)
	h.Register("hoarder", func() actor.Machine { return &hoarder{p: p} })
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	p.lab = lab{t, h}
	// Time goes on, slowly: a member that has not quite ended its turn is looked at again a
	// little later.
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
				p.clock.Advance(5 * time.Millisecond)
			}
		}
	}()
	t.Cleanup(func() { close(over); <-gone })
	t.Cleanup(func() { // hoarders never rest
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(over)
	})
	return p
}

func hoarderID(name string) storage.ID { return storage.ID{Class: "hoarder", Name: name} }

func (p *pressed) hoards(name string, bytes int64, needed bool) <-chan error {
	p.Helper()
	done := make(chan error, 1)
	if err := p.Send(hoarderID(name), hoard{bytes, needed, done, nil}, func(err error) { done <- err }); err != nil {
		p.Fatal(err)
	}
	return done
}

func (p *pressed) get(of <-chan error) error {
	p.Helper()
	select {
	case err := <-of:
		return err
	case <-time.After(10 * time.Second):
		p.Fatal("in vain")
		return nil
	}
}

func (p *pressed) eventually(what string, f func() bool) {
	p.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("in vain: %s", what)
		}
	}
}

// charges has a thing charge, and keep that.
func charges(bytes int64) code {
	return func(_ context.Context, s *actor.State) error { _, err := s.Charge(bytes); return err }
}

// give lets one who was asked give.
func (p *pressed) give() {
	p.Helper()
	p.eventually("somebody is asked", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) > 0 })
	p.Lock()
	f := p.given[0]
	p.given = p.given[1:]
	p.Unlock()
	f()
}

func (p *pressed) resting() (names string) {
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		if !p.Active(thingID(n)) {
			names += n
		}
	}
	return names
}

// Over the soft limit objects that rest are evicted, the least recently used first,
// and no more of them than it takes.
func TestPressureEvictsWhatRestsLeastRecentlyUsedFirst(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 8 * mib, SoftLimit: 4 * mib})
	for _, name := range []string{"a", "b", "c"} {
		p.must(name, charges(mib))
		p.clock.Advance(time.Second)
	}
	p.must("a", func(context.Context, *actor.State) error { return nil }) // is the last used now
	p.clock.Advance(time.Second)
	if got := p.resting(); got != "de" {
		t.Fatalf("below the soft limit %q are at rest", got)
	}
	p.must("d", charges(2*mib))
	p.eventually("the least recently used have gone", func() bool { return p.resting() == "bce" })
	p.clock.Advance(5 * time.Second)
	if got := p.resting(); got != "bce" || p.Heap(0) > 4*mib {
		t.Errorf("%q are at rest, and %d bytes are charged", got, p.Heap(0))
	}
	p.has("b", "") // and is back
}

// What is at work, waits for something or is said to be needed is not taken; that
// which can't be reclaimed now is when it rests, though nobody charges any more.
func TestPressureTakesNothingThatIsNeeded(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 8 * mib, SoftLimit: 2 * mib})
	end := make(chan struct{})
	began := make(chan struct{})
	waits := p.begin("a", func(ctx context.Context, s *actor.State) error {
		if _, err := s.Charge(3 * mib); err != nil {
			return err
		}
		close(began)
		return s.Await(ctx, func(context.Context) error { <-end; return nil })
	})
	<-began
	if err := p.get(p.hoards("needed", mib, true)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		p.clock.Advance(time.Second)
		time.Sleep(settle)
	}
	p.Lock()
	asked := len(p.asked)
	p.Unlock()
	if asked > 0 || !p.Active(thingID("a")) || p.Heap(0) < 4*mib {
		t.Fatalf("%q were asked, and %d bytes are charged", p.asked, p.Heap(0))
	}
	close(end)
	if err := p.get(waits); err != nil {
		t.Fatal(err)
	}
	p.eventually("it is evicted when it rests", func() bool {
		p.clock.Advance(time.Second)
		return !p.Active(thingID("a"))
	})
}

// A charge that does not fit waits while what is reclaimed makes room, as in an
// await: other events of its object run, and what was written before is durable.
func TestAChargeWaitsForWhatIsReclaimed(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 4 * mib, SoftLimit: 4 * mib})
	p.slow = true
	for _, name := range []string{"first", "second"} {
		if err := p.get(p.hoards(name, 3*mib/2, false)); err != nil {
			t.Fatal(err)
		}
		p.clock.Advance(time.Second)
	}
	charged := p.begin("a", func(_ context.Context, s *actor.State) error {
		if err := s.Put("k", []byte("v")); err != nil {
			return err
		}
		_, err := s.Charge(2 * mib)
		return err
	})
	p.eventually("it waits", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) == 1 })
	p.has("a", "k=v ")
	behind := p.begin("b", charges(mib/4)) // would fit, and waits for its turn
	select {
	case err := <-charged:
		t.Fatalf("it did not wait: %v", err)
	case err := <-behind:
		t.Fatalf("it went past who waits: %v", err)
	case <-time.After(settle):
	}
	p.give()
	for _, of := range []<-chan error{charged, behind} {
		if err := p.get(of); err != nil {
			t.Fatal(err)
		}
	}
	if p.Lock(); fmt.Sprint(p.asked) != "[first]" {
		t.Errorf("%q were asked", p.asked)
	}
	p.Unlock()
	if p.Heap(0) > 4*mib || p.Epoch(hoarderID("second")) == 0 {
		t.Errorf("%d bytes are charged", p.Heap(0))
	}
}

// Who gives up waiting is in nobody's way any more.
func TestAChargeThatIsGivenUpLetsThoseBehindItPass(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 4 * mib, SoftLimit: 4 * mib})
	p.slow = true
	if err := p.get(p.hoards("rests", 3*mib, false)); err != nil {
		t.Fatal(err)
	}
	until, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	if err := p.Send(hoarderID("first"), hoard{2 * mib, true, first, until}, nil); err != nil {
		t.Fatal(err)
	}
	p.eventually("it waits", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) == 1 })
	behind := p.begin("a", charges(mib/2))
	select {
	case err := <-behind:
		t.Fatalf("it went past who waits: %v", err)
	case <-time.After(settle):
	}
	giveUp()
	if err := p.get(first); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	if err := p.get(behind); err != nil {
		t.Error(err)
	}
}

// A charge that waits in a transaction keeps everybody out, and is one commit with it.
func TestAChargeWaitsInATransaction(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 4 * mib})
	p.slow = true
	if err := p.get(p.hoards("h", 3*mib, false)); err != nil {
		t.Fatal(err)
	}
	charged := p.begin("a", func(ctx context.Context, s *actor.State) error {
		return s.Transaction(ctx, func(context.Context) error {
			if err := s.Put("k", []byte("1")); err != nil {
				return err
			}
			if _, err := s.Charge(2 * mib); err != nil {
				return err
			}
			return s.Put("k", []byte("2"))
		})
	})
	p.eventually("it waits", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) == 1 })
	if v, err := p.Store().Get(t.Context(), thingID("a"), "k"); v != nil || err != nil {
		t.Errorf("a part of the transaction has been committed: %q %v", v, err)
	}
	p.give()
	if err := p.get(charged); err != nil {
		t.Fatal(err)
	}
	p.has("a", "k=2 ")
}

// It does not wait for ever, nor where that can't help; then the isolate is reset, and
// the error names the victim and the holders.
func TestAChargeThatWaitsInVainResetsTheIsolate(t *testing.T) {
	for name, tc := range map[string]struct {
		soft    int64
		bytes   int64
		advance time.Duration
		give    bool
		says    string
	}{
		"reclamation is off":            {-1, 2 * mib, 0, false, "asked for 2097152 more; the largest"},
		"more than could be given":      {0, 4 * mib, 0, false, "asked for 4194304 more; the largest"},
		"more than can be added up":     {0, math.MaxInt64, 0, false, "asked for 9223372036854775807 more; the largest"},
		"nobody gives within the time":  {0, 2 * mib, 16 * time.Second, false, "waited 15s for what is being reclaimed"},
		"what is given is less than it": {0, 3*mib + mib/2, 0, true, "nothing more could be reclaimed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPressed(t, actor.Options{HeapLimit: 4 * mib, SoftLimit: tc.soft})
			p.slow = true
			if err := p.get(p.hoards("rests", 2*mib, false)); err != nil {
				t.Fatal(err)
			}
			end, began := make(chan struct{}), make(chan struct{})
			defer close(end)
			held := p.begin("holder", func(ctx context.Context, s *actor.State) error {
				if _, err := s.Charge(mib); err != nil {
					return err
				}
				close(began)
				return s.Await(ctx, func(context.Context) error { <-end; return nil })
			})
			<-began
			failed := p.begin("a", charges(tc.bytes))
			if tc.give {
				p.give()
			}
			if tc.advance > 0 {
				p.eventually("it waits", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) == 1 })
				time.Sleep(settle) // its time begins when it waits
				p.clock.Advance(tc.advance)
			}
			err := p.get(failed)
			if actor.CauseOf(err) != actor.MemoryLimit || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "thing/a asked") {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if err := p.get(held); actor.CauseOf(err) != actor.MemoryLimit || !strings.Contains(err.Error(), "thing/holder (") {
				t.Errorf("who holds got %v", err)
			}
			p.must("a", charges(mib)) // there is room again
		})
	}
}

// A reset of who waits takes the waiting along: nothing is charged to nobody.
func TestWhoIsResetWaitsNoMore(t *testing.T) {
	p := newPressed(t, actor.Options{HeapLimit: 4 * mib})
	p.slow = true
	if err := p.get(p.hoards("h", 3*mib, false)); err != nil {
		t.Fatal(err)
	}
	failed := p.hoards("a", 3*mib/2, true)
	p.eventually("it waits", func() bool { p.Lock(); defer p.Unlock(); return len(p.given) == 1 })
	behind := p.begin("b", charges(3*mib/2))
	p.eventually("b is there", func() bool { return p.Epoch(thingID("b")) != 0 })
	time.Sleep(settle)
	p.Reset(hoarderID("a"), actor.Aborted, nil)
	if err := p.get(failed); actor.CauseOf(err) != actor.Aborted {
		t.Errorf("got %v", err)
	}
	p.give()
	if err := p.get(behind); err != nil {
		t.Fatal(err)
	}
	if heap := p.Heap(0); heap < 3*mib/2 || heap > 2*mib {
		t.Errorf("%d bytes are charged", heap)
	}
}

// The demonstration: a class fills an isolate of 64 MiB. With what rests being
// reclaimed the same load goes on for ever; without it the next charge, whosever it
// is, resets that isolate, and exactly its objects.
func TestAClassFillsAnIsolateOf64MiB(t *testing.T) {
	for name, soft := range map[string]int64{"reclaiming": 0, "not reclaiming": -1} {
		t.Run(name, func(t *testing.T) {
			p := newPressed(t, actor.Options{Isolates: 2, HeapLimit: 64 * mib, SoftLimit: soft})
			in := func(isolate, n int) (names []string) {
				for k := 0; len(names) < n; k++ {
					if name := fmt.Sprint("object-", k); p.IsolateOf(thingID(name)) == isolate {
						names = append(names, name)
					}
				}
				return names
			}
			full, other := in(0, 200), in(1, 5)
			for _, name := range other {
				p.must(name, charges(8*mib))
			}
			epochs := map[string]uint64{}
			for _, name := range other {
				epochs[name] = p.Epoch(thingID(name))
			}
			for n, name := range full {
				err := p.in(name, charges(mib))
				p.clock.Advance(10 * time.Millisecond)
				if soft == 0 {
					if err != nil {
						t.Fatalf("object %d: %v", n, err)
					}
					continue
				}
				if n < 63 {
					if err != nil {
						t.Fatalf("object %d: %v", n, err)
					}
					continue
				}
				// 64 MiB and what the objects themselves take: the innocent last one pays.
				for _, want := range []string{"isolate 0 holds", name + " asked for 1048576 more", full[0] + " (", actor.MemoryLimit.Sentence()} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("object %d does not say %q: %v", n, want, err)
					}
				}
				for _, name := range full[:n] {
					p.eventually(name+" has been reset", func() bool { return !p.Active(thingID(name)) })
				}
				break
			}
			for _, name := range other {
				if p.Epoch(thingID(name)) != epochs[name] {
					t.Errorf("%s of the other isolate was reset", name)
				}
			}
			p.must(full[0], charges(mib)) // and on it goes
		})
	}
}
