package oracle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/storage"
)

// Kalpa is this module's host, on a clock that the driver moves and a disk in memory.
type Kalpa struct {
	program *Program
	points  *Points
	clock   *clock.Fake
	store   *storage.Memory
	life    *process
	unique  map[string]storage.ID // of the program's objects that have no name

	mu    sync.Mutex
	trace []TraceLine
}

// process is what restart ends.
type process struct {
	w    *Kalpa
	host *actor.Host
	disk *disk
	// network is nil until a client connects.
	network *network
	class   *actor.Class[thing]
	other   *actor.Class[thing]
	run     actor.Call[Event, struct{}]

	mu    sync.Mutex
	over  bool
	count map[string]int
	calls sync.WaitGroup
}

// Start serves World.
func (w *Kalpa) Start(ctx context.Context, p *Program, points *Points) error {
	w.program, w.points, w.unique = p, points, map[string]storage.ID{}
	w.clock = clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w.store = storage.NewMemory()
	return w.boot(ctx)
}

func (w *Kalpa) boot(context.Context) error {
	disk := newDisk(w.store)
	host, err := actor.NewHost(actor.Options{Store: disk, Clock: w.clock, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		disk.lose()
		return err
	}
	l := &process{w: w, host: host, disk: disk, count: map[string]int{}}
	l.class = actor.Define("main", l.construct)
	l.other = actor.Define("other", l.construct)
	l.run = actor.Method(l.class, "run", (*thing).event)
	actor.Method(l.other, "run", (*thing).event)
	l.class.Register(host)
	l.other.Register(host)
	for _, o := range w.program.Objects {
		if _, known := w.unique[o.Name]; o.Kind == "unique" && !known {
			if w.unique[o.Name], err = host.NewID(l.class.Name()); err != nil {
				return err
			}
		}
	}
	w.life = l
	return host.Start()
}

// id is that of an object of the program.
func (l *process) id(name string) storage.ID {
	if id, ok := l.w.unique[name]; ok {
		return id
	}
	return l.class.ID(name)
}

// name is the object's in the program.
func (l *process) name(id storage.ID) string {
	for name, unique := range l.w.unique {
		if unique == id {
			return name
		}
	}
	return id.Name
}

// say traces what an object of this process does.
func (l *process) say(object, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.w.mu.Lock()
		l.w.trace = append(l.w.trace, TraceLine{object, fmt.Sprintf(format, args...)})
		l.w.mu.Unlock()
	}
}

func (l *process) times(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[what]++
	return l.count[what]
}

func (l *process) handler(object, event string, n int) []Op {
	for _, o := range l.w.program.Objects {
		if o.Name == object {
			if ops, ok := o.Handlers[fmt.Sprintf("%s %d", event, n)]; ok {
				return ops
			}
			return o.Handlers[event]
		}
	}
	return nil
}

// Send serves World.
func (w *Kalpa) Send(ctx context.Context, events []Event, outcome func(label, outcome string)) error {
	l := w.life
	for _, e := range events {
		call := l.run.Start(ctx, l.host.Stub(l.id(e.Object)), e)
		l.calls.Go(func() {
			_, err := call.Wait(ctx)
			l.mu.Lock()
			over := l.over
			l.mu.Unlock()
			switch {
			case over:
				outcome(e.Label, "connection lost")
			case err != nil:
				outcome(e.Label, describe(err))
			default:
				outcome(e.Label, "ok")
			}
		})
	}
	return nil
}

// Pass serves World.
func (w *Kalpa) Pass(_ context.Context, d time.Duration) error {
	const step = 20 * time.Millisecond
	for ; d > 0; d -= step {
		time.Sleep(time.Millisecond) // for what the last step has woken
		w.clock.Advance(min(d, step))
	}
	return nil
}

// Nudge serves World.
func (w *Kalpa) Nudge() { w.clock.Advance(20 * time.Millisecond) }

// Restart serves World.
func (w *Kalpa) Restart(ctx context.Context) error {
	if err := w.life.end(); err != nil {
		return err
	}
	return w.boot(ctx)
}

// end ends a process as kill -9 does: nothing of it is seen from here on.
func (l *process) end() error {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.disk.lose()
	if l.network != nil {
		l.network.end()
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.host.Shutdown(now); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	l.calls.Wait()
	return nil
}

// Trace serves World.
func (w *Kalpa) Trace(context.Context) ([]TraceLine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]TraceLine(nil), w.trace...), nil
}

// Stop serves World.
func (w *Kalpa) Stop() error {
	return errors.Join(w.life.end(), w.store.Close())
}

// thing is the object that does what ops say.
type thing struct {
	l      *process
	s      *actor.State
	name   string
	memory string
}

func (l *process) construct(ctx context.Context, s *actor.State) (*thing, error) {
	o := &thing{l: l, s: s, name: l.name(s.ID()), memory: "nothing"}
	n := l.times("life " + o.name)
	o.say("incarnation %d", n)
	// What a constructor does is not awaited by it.
	for _, op := range l.handler(o.name, "constructor", n) {
		op.Detached = true
		if err := o.do(ctx, op, &run{label: "constructor"}); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *thing) say(format string, args ...any) { o.l.say(o.name, format, args...) }

func (o *thing) event(ctx context.Context, e Event) (struct{}, error) {
	return struct{}{}, o.all(ctx, e.Ops, &run{label: e.Label})
}

// Alarm serves actor.Alarmer.
func (o *thing) Alarm(ctx context.Context, info alarm.Info) error {
	n := o.l.times("alarm " + o.name)
	o.say("alarm %d retryCount=%d isRetry=%t", n, info.Retry, info.IsRetry())
	err := o.all(ctx, o.l.handler(o.name, "alarm", n), &run{label: fmt.Sprintf("alarm %d", n), info: info})
	switch {
	case o.gone(ctx):
	case err != nil:
		o.say("alarm %d failed %s", n, describe(err))
	default:
		o.say("alarm %d ended", n)
	}
	return err
}

// run is an event in progress.
type run struct {
	label string
	info  alarm.Info
	x     *exchange
	// rolledBack: the transaction that the ops are in has been given up.
	rolledBack bool
}

func (o *thing) all(ctx context.Context, ops []Op, r *run) error {
	for _, op := range ops {
		if r.rolledBack {
			return nil
		}
		if err := o.do(ctx, op, r); err != nil {
			return err
		}
	}
	return nil
}

// gone: the incarnation has ended, and what its code goes on doing is nobody's.
func (o *thing) gone(ctx context.Context) bool {
	_, err := o.s.Alarm()
	e, is := errors.AsType[*actor.Error](err)
	return ctx.Err() != nil || is && e.Reset()
}

// do does one op. Its error is the event's.
func (o *thing) do(ctx context.Context, op Op, r *run) error {
	text := op.Text
	switch {
	case op.Detached:
		text = "~" + text
		o.say("%s %s", r.label, text)
	case op.Body != nil && op.Name != "abort":
		o.say("%s %s {", r.label, text)
		text = "}"
	}
	result, err := ops[op.Name](ctx, o, op, r)
	switch {
	case o.gone(ctx):
		return err
	case err != nil && (op.Name == "throw" || op.Rethrow):
		if !op.Detached {
			o.say("%s %s ! %s", r.label, text, describe(err))
		}
		return err
	case err != nil:
		o.say("%s %s ! %s", r.label, text, describe(err))
	case op.Detached:
	case result != "":
		o.say("%s %s = %s", r.label, text, result)
	default:
		o.say("%s %s", r.label, text)
	}
	return nil
}
