package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// What clients see of an object is a history that one object could have had which
// does one thing at a time and is never reset: it is linearizable. Porcupine looks
// for that order of each history's operations.

// cell is an object that is a counter and a register.
type cell struct{ state *actor.State }

// operation is what a client asks a cell.
type operation struct {
	Verb string `json:"verb"`
	N    int    `json:"n"`
}

// seen is what it is told. Unknown: the call was lost, and may have run or not.
type seen struct {
	n       int
	unknown bool
}

var (
	cells   = actor.Define("cell", func(_ context.Context, s *actor.State) (*cell, error) { return &cell{s}, nil })
	operate = actor.Method(cells, "operate", func(c *cell, ctx context.Context, op operation) (int, error) {
		n, err := c.read()
		if err != nil {
			return 0, err
		}
		pause := func(ctx context.Context) error {
			time.Sleep(time.Duration(op.N%3) * 100 * time.Microsecond)
			return nil
		}
		switch op.Verb {
		case "read":
			return n, nil
		case "write":
			return 0, c.write(op.N)
		case "add":
			return n + op.N, c.write(n + op.N)
		case "await add": // others run meanwhile
			if err := c.state.Await(ctx, pause); err != nil {
				return 0, err
			}
			if n, err = c.read(); err != nil {
				return 0, err
			}
			return n + op.N, c.write(n + op.N)
		case "await read":
			return n, c.state.Await(ctx, pause)
		case "critical add": // others don't
			return n + op.N, c.state.Critical(ctx, func(ctx context.Context) error {
				if err := c.state.Await(ctx, pause); err != nil {
					return err
				}
				return c.write(n + op.N)
			})
		case "transact add":
			return n + op.N, c.state.Transaction(ctx, func(ctx context.Context) error {
				if err := c.write(-1); err != nil {
					return err
				}
				if err := c.state.Await(ctx, pause); err != nil {
					return err
				}
				return c.write(n + op.N)
			})
		case "rollback":
			return n, c.state.Transaction(ctx, func(ctx context.Context) error {
				if err := c.write(-1); err != nil {
					return err
				}
				if err := c.state.Await(ctx, pause); err != nil {
					return err
				}
				return actor.ErrRollback
			})
		case "broken add": // writes what it read before it let others in
			if err := c.state.Await(ctx, pause); err != nil {
				return 0, err
			}
			return n + op.N, c.write(n + op.N)
		}
		return 0, errors.New("no such verb")
	})
)

func (c *cell) read() (int, error) {
	v, err := c.state.Get("n")
	n, _ := strconv.Atoi(string(v))
	return n, err
}

func (c *cell) write(n int) error { return c.state.Put("n", []byte(strconv.Itoa(n))) }

