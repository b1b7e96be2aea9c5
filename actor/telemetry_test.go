package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kalpahost/kalpa/actor"
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
	if n := len(figures(t, r)); n != 10 {
		t.Errorf("%d series: %v", n, fmt.Sprint(figures(t, r)))
	}
}
