package alarm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

const million = 1_000_000

// noop is a target without objects: it claims, deletes the row, and is done when
// that is durable. Once all of a number of alarms are done it says so.
type noop struct {
	store storage.Store
	left  atomic.Int64
	all   chan struct{}

	mu   sync.Mutex
	late []time.Duration // from the alarm's time to Fire
}

func newNoop(s storage.Store, expect int) *noop {
	n := &noop{store: s, all: make(chan struct{}), late: make([]time.Duration, 0, expect)}
	n.left.Store(int64(expect))
	return n
}

func (n *noop) Fire(d storage.Due, done func(error)) {
	late := time.Since(d.At)
	n.mu.Lock()
	n.late = append(n.late, late)
	n.mu.Unlock()
	n.store.Claim(d.ID, func(epoch uint64, _ bool, err error) {
		if err != nil {
			done(err)
			return
		}
		n.store.Submit(&storage.Batch{ID: d.ID, Epoch: epoch, Alarm: &storage.Alarm{}}, func(err error) {
			n.store.Release(d.ID, epoch)
			done(err)
			if n.left.Add(-1) == 0 {
				close(n.all)
			}
		})
	})
}

// setAlarms sets the alarms of objects first to first+n-1.
func setAlarms(b *testing.B, s storage.Store, first, n int, at func(i int) time.Time) {
	b.Helper()
	var wg sync.WaitGroup
	window := make(chan struct{}, 4096)
	for i := range n {
		id := storage.ID{Class: "session", Name: fmt.Sprintf("01JQ3Z6T9V%016d", first+i)}
		wg.Add(1)
		window <- struct{}{}
		s.Claim(id, func(epoch uint64, _ bool, err error) {
			if err != nil {
				b.Error(err)
			}
			s.Submit(&storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{At: at(i)}}, func(err error) {
				if err != nil {
					b.Error(err)
				}
				s.Release(id, epoch)
				<-window
				wg.Done()
			})
		})
	}
	wg.Wait()
}

func openBench(b *testing.B, dir string, d storage.Durability) *pebble.Store {
	b.Helper()
	s, err := pebble.Open(pebble.Options{Dir: dir, Durability: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func startBench(b *testing.B, s storage.Store, t alarm.Target) *alarm.Dispatcher {
	b.Helper()
	d, err := alarm.New(alarm.Options{Store: s, Target: t})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.Start(); err != nil {
		b.Fatal(err)
	}
	return d
}

func stopBench(b *testing.B, d *alarm.Dispatcher) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		b.Error(err)
	}
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// idler is an object whose alarm does nothing.
type idler struct{ ran func(early time.Duration) }

func (i *idler) Alarm(_ context.Context, info alarm.Info) error {
	i.ran(time.Until(info.Scheduled))
	return nil
}

// restart is what another process tells of its start.
type restart struct {
	Begun       time.Time
	Open, Ready time.Duration
	Resident    float64 // in MB, at its peak
}

func init() { alarm.Restarted = restarted }

// restartIn starts a process on the folder. Its times count from before it was there.
func restartIn(b *testing.B, dir string) (r restart) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = os.Stderr
	begun := time.Now().Round(0)
	cmd.Env = append(os.Environ(), alarm.RestartFolder+"="+dir)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		b.Fatal(err)
	}
	before := r.Begun.Sub(begun)
	r.Open, r.Ready = r.Open+before, r.Ready+before
	return r
}

// restarted is that process.
func restarted(dir string) {
	r := restart{Begun: time.Now().Round(0)}
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := pebble.Open(pebble.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	fail(err)
	r.Open = time.Since(r.Begun)
	target := newNoop(s, 1)
	d, err := alarm.New(alarm.Options{Store: s, Target: target})
	fail(err)
	fail(d.Start())
	<-target.all
	r.Ready = time.Since(r.Begun)
	for known := false; !known; time.Sleep(time.Millisecond) { // pending alarms are counted beside
		_, known = s.Alarms()
	}
	r.Resident = peakMemory()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fail(d.Stop(ctx))
	fail(s.Close())
	fail(json.NewEncoder(os.Stdout).Encode(r))
}

// peakMemory is the most that was resident of this process, in MB.
func peakMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not told here
	}
	var kB float64
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &kB)
		}
	}
	return kB * 1024 / 1e6
}

