package actor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// beside is a runtime to measure beside: the address of one that serves GET /NAME/noop
// and GET /NAME/incr. Empty: none.
var beside = os.Getenv("KALPA_BENCH_PEER")

// bare is the least that an object can be.
type bare struct{ state *actor.State }

var (
	bares = actor.Define("bare", func(_ context.Context, s *actor.State) (*bare, error) { return &bare{s}, nil }).Serve()
	held  = make(chan struct{})
	hold  = actor.Method(bares, "hold", func(*bare, context.Context, struct{}) (struct{}, error) { <-held; return struct{}{}, nil })
	noop  = actor.Method(bares, "noop", func(*bare, context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	load  = actor.Method(bares, "load", func(o *bare, _ context.Context, _ struct{}) (int, error) {
		v, err := o.state.Get("state")
		return len(v), err
	})
	fill = actor.Method(bares, "fill", func(o *bare, _ context.Context, n int) (struct{}, error) {
		return struct{}{}, o.state.Put("state", make([]byte, n))
	})
)

func (o *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/noop" {
		_, _ = io.WriteString(w, "ok")
		return
	}
	v, _ := o.state.Get("n")
	n, _ := strconv.Atoi(string(v))
	v = strconv.AppendInt(nil, int64(n+1), 10)
	if err := o.state.Put("n", v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(v)
}

func benchHost(b *testing.B, o actor.Options) *actor.Host {
	b.Helper()
	o.Logger = quiet
	if o.Store == nil {
		s := storage.NewMemory()
		b.Cleanup(func() { s.Close() })
		o.Store = s
	}
	h, err := actor.NewHost(o)
	if err != nil {
		b.Fatal(err)
	}
	bares.Register(h)
	h.Register("machine", func() actor.Machine { return echo{} })
	if err := h.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			b.Error(err)
		}
	})
	return h
}

