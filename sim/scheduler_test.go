package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/sim"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(abandoned...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// abandoned leaves out the goroutines of worlds that are broken on purpose, of which
// one may panic with a lock in its hand: it can't be closed.
var abandoned []goleak.Option

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// history lets three actors play ball, with a timer now and then, and returns
// what happened in which order.
func history(seed uint64) (h []string) {
	s := sim.NewScheduler(seed, start)
	defer s.Close()
	p := s.NewProcess()
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
				p.AfterFunc(time.Duration(n%3)*time.Second, func() { sys.Root.Send(next, 0) })
			}
		}, pa.WithDispatcher(p)), fmt.Sprintf("player-%d", i))
		if err != nil {
			panic(err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		sys.Root.Send(pid, 20)
	}
	if err := s.Run(start.Add(time.Hour)); err != nil {
		panic(err)
	}
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
	defer s.Close()
	p := s.NewProcess()
	var at []time.Duration
	note := func() { at = append(at, s.Now().Sub(start)) }
	p.AfterFunc(2*time.Second, note)
	p.AfterFunc(time.Second, func() { note(); p.AfterFunc(500*time.Millisecond, note) })
	stopped := p.AfterFunc(time.Second, note)
	p.AfterFunc(time.Hour, note)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("a timer is stopped once")
	}
	if err := s.Run(start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second}
	if !slices.Equal(at, want) || !s.Now().Equal(start.Add(time.Minute)) {
		t.Fatalf("timers fired at %v, now %v", at, s.Now())
	}
}

func TestEventsWaitForOneAnother(t *testing.T) {
	for seed := range uint64(50) {
		s := sim.NewScheduler(seed, start)
		p := s.NewProcess()
		ping, pong := p.Signal(), p.Signal()
		var got []int
		p.Go(func() {
			for i := range 5 {
				got = append(got, 2*i)
				pong.Set()
				ping.Wait()
			}
		})
		p.Go(func() {
			for i := range 5 {
				pong.Wait()
				got = append(got, 2*i+1)
				ping.Set()
			}
		})
		if err := s.Run(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v", seed, got)
		}
		s.Close()
	}
}

// A killed process leaves nothing behind, whoever kills it; goleak sees what it would.
func TestKilledProcessDoesNothingMore(t *testing.T) {
	for seed := range uint64(50) {
		s := sim.NewScheduler(seed, start)
		p, other := s.NewProcess(), s.NewProcess()
		cleaned, after := 0, 0
		for range 3 {
			p.Go(func() {
				defer func() { cleaned++ }()
				p.Signal().Wait()
				after++
			})
		}
		woken := p.Signal()
		p.Go(func() { woken.Wait(); after++ })
		killer := func() {
			woken.Set() // what is resumed and has not gone on is killed as well
			p.Kill()
			if seed%2 == 0 {
				after++
			}
		}
		if seed%2 == 0 {
			p.AfterFunc(time.Second, killer)
		} else {
			other.AfterFunc(time.Second, killer)
		}
		p.AfterFunc(2*time.Second, func() { after++ })
		p.Go(func() { p.AfterFunc(time.Minute, func() { after++ }) })
		lives := false
		other.AfterFunc(3*time.Second, func() { lives = true })
		if err := s.Run(start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if cleaned != 3 || after != 0 || !lives || !p.Dead() {
			t.Fatalf("seed %d: %d of 3 cleaned up, %d events after the end, the other lives: %v", seed, cleaned, after, lives)
		}
		s.Close()
	}
}

func TestPausedProcessCatchesUp(t *testing.T) {
	s := sim.NewScheduler(1, start)
	defer s.Close()
	p := s.NewProcess()
	var at []time.Duration
	for _, d := range []time.Duration{1, 3, 9} {
		p.AfterFunc(d*time.Second, func() { at = append(at, s.Now().Sub(start)) })
	}
	s.After(2*time.Second, p.Pause)
	s.After(5*time.Second, p.Resume)
	if err := s.Run(start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Second, 5 * time.Second, 9 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("events at %v, want %v", at, want)
	}
}

func TestPanicOfAnEventIsTold(t *testing.T) {
	s := sim.NewScheduler(1, start)
	s.Do(func() { panic("out of cheese") })
	if err := s.Run(start.Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "out of cheese") {
		t.Fatal(err)
	}
	s.Close()
}

func TestStreamsOfRandomNumbersAreTheirOwn(t *testing.T) {
	draw := func(seed uint64, name string) uint64 { return sim.NewScheduler(seed, start).Rand(name).Uint64() }
	if one, again := draw(1, "a"), draw(1, "a"); one != again || draw(1, "a") == draw(1, "b") || draw(1, "a") == draw(2, "a") {
		t.Error("a stream is a function of its seed and its name")
	}
}

func TestContextEndsInEvents(t *testing.T) {
	s := sim.NewScheduler(1, start)
	defer s.Close()
	p := s.NewProcess()
	c := sim.NewContext()
	derived, cancel := context.WithCancel(c)
	defer cancel()
	told, stopped := 0, p.AfterDone(c, func() { t.Error("told after stop") })
	p.AfterDone(c, func() { told++ })
	if !stopped() || stopped() {
		t.Error("stop takes it back once")
	}
	s.After(time.Second, func() { c.Cancel(io.EOF) })
	if err := s.Run(start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if told != 1 || !errors.Is(c.Err(), io.EOF) || derived.Err() == nil {
		t.Errorf("told %d times; %v, %v", told, c.Err(), derived.Err())
	}
}

func BenchmarkEvents(b *testing.B) {
	s := sim.NewScheduler(1, start)
	defer s.Close()
	p := s.NewProcess()
	n := 0
	var f func()
	f = func() {
		if n++; n < b.N {
			p.Go(f)
		}
	}
	p.Go(f)
	_ = s.Run(start.Add(time.Hour))
}

func BenchmarkWaits(b *testing.B) {
	s := sim.NewScheduler(1, start)
	defer s.Close()
	p := s.NewProcess()
	ping, pong := p.Signal(), p.Signal()
	p.Go(func() {
		for range b.N / 2 {
			pong.Set()
			ping.Wait()
		}
	})
	p.Go(func() {
		for range b.N / 2 {
			pong.Wait()
			ping.Set()
		}
	})
	_ = s.Run(start.Add(time.Hour))
}
