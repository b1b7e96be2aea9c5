package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
)

// figures are all points of all instruments, as "name{labels}"; of a histogram,
// how many it has counted.
func figures(t *testing.T, r *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(labels attribute.Set, v int64) {
				found[m.Name+"{"+labels.Encoded(attribute.DefaultEncoder())+"}"] += v
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, int64(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(p.Attributes, int64(p.Count))
				}
			}
		}
	}
	return found
}

func TestHostTellsItsFigures(t *testing.T) {
	r := sdkmetric.NewManualReader()
	h := start(t, actor.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)),
		Isolates:      1, HeapLimit: 1 << 20, EvictAfter: 500 * time.Millisecond,
	})
	is := func(name string, want int64) {
		t.Helper()
		var got int64
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if got = figures(t, r)[name]; got == want {
				return
			}
		}
		t.Errorf("%s is %d, want %d; all: %v", name, got, want, figures(t, r))
	}
	is("kalpa.heap.limit{isolate=0}", 1<<20)
	do(t, h, "a", charge, 1000)
	if got := figures(t, r); got["kalpa.actor.incarnations{class=counter,isolate=0}"] != 1 || got["kalpa.heap.charged{isolate=0}"] != h.Heap(0) || h.Heap(0) < 1000 {
		t.Errorf("with one object in memory: %v", got)
	}
	is("kalpa.actor.incarnations{class=counter,isolate=0}", 0)
	is("kalpa.heap.charged{isolate=0}", 0)

	do(t, h, "a", setAlarm, 1)
	is("kalpa.alarm.lateness{}", 1)
	is("kalpa.alarm.in_flight{}", 0)
	is("kalpa.alarm.fired{}", 1)
	is("kalpa.alarm.runs{class=counter,outcome=succeeded}", 1)
	is("kalpa.alarm.overdue{}", 0)

	do(t, h, "a", incr, 1)
	do(t, h, "b", incr, 1)
	if _, err := h.ResetIsolate(0, actor.MemoryLimit, nil); err != nil {
		t.Fatal(err)
	}
	is("kalpa.actor.resets{cause=memory_limit,isolate=0}", 2)
	for name := range figures(t, r) {
		if strings.Contains(name, "a,") || strings.Contains(name, "=a") {
			t.Errorf("an object's name is a label: %s", name)
		}
	}
	if n := len(figures(t, r)); n != 13 {
		t.Errorf("%d series: %v", n, fmt.Sprint(figures(t, r)))
	}
}

// What an alarm that was due an hour ago looks like at 3 am, and what its runs come
// to.
func TestAlarmsTellHowLateTheyAreAndWhatTheyComeTo(t *testing.T) {
	r := sdkmetric.NewManualReader()
	h, c, ran, set := alarmedWorldWith(t, sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)))
	is := func(name string, want int64) {
		t.Helper()
		if got := figures(t, r)[name]; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if _, err := set(morning.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	is("kalpa.alarm.overdue{}", 0)
	c.Advance(2 * time.Hour)
	is("kalpa.alarm.overdue{}", 3600)
	ran.Store("fails", errors.New("no"))
	for n := range alarm.MaxRetries + 1 {
		is("kalpa.alarm.runs{class=alarmed,outcome=retried}", int64(n))
		fire(t, h, c.Now())
		c.Advance(time.Hour)
	}
	is("kalpa.alarm.runs{class=alarmed,outcome=given_up}", 1)
	is("kalpa.alarm.runs{class=alarmed,outcome=succeeded}", 0)
	is("kalpa.alarm.overdue{}", 0)
}

func TestSchedulesTellWhatTheirRunsComeTo(t *testing.T) {
	r := sdkmetric.NewManualReader()
	p := newPlannedWith(t, "a", sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)))
	p.outcome = func(_ string, n int) error {
		if n == 1 {
			return errors.New("no")
		}
		return nil
	}
	ask(p, p.plan, plan{Job: "f", In: time.Second})
	p.to(in(time.Second))
	for name, want := range map[string]int64{"retried": 1, "succeeded": 0} {
		p.becomes(name, func() bool { return figures(t, r)["kalpa.schedule.runs{class=planner,outcome="+name+"}"] == want })
	}
	p.becomes("the retry is planned", func() bool { return p.row().At.After(p.c.Now()) })
	p.to(p.row().At)
	p.becomes("succeeded", func() bool { return figures(t, r)["kalpa.schedule.runs{class=planner,outcome=succeeded}"] == 1 })
	ask(p, p.idle, time.Duration(0)) // the owner's own deadline
	p.becomes("its alarm ran", func() bool { return figures(t, r)["kalpa.alarm.runs{class=planner,outcome=succeeded}"] == 1 })
}