func onDisk(b *testing.B) storage.Store {
	b.Helper()
	s, err := pebble.Open(pebble.Options{Dir: b.TempDir(), Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// echo is a machine whose events are functions.
type echo struct{}

func (echo) Start(*actor.Turn) error                                          { return nil }
func (echo) Handle(t *actor.Turn, event any)                                  { t.After(event.(func())) }
func (echo) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) { done(t, nil) }
func (echo) Idle() bool                                                       { return true }

// BenchmarkTurn is one event of one object, with no storage: of a machine, and of an
// object whose code is blocking Go. The events are sent as fast as they are handled; or
// they were sent before, so that what is measured is the host's part of a turn alone.
func BenchmarkTurn(b *testing.B) {
	const ahead = 500
	b.Run("machine", func(b *testing.B) {
		h, id := benchHost(b, actor.Options{}), storage.ID{Class: "machine", Name: "a"}
		room := make(chan struct{}, ahead)
		done := func() { <-room }
		for b.Loop() {
			room <- struct{}{}
			if err := h.Send(id, done, nil); err != nil {
				b.Fatal(err)
			}
		}
		for range ahead {
			room <- struct{}{}
		}
	})
	b.Run("object", func(b *testing.B) {
		h := benchHost(b, actor.Options{})
		stub, ctx := h.Stub(bares.ID("a")), b.Context()
		calls := make([]*actor.Pending[struct{}], ahead)
		i := 0
		for b.Loop() {
			if c := calls[i%ahead]; c != nil {
				if _, err := c.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			calls[i%ahead] = noop.Start(ctx, stub, struct{}{})
			i++
		}
		for _, c := range calls {
			if c != nil {
				_, _ = c.Wait(ctx)
			}
		}
	})
	b.Run("object, sent before", func(b *testing.B) {
		h := benchHost(b, actor.Options{})
		stub, ctx := h.Stub(bares.ID("a")), b.Context()
		var took time.Duration
		for left := b.N; left > 0; left -= ahead {
			first, last := hold.Start(ctx, stub, struct{}{}), (*actor.Pending[struct{}])(nil)
			for range min(left, ahead) {
				last = noop.Start(ctx, stub, struct{}{})
			}
			begin := time.Now()
			held <- struct{}{}
			for _, c := range []*actor.Pending[struct{}]{first, last} {
				if _, err := c.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			took += time.Since(begin)
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/turn")
	})
}

// BenchmarkHTTP is a request over a connection that is kept alive, with 64 at a time:
// of one object and over 1,000 of them, without storage and with a durable increment.
// The driver runs on the same cores.
func BenchmarkHTTP(b *testing.B) {
	for _, op := range []string{"noop", "incr"} {
		for _, objects := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", op, objects), func(b *testing.B) {
				h := benchHost(b, actor.Options{Store: onDisk(b), EvictAfter: -1})
				s := httptest.NewServer(h.Handler())
				defer s.Close()
				drive(b, strings.TrimPrefix(s.URL, "http://"), "/objects/bare/o%d/"+op, objects)
			})
			if beside != "" {
				b.Run(fmt.Sprintf("%s/%d/beside", op, objects), func(b *testing.B) { drive(b, beside, "/o%d/"+op, objects) })
			}
		}
	}
}

func drive(b *testing.B, address, path string, objects int) {
	b.Helper()
	const clients = 64
	var all sync.WaitGroup
	work := make(chan int, clients)
	took := make([][]time.Duration, clients)
	for c := range clients {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		all.Go(func() {
			in := bufio.NewReader(conn)
			for n := range work {
				began := time.Now()
				fmt.Fprintf(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n", n%objects)
				res, err := http.ReadResponse(in, nil)
				if err != nil || res.StatusCode != http.StatusOK {
					b.Errorf("%v, %v", res, err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	for n := range objects {
		work <- n // each object is there before the clock runs
	}
	b.ResetTimer()
	for n := range b.N {
		work <- n
	}
	close(work)
	all.Wait()
	b.StopTimer()
	percentiles(b, slices.Concat(took...))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// percentiles tells the median and the 99th percentile.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-us")
}

// BenchmarkActivate is the first call of an object that has 1 KiB of state on disk and
// is not in memory: claim, constructor, read, answer.
func BenchmarkActivate(b *testing.B) {
	const objects = 10_000
	h := benchHost(b, actor.Options{Store: onDisk(b), EvictAfter: -1, HeapLimit: 1 << 30})
	ctx := b.Context()
	fills := make([]*actor.Pending[struct{}], objects)
	for n := range fills {
		fills[n] = fill.Start(ctx, h.Stub(bares.ID(strconv.Itoa(n))), 1<<10)
	}
	for _, f := range fills {
		if _, err := f.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		id := bares.ID(strconv.Itoa(n % objects))
		h.Reset(id, actor.Aborted, nil)
		b.StartTimer()
		began := time.Now()
		if size, err := load.Do(ctx, h.Stub(id), struct{}{}); size != 1<<10 || err != nil {
			b.Fatal(size, err)
		}
		took = append(took, time.Since(began))
	}
	percentiles(b, took)
}

// BenchmarkResident is what 100,000 small objects take that are in memory and at rest.
func BenchmarkResident(b *testing.B) {
	const objects = 100_000
	for b.Loop() {
		h := benchHost(b, actor.Options{EvictAfter: -1, HeapLimit: 1 << 30})
		before := inUse()
		for from := 0; from < objects; from += 1000 {
			var calls []*actor.Pending[struct{}]
			for n := from; n < from+1000; n++ {
				calls = append(calls, noop.Start(b.Context(), h.Stub(bares.ID(strconv.Itoa(n))), struct{}{}))
			}
			for _, c := range calls {
				if _, err := c.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
		after := inUse()
		b.ReportMetric(float64(after-before)/objects, "B/object")
		b.ReportMetric(float64(after)/1e6, "MB")
		runtime.KeepAlive(h)
	}
}

// inUse is what heap and stacks hold after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
