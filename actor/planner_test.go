package actor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// planner is an object with schedules, keep-alives and a deadline of its own,
// which it keeps in storage.
type planner struct {
	state    *actor.State
	deadline time.Time
}

// plan is what a planner is asked to schedule.
type plan struct {
	ID, Kind, Job, Spec, Payload string
	In                           time.Duration
	Attempts                     int
}

// ran is what the world has seen of the planners: everything that has run.
type ran struct {
	mu      sync.Mutex
	what    []string
	outcome func(job string, n int) error // of the nth run of a job
	count   map[string]int
	await   map[string]chan struct{} // a job that awaits until this is closed
	holds   []func()                 // the releases of the keep-alives that are held
}

// letGo releases the keep-alive that is held for longest, and reports whether there
// was one. It does so where it is called: in a turn of the object's, or outside.
func (r *ran) letGo() bool {
	r.mu.Lock()
	if len(r.holds) == 0 {
		r.mu.Unlock()
		return false
	}
	release := r.holds[0]
	r.holds = r.holds[1:]
	r.mu.Unlock()
	release()
	return true
}

func (r *ran) note(s string) {
	r.mu.Lock()
	r.what = append(r.what, s)
	r.mu.Unlock()
}

func (r *ran) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.what)
}

func (r *ran) times(job string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[job]
}

func (r *ran) has(s string) bool { return slices.Contains(r.list(), s) }

// planners is a class and what its objects do.
type planners struct {
	*ran
	class   *actor.Class[planner]
	job     map[string]actor.Job[string]
	plan    actor.Call[plan, string]
	cancel  actor.Call[string, bool]
	idle    actor.Call[time.Duration, int] // sets the deadline; negative: none
	hold    actor.Call[int, int]
	release actor.Call[int, bool]
	list    actor.Call[int, []alarm.Entry]
	try     actor.Call[string, string] // does something and returns its error
}

