package pebble

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/kalpahost/kalpa/storage"
)

// instrument registers the figures of the committer.
func (s *Store) instrument(p metric.MeterProvider) error {
	m := p.Meter("github.com/kalpahost/kalpa/storage/pebble")
	for _, c := range []struct {
		name, unit, about string
		value             func(storage.Stats) uint64
	}{
		{"kalpa.storage.commits", "{batch}", "Batches that were committed.", func(s storage.Stats) uint64 { return s.Commits }},
		{"kalpa.storage.claims", "{claim}", "Incarnations that were claimed.", func(s storage.Stats) uint64 { return s.Claims }},
		{"kalpa.storage.stale", "{batch}", "Batches of older incarnations that were refused.", func(s storage.Stats) uint64 { return s.Stale }},
		{"kalpa.storage.groups", "{group}", "Groups of batches that were written, each with one wait for the disk.", func(s storage.Stats) uint64 { return s.Groups }},
		{"kalpa.storage.committed", "By", "What was committed.", func(s storage.Stats) uint64 { return s.Bytes }},
	} {
		_, err := m.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.about),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(int64(c.value(s.Stats())))
				return nil
			}))
		if err != nil {
			return err
		}
	}
	_, err := m.Float64ObservableCounter("kalpa.storage.wait", metric.WithUnit("s"), metric.WithDescription("Time spent waiting for the disk."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(s.Stats().Waited.Seconds())
			return nil
		}))
	if err != nil {
		return err
	}
	_, err = m.Int64ObservableUpDownCounter("kalpa.alarm.pending", metric.WithUnit("{alarm}"), metric.WithDescription("Alarms that are set: due, running or to come."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if n, known := s.Alarms(); known {
				o.Observe(n)
			}
			return nil
		}))
	if err != nil {
		return err
	}
	_, err = m.Int64ObservableUpDownCounter("kalpa.storage.malformed", metric.WithUnit("{row}"), metric.WithDescription("Rows that do not decode and were left out, as far as scans have come."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(s.aside.count()))
			return nil
		}))
	if err != nil {
		return err
	}
	_, err = m.Int64ObservableUpDownCounter("kalpa.storage.queue", metric.WithUnit("By"), metric.WithDescription("What waits to be committed."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(s.Stats().QueueBytes))
			return nil
		}))
	return err
}
