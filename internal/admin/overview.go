package admin

import (
	"math"
	"net/http"
	"runtime"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// What the figures remember.
const (
	// sampleEvery is the time between two samples.
	sampleEvery = 5 * time.Second
	// maxSamples is how many are remembered: an hour's.
	maxSamples = 720
	// recent is how many samples the rate and the quantiles of now are over: a minute's.
	recent = 12
)

// Hosted is a server that the host has.
type Hosted struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
	Runs string `json:"runs,omitempty"` // its command, or its plugin
}

// About is what the host is, which does not change while it runs.
type About struct {
	Version    string   `json:"version"`
	PID        int      `json:"pid"`
	Data       string   `json:"data,omitempty"`
	Durability string   `json:"durability,omitempty"`
	Servers    []Hosted `json:"servers"`
}

// Overview is the answer of GET /v1/overview; with history=true, with what was, or what
// was after the time since; with holders=N, with so many of who holds most of each isolate.
type Overview struct {
	About
	State   string    `json:"state"` // serving or draining
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"`
	// Resident is the number of runtimes; InMemory of objects, by class.
	Resident int64            `json:"resident"`
	InMemory map[string]int64 `json:"in_memory"`
	Isolates []Isolate        `json:"isolates"`
	Requests Requests         `json:"requests"`
	Alarms   AlarmFigures     `json:"alarms"`
	Storage  *StorageFigures  `json:"storage,omitempty"`
	Process  Process          `json:"process"`
	History  []Sample         `json:"history,omitempty"` // oldest first
}

// Requests are the figures of the requests to servers that were settled.
type Requests struct {
	Settled  uint64            `json:"settled"` // since the host was started
	Outcomes map[string]uint64 `json:"outcomes"`
	Rate     float64           `json:"rate"` // a second, over the last minute
	Latency  Latency           `json:"latency"`
}

// Latency is from a request's admission to its answer, in seconds, with an error of a
// tenth. Zero: there were none.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// AlarmFigures are those of objects' alarms.
type AlarmFigures struct {
	Pending  *int64  `json:"pending,omitempty"` // that are set; none while they are counted
	InFlight int     `json:"in_flight"`
	Fired    uint64  `json:"fired"` // since the host was started
	Failed   uint64  `json:"failed"`
	Overdue  float64 `json:"overdue"` // seconds that the earliest has been due; 0: none is
}

// StorageFigures are those of the store, since it was opened.
type StorageFigures struct {
	Boot    uint32  `json:"boot"` // how often the store has been opened
	Commits uint64  `json:"commits"`
	Groups  uint64  `json:"groups"`
	Queue   int     `json:"queue"`  // bytes that wait to be written
	Waited  float64 `json:"waited"` // seconds, for the disk
	Bytes   int64   `json:"bytes"`  // on the disk
}

// Process is the host's process.
type Process struct {
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"`   // bytes of Go's heap that are in use
	Memory     uint64 `json:"memory"` // bytes that Go has from the system, and has not given back
}

// Sample is a moment of the past.
type Sample struct {
	At       time.Time `json:"at"`
	Resident int64     `json:"resident"`
	InMemory int64     `json:"in_memory"` // objects
	Heap     []int64   `json:"heap"`      // charged, by isolate
	Rate     float64   `json:"rate"`      // requests a second, since the sample before
	Lost     uint64    `json:"lost"`      // requests, since the sample before
	Latency  Latency   `json:"latency"`   // of those that were settled since the sample before
}

// figures count what is settled, and remember samples.
type figures struct {
	mu       sync.Mutex
	began    time.Time // of the interval that is under way
	outcomes map[string]uint64
	interval interval
	last     []interval // the latest, oldest first
	samples  []Sample
}

// interval is what was settled between two samples.
type interval struct {
	took    time.Duration // how long it was
	lost    uint64
	settled uint64
	// latencies by their logarithm: four to each doubling, from a microsecond on.
	latencies [buckets]uint32
}

const buckets = 132 // 2^33 microseconds: more than two hours

func (f *figures) settled(took time.Duration, lost bool, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outcomes == nil {
		f.outcomes = map[string]uint64{}
	}
	f.outcomes[outcome]++
	f.interval.settled++
	if lost {
		f.interval.lost++
	}
	bucket := 0
	if us := took.Microseconds(); us > 1 {
		bucket = min(int(math.Log2(float64(us))*4), buckets-1)
	}
	f.interval.latencies[bucket]++
}