func newPlanners() *planners {
	p := &planners{ran: &ran{count: map[string]int{}, await: map[string]chan struct{}{}}}
	p.class = actor.Define("planner", func(_ context.Context, s *actor.State) (*planner, error) {
		o := &planner{state: s}
		v, err := s.Get("deadline")
		if err != nil {
			return nil, err
		}
		if v != nil {
			if o.deadline, err = time.Parse(time.RFC3339Nano, string(v)); err != nil {
				return nil, err
			}
		}
		if s.ID().Name != "lazy" {
			s.Schedule().AddSource("idle", func(time.Time) time.Time { return o.deadline })
		}
		return o, nil
	})
	job := func(name string, f func(o *planner, ctx context.Context, payload string) error) actor.Job[string] {
		return actor.Callback(p.class, name, func(o *planner, ctx context.Context, payload string) error {
			p.mu.Lock()
			p.count[name]++
			n, outcome, wait := p.count[name], p.outcome, p.await[name]
			p.mu.Unlock()
			p.note(name + " " + payload)
			if wait != nil {
				if err := o.state.Await(ctx, func(ctx context.Context) error {
					select {
					case <-wait:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}); err != nil {
					return err
				}
			}
			if outcome != nil {
				if err := outcome(name, n); err != nil {
					return err
				}
			}
			return f(o, ctx, payload)
		})
	}
	nothing := func(*planner, context.Context, string) error { return nil }
	p.job = map[string]actor.Job[string]{
		"f": job("f", nothing), "g": job("g", nothing),
		"oom":   job("oom", func(o *planner, _ context.Context, _ string) error { _, err := o.state.Charge(1 << 40); return err }),
		"panic": job("panic", func(*planner, context.Context, string) error { panic("boom") }),
		"abort": job("abort", func(o *planner, _ context.Context, _ string) error {
			if err := o.state.Put("trace", []byte("x")); err != nil {
				return err
			}
			o.state.Abort(errors.New("enough"))
			return nil
		}),
	}
	p.plan = actor.Method(p.class, "plan", func(o *planner, _ context.Context, in plan) (string, error) {
		var opts []alarm.Option
		if in.ID != "" {
			opts = append(opts, alarm.WithID(in.ID))
		}
		if in.Attempts > 0 {
			opts = append(opts, alarm.WithRetry(in.Attempts, time.Second))
		}
		var e alarm.Entry
		var err error
		switch in.Kind {
		case "cron":
			e, err = p.job[in.Job].Cron(o.state, in.Spec, in.Payload, opts...)
		case "every":
			e, err = p.job[in.Job].Every(o.state, in.In, in.Payload, opts...)
		default:
			e, err = p.job[in.Job].In(o.state, in.In, in.Payload, opts...)
		}
		return e.ID, err
	})
	p.cancel = actor.Method(p.class, "cancel", func(o *planner, _ context.Context, id string) (bool, error) {
		return o.state.Schedule().Cancel(id)
	})
	p.list = actor.Method(p.class, "list", func(o *planner, _ context.Context, _ int) ([]alarm.Entry, error) {
		return o.state.Schedule().List()
	})
	p.hold = actor.Method(p.class, "hold", func(o *planner, _ context.Context, _ int) (int, error) {
		release := o.state.Schedule().KeepAlive()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds = append(p.holds, release)
		return len(p.holds), nil
	})
	p.release = actor.Method(p.class, "release", func(*planner, context.Context, int) (bool, error) { return p.letGo(), nil })
	p.idle = actor.Method(p.class, "idle", func(o *planner, _ context.Context, d time.Duration) (int, error) {
		return 0, o.setDeadline(morningPlus(o.state, d))
	})
	p.try = actor.Method(p.class, "try", func(o *planner, _ context.Context, what string) (string, error) {
		err := o.try(what)
		if err == nil {
			return "", nil
		}
		return err.Error(), nil
	})
	return p
}

// now is set by the tests' clock; an object has no clock of its own here.
var clocks sync.Map // class name of the object -> *clock.Fake

func morningPlus(s *actor.State, d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	c, _ := clocks.Load(s.ID().Name)
	return c.(*clock.Fake).Now().Add(d)
}

func (o *planner) setDeadline(at time.Time) error {
	o.deadline = at
	if at.IsZero() {
		return o.state.Delete("deadline")
	}
	return o.state.Put("deadline", []byte(at.Format(time.RFC3339Nano)))
}

func (o *planner) Alarm(context.Context, alarm.Info) error { return o.setDeadline(time.Time{}) }

func (o *planner) Destroy(context.Context) error {
	v, err := o.state.Get("reluctant")
	if err != nil {
		return err
	}
	if v != nil {
		if err := o.state.Delete("reluctant"); err != nil {
			return err
		}
		return errors.New("not yet")
	}
	return nil
}

func (o *planner) try(what string) error {
	s := o.state
	switch verb, arg, _ := strings.Cut(what, " "); verb {
	case "poke":
		return nil
	case "set-alarm":
		return s.SetAlarm(morning.Add(time.Hour))
	case "delete-alarm":
		return s.DeleteAlarm()
	case "delete-all":
		return s.DeleteAll()
	case "destroy":
		return s.Schedule().Destroy()
	case "in": // with a payload as it is
		_, err := s.Schedule().In(0, "f", []byte(arg))
		return err
	case "aside":
		for a, err := range s.Schedule().SetAside() {
			return cmp.Or(err, fmt.Errorf("%s", a.Payload))
		}
		return nil
	case "put":
		return s.Put(arg, []byte("x"))
	case "delete":
		return s.Delete(arg)
	case "get":
		v, err := s.Get(arg)
		if err == nil && v != nil {
			err = errors.New("there it is")
		}
		return err
	case "keys":
		var keys []string
		for _, r := range []storage.Range{
			{}, {Start: "\x00"}, {After: "\x00schedule/"}, {Prefix: alarm.Prefix}, {Reverse: true}, {Limit: 1}, {End: "\x01"},
		} {
			var some []string
			for e, err := range s.List(r) {
				if err != nil {
					return err
				}
				some = append(some, e.Key)
			}
			keys = append(keys, fmt.Sprint(some))
		}
		return errors.New(strings.Join(keys, ";"))
	}
	return fmt.Errorf("nobody knows %q", what)
}

// planned is a host with one planner on a clock of the test's.
type planned struct {
	*planners
	t     fataler
	h     *actor.Host
	c     *clock.Fake
	store storage.Store
	id    storage.ID
	meter metric.MeterProvider // nil: none
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func newPlanned(t *testing.T, name string) *planned { return newPlannedWith(t, name, nil) }

func newPlannedWith(t *testing.T, name string, m metric.MeterProvider) *planned {
	store := storage.NewMemory()
	t.Cleanup(func() { store.Close() })
	p := &planned{t: t, c: clock.NewFake(morning), store: store, id: storage.ID{Class: "planner", Name: name}, planners: newPlanners(), meter: m}
	p.startHost()
	t.Cleanup(p.stopHost)
	return p
}

func (p *planned) startHost() {
	p.t.Helper()
	clocks.Store(p.id.Name, p.c)
	h, err := actor.NewHost(actor.Options{Store: p.store, Clock: p.c, Logger: slog.New(slog.DiscardHandler), Isolates: 1, MeterProvider: p.meter})
	if err != nil {
		p.t.Fatal(err)
	}
	p.class.Register(h)
	kicks.Register(h)
	if err := h.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.h = h
}

func (p *planned) stopHost() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.h.Shutdown(ctx); err != nil {
		p.t.Fatal("shutdown:", err)
	}
}

func ask[In, Out any](p *planned, c actor.Call[In, Out], in In) Out {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		out, err := c.Do(ctx, p.h.Stub(p.id), in)
		if err == nil {
			return out
		}
		// A reset on purpose takes what is in flight with it, done or not: what is asked
		// across one must be safe to repeat.
		if e, ok := errors.AsType[*actor.Error](err); !ok || !e.Reset() || ctx.Err() != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *planned) row() storage.Alarm {
	p.t.Helper()
	row, err := p.store.Alarm(context.Background(), p.id)
	if err != nil {
		p.t.Fatal(err)
	}
	return row
}

// becomes waits for something to be so.
func (p *planned) becomes(what string, f func() bool) {
	p.t.Helper()
	for i := range 5000 {
		if f() {
			return
		}
		if i%500 == 499 {
			p.kick()
		}
		time.Sleep(200 * time.Microsecond)
	}
	p.t.Fatalf("not in time: %s; the alarm is %v, it is %v, what ran is %q, and the schedules are %+v", what, p.row(), p.c.Now(), p.ran.list(), ask(p, p.list, 0))
}

func (p *planned) alarmIs(want time.Time) {
	p.t.Helper()
	p.becomes(fmt.Sprintf("the alarm is %v", want), func() bool { return p.row().At.Equal(want) })
}

// kick has the dispatcher look at the clock again: it may have looked just before
// the test moved it, and armed its timer just after. Nobody waits for the commit: the
// test may be holding commits back.
func (p *planned) kick() {
	p.t.Helper()
	id := storage.ID{Class: "kick", Name: "kick"}
	epoch, err := storage.Claim(context.Background(), p.store, id)
	if err != nil {
		p.t.Fatal(err)
	}
	p.store.Submit(&storage.Batch{ID: id, Epoch: epoch, Alarm: &storage.Alarm{At: morning.Add(-time.Hour)}}, func(error) {})
}

var kicks = actor.Define("kick", func(context.Context, *actor.State) (*struct{}, error) { return &struct{}{}, nil })

// to moves the clock to a time and lets the alarm at that time fire.
func (p *planned) to(at time.Time) {
	p.t.Helper()
	p.c.Advance(at.Sub(p.c.Now()))
}
