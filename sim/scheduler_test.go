package sim_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// history lets three actors play ball, with a timer now and then, and returns
// what happened in which order.
func history(seed uint64) (h []string) {
	s := sim.NewScheduler(seed, start)
	sys := pa.NewActorSystem(pa.WithLoggerFactory(func(*pa.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	var pids []*pa.PID
	for i := range 3 {
		pid, err := sys.Root.SpawnNamed(pa.PropsFromFunc(func(ctx pa.Context) {
			n, ok := ctx.Message().(int)
			if !ok {
				return
			}
			h = append(h, fmt.Sprintf("%v actor %d got %d", s.Now().Sub(start), i, n))
			if n > 0 {
				next := pids[(i+n)%3]
				sys.Root.Send(next, n-1)
				s.AfterFunc(time.Duration(n%3)*time.Second, func() { sys.Root.Send(next, 0) })
			}
		}, pa.WithDispatcher(s.Dispatcher())), fmt.Sprintf("player-%d", i))
		if err != nil {
			panic(err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		sys.Root.Send(pid, 20)
	}
	s.Run(start.Add(time.Hour))
	return h
}

func TestOneSeedIsOneHistoryI14(t *testing.T) {
	distinct := map[string]bool{}
	for seed := range uint64(20) {
		a, b := history(seed), history(seed)
		if !slices.Equal(a, b) {
			t.Fatalf("seed %d gave two histories:\n%q\n%q", seed, a, b)
		}
		if len(a) != 3*21+3*20 {
			t.Fatalf("seed %d: %d messages arrived", seed, len(a))
		}
		distinct[fmt.Sprint(a)] = true
	}
	if len(distinct) < 10 {
		t.Fatalf("20 seeds gave %d histories", len(distinct))
	}
}

func TestTimePassesOnlyBetweenEvents(t *testing.T) {
	s := sim.NewScheduler(1, start)
	var at []time.Duration
	note := func() { at = append(at, s.Now().Sub(start)) }
	s.AfterFunc(2*time.Second, note)
	s.AfterFunc(time.Second, func() { note(); s.AfterFunc(500*time.Millisecond, note) })
	stopped := s.AfterFunc(time.Second, note)
	s.AfterFunc(time.Hour, note)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("a timer is stopped once")
	}
	s.Run(start.Add(time.Minute))
	want := []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second}
	if !slices.Equal(at, want) || !s.Now().Equal(start.Add(time.Minute)) {
		t.Fatalf("timers fired at %v, now %v", at, s.Now())
	}
}
