package actor

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

const scope = "github.com/kalpahost/kalpa/actor"

// meters are the host's instruments. No object's name is a label.
type meters struct {
	resets   metric.Int64Counter
	strikes  metric.Int64Counter
	lateness metric.Float64Histogram
	// runs of alarms and of schedules, by class and outcome.
	runs, scheduled metric.Int64Counter
	requests        requests
	// freed by reclaiming, in bytes, and the charges that have waited for it.
	freed, waits metric.Int64Counter
}

// lateBuckets of lateness, in seconds: from what a timer can do to what somebody
// must look into.
var lateBuckets = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300}

// instrument registers what the host can tell about itself.
func (h *Host) instrument(p metric.MeterProvider) (err error) {
	if p == nil {
		p = noop.NewMeterProvider()
	}
	m := p.Meter(scope)
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	h.meters.resets, e = m.Int64Counter("kalpa.actor.resets", metric.WithUnit("{reset}"),
		metric.WithDescription("Incarnations that were broken, by cause."))
	note(e)
	h.meters.strikes, e = m.Int64Counter("kalpa.chaos.strikes", metric.WithUnit("{strike}"),
		metric.WithDescription("Resets that were provoked at a point of an execution."))
	note(e)
	h.meters.lateness, e = m.Float64Histogram("kalpa.alarm.lateness", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(lateBuckets...),
		metric.WithDescription("From the time an alarm was set for to its turn."))
	note(e)
	h.meters.runs, e = m.Int64Counter("kalpa.alarm.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs of objects' alarm handlers, by what they came to."))
	note(e)
	h.meters.scheduled, e = m.Int64Counter("kalpa.schedule.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs of schedules, by what they came to."))
	note(e)
	h.meters.freed, e = m.Int64Counter("kalpa.heap.reclaimed", metric.WithUnit("By"),
		metric.WithDescription("What an isolate under pressure has got back from objects and runtimes that nobody needed."))
	note(e)
	h.meters.waits, e = m.Int64Counter("kalpa.heap.waits", metric.WithUnit("{charge}"),
		metric.WithDescription("Charges that have waited for memory, by outcome: granted or reset."))
	note(e)
	note(h.meters.requests.instrument(h.o.TracerProvider, m))
	_, e = m.Float64ObservableGauge("kalpa.alarm.overdue", metric.WithUnit("s"),
		metric.WithDescription("How long the alarm has been due that has been so for longest; 0 when none is."), metric.WithFloat64Callback(h.overdue))
	note(e)
	gauge := func(name, unit, about string, observe metric.Int64Callback) {
		_, e := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithInt64Callback(observe))
		note(e)
	}
	gauge("kalpa.heap.charged", "By", "What is charged on an isolate's heap.", h.eachIsolate(func(i *isolate, observe func(int64, ...attribute.KeyValue)) {
		observe(i.heap)
	}))
	gauge("kalpa.heap.limit", "By", "An isolate's budget.", h.eachIsolate(func(_ *isolate, observe func(int64, ...attribute.KeyValue)) {
		observe(h.o.HeapLimit)
	}))
	if h.o.SoftLimit > 0 {
		gauge("kalpa.heap.soft_limit", "By", "Where an isolate begins to reclaim.", h.eachIsolate(func(_ *isolate, observe func(int64, ...attribute.KeyValue)) {
			observe(h.o.SoftLimit)
		}))
	}
	gauge("kalpa.actor.incarnations", "{incarnation}", "Objects that are in memory.", h.eachIsolate(func(i *isolate, observe func(int64, ...attribute.KeyValue)) {
		// In any order: they are figures by name.
		for class, n := range i.classes {
			observe(n, attribute.String("class", class))
		}
	}))
	gauge("kalpa.actor.abandoned", "{turn}", "Turns that overran and have not ended.", h.eachIsolate(func(i *isolate, observe func(int64, ...attribute.KeyValue)) {
		observe(int64(len(i.abandoned)))
	}))
	gauge("kalpa.alarm.in_flight", "{alarm}", "Alarms that have been fired and are not done.", h.alarms(func(s alarm.Stats) int64 { return int64(s.InFlight) }))
	gauge("kalpa.alarm.deferred", "{object}", "Objects whose alarm could not be run and is put off.", h.alarms(func(s alarm.Stats) int64 { return int64(s.Deferred) }))
	// In any order: likewise.
	for name, c := range map[string]struct {
		about string
		value func(alarm.Stats) int64
	}{
		"kalpa.alarm.fired":  {"Alarms that were fired.", func(s alarm.Stats) int64 { return int64(s.Fired) }},
		"kalpa.alarm.failed": {"Alarms that could not be run; they are fired again.", func(s alarm.Stats) int64 { return int64(s.Failed) }},
	} {
		_, e := m.Int64ObservableCounter(name, metric.WithUnit("{alarm}"), metric.WithDescription(c.about), metric.WithInt64Callback(h.alarms(c.value)))
		note(e)
	}
	return err
}

// eachIsolate reads something of each isolate, with its lock.
func (h *Host) eachIsolate(read func(i *isolate, observe func(int64, ...attribute.KeyValue))) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		for _, i := range h.isolates {
			i.mu.Lock()
			read(i, func(v int64, about ...attribute.KeyValue) {
				o.Observe(v, metric.WithAttributes(append(about, labelIsolate(i.n))...))
			})
			i.mu.Unlock()
		}
		return nil
	}
}

func (h *Host) alarms(read func(alarm.Stats) int64) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(read(h.dispatcher.Stats()))
		return nil
	}
}

// overdue reads the one row of the alarm index that is the earliest.
func (h *Host) overdue(ctx context.Context, o metric.Float64Observer) error {
	now := h.o.Clock.Now()
	due, err := h.o.Store.Due(ctx, storage.Cursor{}, now, 1)
	if err != nil {
		return nil //nolint:nilerr // not known: there is no figure, and the others are told
	}
	late := time.Duration(0)
	if len(due) > 0 {
		late = now.Sub(due[0].At)
	}
	o.Observe(late.Seconds())
	return nil
}

func labelIsolate(n int) attribute.KeyValue { return attribute.String("isolate", strconv.Itoa(n)) }

func (m *meters) reset(isolate int, c Cause) {
	m.resets.Add(context.Background(), 1, metric.WithAttributes(attribute.String("cause", c.String()), labelIsolate(isolate)))
}

func (m *meters) strike(s *Strike) {
	m.strikes.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("point", s.Point.String()), attribute.String("scope", s.Scope.String()), attribute.String("cause", s.Cause.String())))
}

func (m *meters) reclaimed(isolate int, bytes int64) {
	m.freed.Add(context.Background(), bytes, metric.WithAttributes(labelIsolate(isolate)))
}

func (m *meters) waited(isolate int, outcome string) {
	m.waits.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome), labelIsolate(isolate)))
}

func (m *meters) late(d time.Duration) { m.lateness.Record(context.Background(), d.Seconds()) }

func (m *meters) alarmRan(class string, o alarm.Outcome)    { countRun(m.runs, class, o) }
func (m *meters) scheduleRan(class string, o alarm.Outcome) { countRun(m.scheduled, class, o) }

func countRun(c metric.Int64Counter, class string, o alarm.Outcome) {
	c.Add(context.Background(), 1, metric.WithAttributes(attribute.String("class", class), attribute.String("outcome", string(o))))
}
