package pebble_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

func TestStoreTellsItsFigures(t *testing.T) {
	r := sdkmetric.NewManualReader()
	s := mustOpen(t, pebble.Options{FS: vfs.NewMem(), MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))})
	id := storage.ID{Class: "c", Name: "n"}
	epoch, err := storage.Claim(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		done := make(chan error)
		s.Submit(&storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k", Value: []byte("v")}}}, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // figures can be read after the end
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	stats, got := s.Stats(), map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			got[m.Name] = float64(d.DataPoints[0].Value)
		case metricdata.Sum[float64]:
			got[m.Name] = d.DataPoints[0].Value
		}
	}
	if stats.Commits != 3 {
		t.Errorf("%+v", stats)
	}
	for name, want := range map[string]float64{
		"kalpa.storage.commits": 3, "kalpa.storage.claims": 1, "kalpa.storage.stale": 0, "kalpa.storage.queue": 0,
		"kalpa.storage.groups": float64(stats.Groups), "kalpa.storage.committed": float64(stats.Bytes), "kalpa.storage.wait": stats.Waited.Seconds(),
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
}