// quantiles are those of some intervals.
func quantiles(all ...interval) (l Latency) {
	var sum [buckets]uint64
	total := uint64(0)
	for i := range all {
		for b, n := range all[i].latencies {
			sum[b] += uint64(n)
			total += uint64(n)
		}
	}
	for _, q := range []struct {
		at   float64
		into *float64
	}{{0.5, &l.P50}, {0.95, &l.P95}, {0.99, &l.P99}} {
		seen := uint64(0)
		for b, n := range sum {
			if seen += n; n > 0 && float64(seen) >= q.at*float64(total) {
				*q.into = math.Exp2((float64(b)+0.5)/4) / 1e6 // the middle of it
				break
			}
		}
	}
	return l
}

// sample ends an interval.
func (f *figures) sample(now time.Time, s Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.interval.took = now.Sub(f.began)
	s.At, s.Lost, s.Latency = now.UTC(), f.interval.lost, quantiles(f.interval)
	if f.interval.took > 0 {
		s.Rate = float64(f.interval.settled) / f.interval.took.Seconds()
	}
	if f.last = append(f.last, f.interval); len(f.last) > recent {
		f.last = f.last[1:]
	}
	if f.samples = append(f.samples, s); len(f.samples) > maxSamples {
		f.samples = append(f.samples[:0], f.samples[len(f.samples)-maxSamples:]...)
	}
	f.began, f.interval = now, interval{}
}

// requests are the figures of now.
func (f *figures) requests(now time.Time) (r Requests) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Outcomes = map[string]uint64{}
	for outcome, n := range f.outcomes {
		r.Outcomes[outcome] = n
		r.Settled += n
	}
	all := append(slices.Clip(f.last), f.interval)
	all[len(all)-1].took = now.Sub(f.began)
	took, settled := time.Duration(0), uint64(0)
	for i := range all {
		took, settled = took+all[i].took, settled+all[i].settled
	}
	if took > 0 {
		r.Rate = float64(settled) / took.Seconds()
	}
	r.Latency = quantiles(all...)
	return r
}

// history are the samples after a time.
func (f *figures) history(since time.Time) []Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := sort.Search(len(f.samples), func(n int) bool { return f.samples[n].At.After(since) })
	return append([]Sample{}, f.samples[n:]...)
}

// sampling takes a sample every now and then, until quit is closed.
func (a *api) sampling(quit <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			a.sample()
		}
	}
}

func (a *api) sample() {
	s := Sample{Resident: a.o.Sessions.Residents()}
	for _, is := range a.eachIsolate(0) {
		s.InMemory += is.Objects
		s.Heap = append(s.Heap, is.Heap)
	}
	a.figures.sample(a.now(), s)
}

func (a *api) overview(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := params(r, "history", "since", "holders")
	if err != nil {
		return nil, err
	}
	history, err := truth(q, "history")
	if err != nil {
		return nil, err
	}
	var since time.Time
	if q.Has("since") {
		if since, err = time.Parse(time.RFC3339, q.Get("since")); err != nil {
			return nil, wrong("since", "a time as 2006-01-02T15:04:05Z", "%q is no time", q.Get("since"))
		}
	}
	holders, err := upTo(q, "holders", MaxHolders)
	if err != nil {
		return nil, err
	}
	now := a.now()
	o := Overview{About: a.o.About, State: "serving", Now: now.UTC(), Started: a.started.UTC(), Resident: a.o.Sessions.Residents(), InMemory: map[string]int64{}, Isolates: a.eachIsolate(holders), Requests: a.figures.requests(now)}
	if a.o.Draining != nil && a.o.Draining() {
		o.State = "draining"
	}
	for n := range a.o.Host.Isolates() {
		for class, objects := range a.o.Host.Isolate(n).Objects {
			o.InMemory[class] += objects
		}
	}
	alarms := a.o.Host.Alarms()
	o.Alarms.InFlight, o.Alarms.Fired, o.Alarms.Failed = alarms.InFlight, alarms.Fired, alarms.Failed
	due, err := a.o.Host.Store().Due(r.Context(), storage.Cursor{}, now, 1)
	if err != nil {
		return nil, err
	}
	if len(due) > 0 {
		o.Alarms.Overdue = now.Sub(due[0].At).Seconds()
	}
	if a.o.Store != nil {
		if n, known := a.o.Store.Alarms(); known {
			o.Alarms.Pending = &n
		}
		s := a.o.Store.Stats()
		o.Storage = &StorageFigures{Boot: a.o.Store.Boot(), Commits: s.Commits, Groups: s.Groups, Queue: s.QueueBytes, Waited: s.Waited.Seconds()}
		if m, err := a.o.Store.Metrics(); err == nil {
			o.Storage.Bytes = int64(m.DiskSpaceUsage())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	o.Process = Process{Goroutines: runtime.NumGoroutine(), Heap: m.HeapInuse, Memory: m.Sys - m.HeapReleased}
	if history {
		o.History = a.figures.history(since)
	}
	return o, nil
}
