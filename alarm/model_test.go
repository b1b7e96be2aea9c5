package alarm

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

// model says for each object what its row is, and whether it backs off. Against
// it is checked that alarms fire when they must, and then only: I6 and I8.
type model struct {
	*world
	objects map[storage.ID]*modelObject
	// exact: the bounds are so wide that each object has its own back-off and a
	// flight whenever it needs one. Otherwise only what must never happen is
	// checked, and that in the end everything has been fired.
	exact bool
}

type modelObject struct {
	row   storage.Alarm // zero: none
	wait  time.Duration
	until time.Time // backs off; zero: does not
	moved bool      // set to another time while in flight
}

func (m *model) due(id storage.ID) bool {
	o := m.objects[id]
	now := m.clock.Now()
	return !o.row.At.IsZero() && !o.row.At.After(now) && !o.until.After(now)
}

func (m *model) fires(f *firing) {
	o := m.objects[f.due.ID]
	if f.due.Alarm != o.row {
		m.t.Errorf("%v was fired for %+v, and its row is %+v", f.due.ID, f.due.Alarm, o.row)
	}
	if m.exact && !m.due(f.due.ID) {
		m.t.Errorf("%v was fired during its back-off until %v", f.due.ID, o.until)
	}
	o.moved = false
}

func (m *model) commit(id storage.ID, a storage.Alarm) {
	m.set(id, a)
	o := m.objects[id]
	if f := m.flights[id]; f != nil && !a.At.IsZero() {
		o.moved = !a.Normal().At.Equal(f.due.At)
	} else if f == nil && !a.At.IsZero() {
		o.until = time.Time{}
	}
	o.row = a.Normal()
}

// end ends a firing with or without an error, and backs off as it should.
func (m *model) end(f *firing, err error) {
	o := m.objects[f.due.ID]
	// How the waits grow is not the model's concern: a row that was in the future
	// when its back-off ended has a new count, and the clock jumps here.
	failures := m.d.core.flights[f.due.ID].failures
	f.done(err)
	same := o.row.At.Equal(f.due.At) && (err != nil || !o.row.At.After(m.clock.Now()))
	switch {
	case same, err != nil && !o.moved:
		o.wait = BackoffUncounted(failures, Jitter(f.due.ID, failures))
		o.until = m.clock.Now().Add(o.wait)
	default:
		o.until = time.Time{}
	}
}

// check is called when nothing more is to be done at this moment.
func (m *model) check() {
	m.settle()
	if !m.exact {
		if s := m.d.Stats(); s.InFlight > m.opts.MaxInFlight || s.Deferred > m.opts.MaxDeferred {
			m.t.Errorf("over the bounds: %+v", s)
		}
		return
	}
	for id := range m.objects {
		if m.due(id) && m.flights[id] == nil {
			m.t.Fatalf("%v is due since %v and was not fired", id, m.clock.Now().Sub(m.objects[id].row.At))
		}
	}
}

func (m *model) jump(by time.Duration) {
	m.clock.Jump(m.clock.Now().Add(by))
	if by < 0 {
		m.d.wake() // or it would be noticed within a second, and the model would have to know when
		m.settle()
		now := m.clock.Now()
		for _, o := range m.objects {
			o.until = soonest(o.until, now.Add(o.wait))
		}
		return
	}
	m.advance(look)
}

// drain completes everything: each row that is left must be fired.
func (m *model) drain() {
	m.t.Helper()
	now := m.clock.Now()
	for _, o := range m.objects {
		if o.row.At.After(now) {
			now = o.row.At
		}
	}
	m.clock.Jump(now)
	for range 10 { // more than there are objects: with a flight for one, they take turns
		for _, f := range m.inFlight() {
			m.commit(f.due.ID, storage.Alarm{})
			m.end(f, nil)
		}
		m.jump(2 * MaxUncounted)
	}
	for id, o := range m.objects {
		if !o.row.At.IsZero() {
			m.t.Fatalf("%v has never been fired, due %v ago", id, m.clock.Now().Sub(o.row.At))
		}
	}
	m.wantNothingArmed()
}

func testModel(t *testing.T, o Options, exact bool) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{world: newWorld(t, o), objects: make(map[storage.ID]*modelObject), exact: exact}
		defer m.close()
		m.onFire = m.fires
		var ids []storage.ID
		for i := range 8 {
			id := object(fmt.Sprint(i))
			ids = append(ids, id)
			m.objects[id] = &modelObject{}
		}
		anyID := rapid.SampledFrom(ids)
		// Few values, so that times collide; and some that lie between microseconds.
		offset := rapid.SampledFrom([]time.Duration{
			-24 * time.Hour, -time.Second, -1, 0, 1, 999, time.Microsecond, time.Millisecond,
			time.Second, 2 * time.Second, 10 * time.Second, time.Minute, time.Hour,
		})
		flight := func(t *rapid.T) *firing {
			all := m.inFlight()
			if len(all) == 0 {
				t.Skip("nothing is in flight")
			}
			return rapid.SampledFrom(all).Draw(t, "flight")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.check() },
			"set": func(t *rapid.T) {
				m.commit(anyID.Draw(t, "id"), storage.Alarm{At: m.clock.Now().Add(offset.Draw(t, "in"))})
			},
			"delete": func(t *rapid.T) { m.commit(anyID.Draw(t, "id"), storage.Alarm{}) },
			"complete": func(t *rapid.T) {
				f := flight(t)
				m.commit(f.due.ID, storage.Alarm{})
				m.end(f, nil)
			},
			"set anew by the handler": func(t *rapid.T) {
				f := flight(t)
				m.commit(f.due.ID, storage.Alarm{At: m.clock.Now().Add(offset.Draw(t, "in"))})
				m.end(f, nil)
			},
			"the handler fails": func(t *rapid.T) {
				f := flight(t)
				a := storage.Alarm{}
				if wait, again := Backoff(f.due.Retry, 0.5); again {
					a = storage.Alarm{At: m.clock.Now().Add(wait), Retry: f.due.Retry + 1}
				}
				m.commit(f.due.ID, a)
				m.end(f, nil)
			},
			"it can't be run":    func(t *rapid.T) { m.end(flight(t), errBusy) },
			"nothing is changed": func(t *rapid.T) { m.end(flight(t), nil) },
			"time passes": func(t *rapid.T) {
				m.advance(rapid.SampledFrom([]time.Duration{
					time.Microsecond, time.Second, 3 * time.Second, time.Minute, MaxUncounted,
				}).Draw(t, "for"))
			},
			"the clock jumps": func(t *rapid.T) {
				m.jump(rapid.SampledFrom([]time.Duration{
					-24 * time.Hour, -time.Minute, -time.Second, time.Second, time.Minute, 24 * time.Hour,
				}).Draw(t, "by"))
			},
			"restart": func(*rapid.T) {
				m.restart()
				for _, o := range m.objects {
					o.until = time.Time{}
				}
			},
		})
		m.drain()
	})
}

func TestModel(t *testing.T) { testModel(t, Options{}, true) }

func TestModelWithTightBounds(t *testing.T) {
	for _, o := range []Options{
		{MaxInFlight: 1, MaxDeferred: 1},
		{MaxInFlight: 2, MaxDeferred: 3},
		{MaxInFlight: 8, MaxDeferred: 1},
		{MaxInFlight: 1, MaxDeferred: 8},
	} {
		t.Run(fmt.Sprintf("%d,%d", o.MaxInFlight, o.MaxDeferred), func(t *testing.T) { testModel(t, o, false) })
	}
}
