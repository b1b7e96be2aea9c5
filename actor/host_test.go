package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// counter is the object that most tests use.
type counter struct {
	state  *actor.State
	memory int
	turns  atomic.Int32
}

var (
	counters = actor.Define("counter", func(_ context.Context, s *actor.State) (*counter, error) {
		if strings.HasPrefix(s.ID().Name, "unmakeable") {
			return nil, errors.New("no such luck")
		}
		return &counter{state: s}, nil
	})
	incr = actor.Method(counters, "incr", func(c *counter, _ context.Context, by int) (int, error) {
		if c.turns.Add(1) != 1 {
			return 0, errors.New("two turns at once")
		}
		defer c.turns.Add(-1)
		v, err := c.state.Get("n")
		if err != nil {
			return 0, err
		}
		n, _ := strconv.Atoi(string(v))
		c.memory++
		return n + by, c.state.Put("n", []byte(strconv.Itoa(n+by)))
	})
	epoch = actor.Method(counters, "epoch", func(c *counter, _ context.Context, _ int) (uint64, error) {
		return c.state.Epoch(), nil
	})
	memory = actor.Method(counters, "memory", func(c *counter, _ context.Context, _ int) (int, error) {
		return c.memory, nil
	})
	await = actor.Method(counters, "await", func(c *counter, ctx context.Context, ms int) (int, error) {
		before := c.memory
		err := c.state.Await(ctx, func(ctx context.Context) error {
			select {
			case <-time.After(time.Duration(ms) * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		})
		return c.memory - before, err
	})
	outside = actor.Method(counters, "outside", func(c *counter, ctx context.Context, _ int) (int, error) {
		return 0, c.state.Await(ctx, func(context.Context) error {
			if _, err := c.state.Get("n"); !errors.Is(err, actor.ErrNoTurn) {
				return fmt.Errorf("State works while awaiting: %v", err)
			}
			return nil
		})
	})
	boom = actor.Method(counters, "boom", func(*counter, context.Context, int) (int, error) { panic("boom") })
	spin = actor.Method(counters, "spin", func(c *counter, _ context.Context, _ int) (int, error) {
		time.Sleep(300 * time.Millisecond)
		return 0, c.state.Put("n", []byte("666"))
	})
	charge = actor.Method(counters, "charge", func(c *counter, _ context.Context, n int) (int, error) {
		_, err := c.state.Charge(int64(n))
		return n, err
	})
	setAlarm = actor.Method(counters, "setAlarm", func(c *counter, _ context.Context, ms int) (int, error) {
		return 0, c.state.SetAlarm(time.Now().Add(time.Duration(ms) * time.Millisecond))
	})
)

var alarms sync.Map // name -> chan alarm.Info

func (c *counter) Alarm(_ context.Context, info alarm.Info) error {
	ch, ok := alarms.Load(c.state.ID().Name)
	if !ok {
		return nil
	}
	if at, err := c.state.Alarm(); err != nil || !at.IsZero() {
		return fmt.Errorf("the alarm is set while it runs: %v %v", at, err)
	}
	n, _ := c.state.Get("n")
	m, _ := strconv.Atoi(string(n))
	if err := c.state.Put("n", []byte(strconv.Itoa(m+1))); err != nil {
		return err
	}
	ch.(chan alarm.Info) <- info
	return nil
}

func start(t *testing.T, o actor.Options) *actor.Host {
	t.Helper()
	if o.Store == nil {
		s := storage.NewMemory()
		t.Cleanup(func() { s.Close() })
		o.Store = s
	}
	o.Logger = quiet
	h, err := actor.NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	counters.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return h
}

func id(name string) storage.ID { return storage.ID{Class: "counter", Name: name} }

func do(t *testing.T, h *actor.Host, name string, c actor.Call[int, int], in int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	n, err := c.Do(ctx, h.Stub(id(name)), in)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOneTurnAtATimeI5(t *testing.T) {
	h := start(t, actor.Options{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if _, err := incr.Do(t.Context(), h.Stub(id("a")), 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := do(t, h, "a", incr, 0); n != 1000 {
		t.Fatalf("counted %d of 1000", n)
	}
}

func TestAwaitLetsOthersIn(t *testing.T) {
	h := start(t, actor.Options{})
	do(t, h, "a", incr, 1)
	seen := make(chan int)
	go func() { seen <- do(t, h, "a", await, 200) }()
	time.Sleep(50 * time.Millisecond)
	do(t, h, "a", incr, 1)
	do(t, h, "a", incr, 1)
	if n := <-seen; n != 2 {
		t.Fatalf("%d events ran during the await, want 2", n)
	}
}

func TestStateIsClosedWhileAwaiting(t *testing.T) {
	do(t, start(t, actor.Options{}), "a", outside, 0)
}

func TestEvictionKeepsStorageAndLosesNoEvent(t *testing.T) {
	h := start(t, actor.Options{EvictAfter: time.Nanosecond})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				if _, err := incr.Do(t.Context(), h.Stub(id("a")), 1); err != nil {
					t.Error(err)
				}
				if i == 50 {
					time.Sleep(1200 * time.Millisecond) // longer than a round of the sweep
				}
			}
		})
	}
	wg.Wait()
	if n := do(t, h, "a", incr, 0); n != 400 {
		t.Fatalf("counted %d of 400", n)
	}
	if n := do(t, h, "a", memory, 0); n >= 401 {
		t.Fatalf("the object was never evicted: it remembers %d calls", n)
	}
}

func TestEpochGrowsWithEveryActivationI4(t *testing.T) {
	h := start(t, actor.Options{})
	last := uint64(0)
	for range 20 {
		e, err := epoch.Do(t.Context(), h.Stub(id("a")), 0)
		if err != nil {
			t.Fatal(err)
		}
		if e <= last {
			t.Fatalf("epoch %d follows %d", e, last)
		}
		last = e
		h.Reset(id("a"), actor.Aborted, nil)
	}
}

func TestResetBreaksTheIsolateAndNoOtherI10(t *testing.T) {
	h := start(t, actor.Options{Isolates: 2})
	epochs := map[string]uint64{}
	read := func(name string) uint64 {
		e, err := epoch.Do(t.Context(), h.Stub(id(name)), 0)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for i := range 20 {
		name := fmt.Sprint("o", i)
		epochs[name] = read(name)
	}
	if _, err := h.ResetIsolate(1, actor.MemoryLimit, nil); err != nil {
		t.Fatal(err)
	}
	reset := 0
	for name, before := range epochs {
		after := read(name)
		if in1 := h.IsolateOf(id(name)) == 1; in1 != (after > before) {
			t.Errorf("%s of isolate %d: epoch %d, then %d", name, h.IsolateOf(id(name)), before, after)
		} else if in1 {
			reset++
		}
	}
	if reset == 0 || reset == len(epochs) {
		t.Fatalf("%d of %d objects live in isolate 1: the test shows nothing", reset, len(epochs))
	}
}

func TestCallsInFlightFailWithTheCause(t *testing.T) {
	h := start(t, actor.Options{})
	do(t, h, "a", incr, 1)
	failed := make(chan error, 2)
	for range 2 {
		go func() { _, err := await.Do(t.Context(), h.Stub(id("a")), 60_000); failed <- err }()
	}
	time.Sleep(50 * time.Millisecond)
	h.Reset(id("a"), actor.MemoryLimit, nil)
	for range 2 {
		err := <-failed
		var e *actor.Error
		if !errors.As(err, &e) || e.Cause != actor.MemoryLimit || !e.Reset() || !e.Transient() {
			t.Fatalf("got %v", err)
		}
		if !strings.Contains(err.Error(), "Durable Object's isolate exceeded its memory limit and was reset.") {
			t.Errorf("the sentence is missing: %v", err)
		}
	}
	if n := do(t, h, "a", incr, 0); n != 1 {
		t.Fatalf("the count is %d after the reset, want 1", n)
	}
}

func TestAbandonedTurnWritesNothing(t *testing.T) {
	h := start(t, actor.Options{})
	do(t, h, "a", incr, 1)
	failed := make(chan error, 1)
	go func() { _, err := spin.Do(t.Context(), h.Stub(id("a")), 0); failed <- err }()
	time.Sleep(50 * time.Millisecond)
	h.Reset(id("a"), actor.CPULimit, nil)
	if err := <-failed; actor.CauseOf(err) != actor.CPULimit {
		t.Fatalf("got %v", err)
	}
	do(t, h, "a", incr, 1) // the next incarnation does not wait for the old goroutine
	time.Sleep(400 * time.Millisecond)
	if n := do(t, h, "a", incr, 0); n != 2 {
		t.Fatalf("the abandoned turn has written: %d", n)
	}
}

func TestPanicIsAnErrorAndAReset(t *testing.T) {
	h := start(t, actor.Options{})
	do(t, h, "a", incr, 1)
	_, err := boom.Do(t.Context(), h.Stub(id("a")), 0)
	if actor.CauseOf(err) != actor.Panicked || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("got %v", err)
	}
	if n := do(t, h, "a", memory, 0); n != 0 {
		t.Fatalf("memory survived the panic: %d", n)
	}
}

func TestConstructorFailureReachesTheCaller(t *testing.T) {
	h := start(t, actor.Options{})
	for range 3 {
		_, err := incr.Do(t.Context(), h.Stub(id("unmakeable")), 1)
		if actor.CauseOf(err) != actor.ConstructorFailed || !strings.Contains(err.Error(), "no such luck") {
			t.Fatalf("got %v", err)
		}
	}
}

func TestQueueIsBoundedI12(t *testing.T) {
	h := start(t, actor.Options{MaxQueued: 5})
	do(t, h, "a", incr, 1)
	go spin.Do(t.Context(), h.Stub(id("a")), 0)
	time.Sleep(50 * time.Millisecond)
	accepted := 0
	var last error
	for range 20 {
		if err := h.Send(id("a"), "an event that nobody knows", nil); err != nil {
			last = err
		} else {
			accepted++
		}
	}
	var e *actor.Error
	if !errors.As(last, &e) || !e.Overloaded() || accepted > 5 {
		t.Fatalf("accepted %d of 20 with room for 5; error %v", accepted, last)
	}
}

func TestChargePastTheLimitResetsTheIsolate(t *testing.T) {
	h := start(t, actor.Options{Isolates: 1, HeapLimit: 1 << 20, SoftLimit: -1})
	do(t, h, "big", charge, 900<<10)
	do(t, h, "small", incr, 1)
	_, err := charge.Do(t.Context(), h.Stub(id("small")), 200<<10)
	if actor.CauseOf(err) != actor.MemoryLimit {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"counter/small asked for", "counter/big ("} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if n := do(t, h, "big", memory, 0); n != 0 {
		t.Error("the holder was not reset")
	}
	do(t, h, "small", charge, 200<<10) // there is room again
}

func TestAlarmRunsOnceAndIsGone(t *testing.T) {
	h := start(t, actor.Options{})
	ch := make(chan alarm.Info, 10)
	alarms.Store("ring", ch)
	set := time.Now()
	do(t, h, "ring", setAlarm, 100)
	info := <-ch
	if early := info.Scheduled.Sub(set); time.Since(set) < 100*time.Millisecond || early < 100*time.Millisecond || info.Retry != 0 {
		t.Fatalf("fired after %v: %+v", time.Since(set), info)
	}
	time.Sleep(100 * time.Millisecond)
	if len(ch) != 0 {
		t.Fatal("the alarm ran again")
	}
	if a, err := h.Store().Alarm(t.Context(), id("ring")); err != nil || !a.At.IsZero() {
		t.Fatalf("the row is left: %+v %v", a, err)
	}
}

// slowStore holds back the confirmation of batches.
type slowStore struct {
	storage.Store
	mu   sync.Mutex
	hold chan struct{} // closed: go on
	fail error
}

func (s *slowStore) Submit(b *storage.Batch, done func(error)) {
	s.mu.Lock()
	hold, fail := s.hold, s.fail
	s.mu.Unlock()
	s.Store.Submit(b, func(err error) {
		if hold == nil {
			done(err)
			return
		}
		go func() {
			<-hold
			if fail != nil {
				err = fail
			}
			done(err)
		}()
	})
}

func TestNothingLeavesBeforeItsWritesAreDurableI2(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{})}
	h := start(t, actor.Options{Store: slow})
	got := make(chan int, 2)
	go func() { got <- do(t, h, "a", incr, 1) }()
	time.Sleep(50 * time.Millisecond)
	go func() { got <- do(t, h, "a", memory, 0) }() // writes nothing, but reads what is not durable
	time.Sleep(100 * time.Millisecond)
	if len(got) != 0 {
		t.Fatal("a reply left before the write it rests on was durable")
	}
	close(slow.hold)
	if a, b := <-got, <-got; a != 1 || b != 1 {
		t.Fatalf("got %d and %d", a, b)
	}
}

