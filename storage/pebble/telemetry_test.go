package pebble_test

import (
	"fmt"
	"testing"
	"time"

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
		"kalpa.storage.malformed": 0, "kalpa.alarm.pending": 0,
		"kalpa.storage.groups": float64(stats.Groups), "kalpa.storage.committed": float64(stats.Bytes), "kalpa.storage.wait": stats.Waited.Seconds(),
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
}

// Pending alarms are counted without a look at them: those that were there are
// counted once, beside everything else, and what commits do is added.
func TestPendingAlarmsAreCounted(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, pebble.Options{FS: fs})
	defer func() { _ = s.Close() }()
	epochs := map[storage.ID]uint64{}
	commit := func(i int, b storage.Batch) {
		t.Helper()
		b.ID = storage.ID{Class: "c", Name: fmt.Sprint(i)}
		if epochs[b.ID] == 0 {
			epoch, err := storage.Claim(t.Context(), s, b.ID)
			if err != nil {
				t.Fatal(err)
			}
			epochs[b.ID] = epoch
		}
		b.Epoch = epochs[b.ID]
		if err := storage.Commit(t.Context(), s, &b); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want int64) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n, known := s.Alarms(); known {
				if n != want {
					t.Fatalf("%d alarms are pending, want %d", n, want)
				}
				return
			}
		}
		t.Fatal("not counted in time")
	}
	at := func(sec int) *storage.Alarm { return &storage.Alarm{At: time.Unix(int64(sec), 0)} }
	is(0)
	for i := range 1000 {
		commit(i, storage.Batch{Alarm: at(i)})
	}
	is(1000)
	commit(1, storage.Batch{Alarm: at(5)})                                  // moves
	commit(1, storage.Batch{Puts: []storage.Entry{{Key: "k", Value: nil}}}) // stays
	commit(2, storage.Batch{Alarm: &storage.Alarm{}})                       // goes
	commit(2, storage.Batch{Alarm: &storage.Alarm{}})                       // once more
	commit(3, storage.Batch{Clear: true})                                   // goes with the rest
	commit(4, storage.Batch{Clear: true, Alarm: at(6)})                     // is set anew
	is(998)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, pebble.Options{FS: fs})
		clear(epochs)
		is(998)
	}
	commit(5, storage.Batch{Alarm: &storage.Alarm{}})
	commit(2, storage.Batch{Alarm: at(1)})
	commit(6, storage.Batch{Clear: true})
	is(997)
}