// BenchmarkMillionPending has a million alarms pending an hour ahead, and beside
// them:
//
//   - ready: another process opens the store and starts; the time from its start
//     until an alarm that has been overdue since before it was is fired and done, and
//     all of its memory, the store's caches included.
//   - drain: another million, overdue, as fast as they can be fired and completed.
//   - objects: 200,000 overdue alarms of objects of a host, whose handlers do nothing.
//   - 1000/s: 10,000 alarms, one each millisecond; how late they are fired.
//
// None may be fired early, and each once.
func BenchmarkMillionPending(b *testing.B) {
	for _, durability := range []storage.Durability{storage.Sync, storage.Relaxed} {
		b.Run(durability.String(), func(b *testing.B) {
			dir, err := os.MkdirTemp(".", "bench-*.tmp") // TMPDIR may be in memory
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			s := openBench(b, dir, durability)
			begun := time.Now()
			setAlarms(b, s, 0, million, func(i int) time.Time { return begun.Add(time.Hour + time.Duration(i)*time.Millisecond) })

			b.Run("ready", func(b *testing.B) {
				var sum restart
				for range b.N {
					setAlarms(b, s, million, 1, func(int) time.Time { return begun.AddDate(0, 0, -3) })
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
					r := restartIn(b, dir)
					s = openBench(b, dir, durability)
					sum.Open += r.Open
					sum.Ready += r.Ready
					sum.Resident = max(sum.Resident, r.Resident)
				}
				b.ReportMetric(sum.Open.Seconds()*1000/float64(b.N), "open-ms")
				b.ReportMetric(sum.Ready.Seconds()*1000/float64(b.N), "ready-ms")
				b.ReportMetric(sum.Resident, "peak-MB")
			})

			b.Run("drain", func(b *testing.B) {
				const overdue = million
				for range b.N {
					b.StopTimer()
					begun := time.Now()
					setAlarms(b, s, million, overdue, func(i int) time.Time { return begun.Add(-time.Duration(i) * time.Millisecond) })
					before := heap()
					target := newNoop(s, overdue)
					peak := sampleHeap()
					b.StartTimer()
					d := startBench(b, s, target)
					<-target.all
					b.StopTimer()
					b.ReportMetric(peak()-before, "heap-peak-MiB")
					stopBench(b, d)
					if n := len(target.late); n != overdue {
						b.Errorf("%d firings of %d alarms", n, overdue)
					}
					if early := slices.Min(target.late); early < 0 {
						b.Errorf("fired %v early", -early)
					}
				}
				b.ReportMetric(overdue*float64(b.N)/b.Elapsed().Seconds(), "firings/s")
			})

			b.Run("objects", func(b *testing.B) {
				const overdue = 200_000
				for range b.N {
					b.StopTimer()
					begun := time.Now()
					setAlarms(b, s, million, overdue, func(i int) time.Time { return begun.Add(-time.Duration(i) * time.Millisecond) })
					var left atomic.Int64
					left.Store(overdue)
					all := make(chan struct{})
					class := actor.Define("session", func(_ context.Context, s *actor.State) (*idler, error) {
						return &idler{func(early time.Duration) {
							if early > 0 {
								b.Errorf("run %v early", early)
							}
							if left.Add(-1) == 0 {
								close(all)
							}
						}}, nil
					})
					h, err := actor.NewHost(actor.Options{Store: s, Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						b.Fatal(err)
					}
					class.Register(h)
					b.StartTimer()
					if err := h.Start(); err != nil {
						b.Fatal(err)
					}
					<-all
					b.StopTimer()
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					if err := h.Shutdown(ctx); err != nil {
						b.Error(err)
					}
					cancel()
				}
				b.ReportMetric(overdue*float64(b.N)/b.Elapsed().Seconds(), "firings/s")
			})

			b.Run("1000 a second", func(b *testing.B) {
				const alarms = 10_000
				for range b.N {
					begun := time.Now().Add(3 * time.Second)
					setAlarms(b, s, million, alarms, func(i int) time.Time { return begun.Add(time.Duration(i) * time.Millisecond) })
					target := newNoop(s, alarms)
					d := startBench(b, s, target)
					<-target.all
					stopBench(b, d)
					slices.Sort(target.late)
					if target.late[0] < 0 {
						b.Errorf("fired %v early", -target.late[0])
					}
					for name, share := range map[string]float64{"late-p50-ms": 0.5, "late-p99-ms": 0.99, "late-max-ms": 1} {
						at := min(int(share*alarms), len(target.late)-1)
						b.ReportMetric(target.late[at].Seconds()*1000, name)
					}
				}
			})
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// sampleHeap looks at the heap, garbage included, until the result is called.
func sampleHeap() (peak func() float64) {
	stop, result := make(chan struct{}), make(chan float64)
	go func() {
		highest := uint64(0)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				result <- float64(highest) / (1 << 20)
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				highest = max(highest, m.HeapAlloc)
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}