// model is a cell that does one thing at a time.
var model = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		n, op, out := state.(int), input.(operation), output.(seen)
		switch op.Verb {
		case "write":
			return true, op.N
		case "read", "await read", "rollback":
			return out.unknown || out.n == n, n
		default:
			return out.unknown || out.n == n+op.N, n + op.N
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

var verbs = []string{"read", "write", "add", "add", "await add", "await read", "critical add", "transact add", "rollback"}

// A history is made by clients that ask a few objects, while objects and isolates
// are reset, struck at points of their executions, and evicted.
const (
	historyClients = 5
	historyOps     = 12 // of each client
	historyObjects = 2
)

// lived says what happened in a run, so that a test sees that something did.
type lived struct{ resets, lost, epochs atomic.Int64 }

func history(t *testing.T, seed uint64, verbs []string, l *lived) []porcupine.Operation {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	c := clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	store := storage.NewMemory()
	defer store.Close()
	h, err := actor.NewHost(actor.Options{
		Store: store, Clock: c, Logger: quiet, Isolates: 2, EvictAfter: time.Nanosecond, Random: rand.New(rand.NewPCG(seed, 2)),
	})
	if err != nil {
		t.Fatal(err)
	}
	cells.Register(h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	for _, point := range []actor.Point{actor.BeforeCommit, actor.AfterCommit} {
		strike := actor.Strike{Point: point, Cause: actor.MemoryLimit, Scope: actor.Scope(seed % 2), Probability: 0.03, Times: -1}
		if _, err := h.Chaos().Arm(strike); err != nil {
			t.Fatal(err)
		}
	}

	var mu sync.Mutex
	var ops []porcupine.Operation
	epochs := map[string]bool{}
	begun := time.Now()
	now := func() int64 { return time.Since(begun).Nanoseconds() }
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { // whoever hangs is told from the stacks
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			stacks := make([]byte, 4<<20)
			t.Logf("KALPA_SEED=%d hangs:\n%s", seed, stacks[:runtime.Stack(stacks, true)])
		}
	})()
	id := func(i int) storage.ID { return cells.ID(fmt.Sprint("cell", i)) }

	var clients, weather sync.WaitGroup
	var calm atomic.Bool // nothing breaks any more, but time goes on
	over := make(chan struct{})
	defer weather.Wait()
	defer close(over)
	weather.Go(func() { // the clock goes on, so that what rests is evicted; and things break
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Microsecond):
			}
			c.Advance(100 * time.Millisecond)
			if calm.Load() {
				continue
			}
			switch victim := random.IntN(8 * historyObjects); {
			case victim < historyObjects:
				e := h.Reset(id(victim), actor.CPULimit, nil)
				if e != 0 {
					l.resets.Add(1)
				}
			case victim == historyObjects:
				n, _ := h.ResetIsolate(random.IntN(2), actor.MemoryLimit, nil)
				l.resets.Add(int64(n))
			}
			for i := range historyObjects {
				if e := fmt.Sprint(i, h.Epoch(id(i))); !epochs[e] {
					epochs[e] = true
					l.epochs.Add(1)
				}
			}
		}
	})
	for client := range historyClients {
		random := rand.New(rand.NewPCG(seed, 10+uint64(client)))
		clients.Go(func() {
			for range historyOps {
				which := random.IntN(historyObjects)
				op := operation{verbs[random.IntN(len(verbs))], 1 + random.IntN(100)}
				do := operate.Do
				if random.IntN(3) == 0 {
					do = operate.DoOnce
				}
				call := now()
				n, err := do(ctx, h.Stub(id(which)), op)
				o := porcupine.Operation{ClientId: client, Input: op, Call: call, Output: seen{n: n}, Return: now(), Metadata: which}
				if err != nil {
					if actor.CauseOf(err) == actor.NoCause && !errors.Is(err, actor.ErrUnfinished) {
						t.Errorf("seed %d: %v", seed, err)
					}
					// Nobody knows; it may run until the very end.
					o.Output, o.Return = seen{unknown: true}, int64(1)<<62
					l.lost.Add(1)
				}
				mu.Lock()
				ops = append(ops, o)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	calm.Store(true)
	// What is stored in the end is the last thing that is seen.
	for _, armed := range h.Chaos().Armed() {
		h.Chaos().Disarm(armed.Number)
	}
	for i := range historyObjects {
		call := now()
		n, err := operate.Do(ctx, h.Stub(id(i)), operation{Verb: "read"})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ops = append(ops, porcupine.Operation{ClientId: historyClients, Input: operation{Verb: "read"}, Call: call, Output: seen{n: n}, Return: now(), Metadata: i})
	}
	if err := h.Shutdown(ctx); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return ops
}

// judge checks the history of each object by itself.
func judge(ops []porcupine.Operation) porcupine.CheckResult {
	for i := range historyObjects {
		var of []porcupine.Operation
		for _, o := range ops {
			if o.Metadata == i {
				of = append(of, o)
			}
		}
		if r := porcupine.CheckOperationsTimeout(model, of, time.Minute); r != porcupine.Ok {
			return r
		}
	}
	return porcupine.Ok
}

// KALPA_HISTORIES is how many histories are made, KALPA_SEED the first one's seed.
func TestWhatClientsSeeIsLinearizable(t *testing.T) {
	n, seed := 50, uint64(1)
	for name, set := range map[string]func(int){
		"KALPA_HISTORIES": func(v int) { n = v }, "KALPA_SEED": func(v int) { seed = uint64(v) },
	} {
		if text := os.Getenv(name); text != "" {
			v, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			set(v)
		}
	}
	var l lived
	for end := seed + uint64(n); seed < end; seed++ {
		ops := history(t, seed, verbs, &l)
		if r := judge(ops); r != porcupine.Ok {
			for _, o := range ops {
				t.Logf("%v client %d %+v: %+v, %v to %v", o.Metadata, o.ClientId, o.Input, o.Output, time.Duration(o.Call), time.Duration(o.Return))
			}
			t.Fatalf("KALPA_SEED=%d: the history is %s", seed, r)
		}
	}
	t.Logf("%d histories: %d resets on purpose, %d calls lost, %d incarnations seen", n, l.resets.Load(), l.lost.Load(), l.epochs.Load())
	if l.resets.Load() < int64(n)/10 || l.lost.Load() < int64(n)/10 || l.epochs.Load() < 3*int64(n) {
		t.Error("too little has happened to show anything")
	}
}

// The checker can fail: it finds an object that loses updates.
func TestLostUpdatesAreNotLinearizable(t *testing.T) {
	var l lived
	for seed := uint64(1); seed <= 50; seed++ {
		if judge(history(t, seed, []string{"broken add"}, &l)) == porcupine.Illegal {
			return
		}
	}
	t.Error("no history of an object that loses updates is rejected")
}