func TestFailedCommitResetsAndNothingLeavesI2(t *testing.T) {
	mem := storage.NewMemory()
	defer mem.Close()
	slow := &slowStore{Store: mem, hold: make(chan struct{}), fail: errors.New("the disk is gone")}
	h := start(t, actor.Options{Store: slow})
	failed := make(chan error, 1)
	go func() { _, err := incr.Do(t.Context(), h.Stub(id("a")), 1); failed <- err }()
	time.Sleep(50 * time.Millisecond)
	close(slow.hold)
	if err := <-failed; actor.CauseOf(err) != actor.CommitFailed {
		t.Fatalf("got %v", err)
	}
}

func TestShutdownRefusesAndComesToRest(t *testing.T) {
	h := start(t, actor.Options{})
	for i := range 50 {
		do(t, h, fmt.Sprint("o", i), incr, 1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := incr.Do(t.Context(), h.Stub(id("o1")), 1)
	var e *actor.Error
	if !errors.As(err, &e) || e.Cause != actor.Shutdown || !e.Retryable() {
		t.Fatalf("got %v", err)
	}
}

func TestAClassHasANameThatObjectsCanHave(t *testing.T) {
	l := newLab(t, actor.Options{})
	for _, class := range []string{"", "a/b", "a b", "a\x00b", "\xff", "é", strings.Repeat("c", 65), "kalpa.host"} {
		h, err := actor.NewHost(actor.Options{Store: l.Store(), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("class %q is registered, and no object of it can be reached", class)
				}
			}()
			actor.Define(class, func(_ context.Context, s *actor.State) (*thing, error) { return &thing{s}, nil }).Register(h)
		}()
		if err := h.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
