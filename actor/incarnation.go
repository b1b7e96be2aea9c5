package actor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// incarnation is one life of an object in memory, and an actor.
type incarnation struct {
	h       *Host
	id      storage.ID
	epoch   uint64
	isolate *isolate
	shard   *shard // of the directory
	entry   *entry // in it, while that is this incarnation's
	machine Machine
	pid     *pa.PID
	mailbox mailbox
	gate    gate
	life    lifetime

	broken  atomic.Pointer[Error]
	touched atomic.Int64 // when it last handled an event, in nanoseconds since the host began
	rests   atomic.Int64 // see Turn.Rests; 0: nothing was said
	charged int64        // under isolate.mu

	// turns, reads, criticals, alarms and teardowns count begins and ends, for the
	// watchdog; what it remembers of them is under the shard's lock. The constructor is
	// the first of the critical sections.
	turns, reads, criticals, alarms, teardowns atomic.Uint32
	seen                                       uint32  // turns, when it last looked
	stays                                      uint32  // turns, when the machine last said that it is not idle; 0: it has not
	stalls                                     *stalls // nil while the incarnation rests

	// overran: it was broken by the watchdog. torn: the object has been torn down, and
	// this incarnation ends when that is durable. asked: a charge of this object's own
	// did not fit.
	overran, torn, asked atomic.Bool
	// plain: there was nothing of a schedule when this incarnation looked. taken: the
	// object has set or deleted its alarm since its handler began, which is then not the
	// handler's to complete or to retry. fresh: nothing was ever committed to the object,
	// and this incarnation has committed nothing yet: storage has nothing of it, and is
	// not asked.
	plain, taken, fresh bool

	// alarm is the row as this incarnation knows it, nil while it has not looked; while
	// its handler runs there is none, until it is set anew.
	alarm *storage.Alarm
	// handling is the row whose handler is running, nil when none is.
	handling atomic.Pointer[storage.Alarm]
	// keeper derives the alarm, once the object has used its schedule.
	keeper *alarm.Keeper
	// baton is the turn whose goroutine has the mailbox, nil where none is running. Who
	// ends a turn, gives the mailbox away in its middle or resets the incarnation takes it
	// out, and one of them does.
	baton atomic.Pointer[Turn]
	// running is the same for who runs in it: nil where it can't be written to.
	running *Turn
	// atRun is the schedule whose callback holds the turn.
	atRun atomic.Pointer[string]

	mu    sync.Mutex
	hooks *hook // the one that was registered last
}

func newIncarnation(h *Host, id storage.ID, epoch uint64, fresh bool, m Machine) *incarnation {
	inc := &incarnation{h: h, id: id, epoch: epoch, fresh: fresh, isolate: h.isolateOf(id), shard: h.dir.shard(id), machine: m}
	inc.mailbox.inc = inc
	inc.touch(h.o.Clock.Now())
	return inc
}

// What an incarnation's mailbox carries, beside tokens: events themselves wait in the
// directory.
type (
	evict   struct{}
	reclaim struct{}
)

// spawn begins the incarnation's life.
func (inc *incarnation) spawn() {
	s := inc.shard
	s.mu.Lock()
	inc.entry = s.entries[inc.id]
	inc.entry.inc = inc
	s.mu.Unlock()
	inc.isolate.add(inc)
	pid := inc.h.spawner.spawn(inc)
	s.mu.Lock()
	inc.pid = pid
	s.mu.Unlock()
	if inc.err() != nil {
		inc.h.sys.Root.Stop(pid)
		return
	}
	inc.h.activate(inc)
}

// poke puts a token into the mailbox: an event waits. Called with the shard's lock.
func (inc *incarnation) poke() { inc.mailbox.poke() }

// err is why the incarnation is over, nil while it lives.
func (inc *incarnation) err() error {
	if e := inc.broken.Load(); e != nil {
		return e
	}
	return nil
}

// Receive makes it an actor, whose end alone is protoactor's to tell: see mailbox.step.
func (inc *incarnation) Receive(ctx pa.Context) {
	if _, stopped := ctx.Message().(*pa.Stopped); stopped {
		inc.terminated()
	}
}

// start is the constructor. Here and in what follows, false means that the mailbox is no
// longer this goroutine's.
func (inc *incarnation) start() (has bool) {
	defer inc.h.looked()
	t := inc.turn()
	defer func() { has = t.over(recover()) }()
	if inc.err() != nil {
		return
	}
	inc.criticals.Add(1)
	err := inc.guard("start", func() error { return inc.machine.Start(t) })
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Cause != Panicked {
			e = &Error{Op: "start", ID: inc.id, Epoch: inc.epoch, Cause: ConstructorFailed, Err: err}
		}
		inc.breakWith(e)
		return
	}
	inc.criticals.Add(1)
	t.end()
	return
}

// event handles the next event, if there is one.
func (inc *incarnation) event() (has bool) {
	defer inc.h.looked()
	if inc.torn.Load() {
		return true // what waits is for the next incarnation
	}
	e, ok := inc.h.take(inc)
	if !ok {
		return true
	}
	if r, ok := e.event.(resume); ok {
		return !r.resume()
	}
	t := inc.turn()
	defer func() { has = t.over(recover()) }()
	inc.handle(t, e)
	return
}

func (inc *incarnation) handle(t *Turn, e envelope) {
	if err := inc.err(); err != nil {
		if !inc.h.putBack(inc, e) {
			failAll([]envelope{e}, err)
		}
		return
	}
	inc.touch(t.now)
	switch e := e.event.(type) {
	case *fired:
		inc.runAlarm(t, e)
		return
	case derive:
		t.end()
		return
	case *rearm:
		inc.rearm(t, e)
		return
	case *inspect:
		inc.inspect(t, e)
		return
	case begin:
		inc.begin(t, e.run)
		return
	}
	if err := inc.guard("run", func() error { inc.machine.Handle(t, e.event); return nil }); err != nil {
		inc.breakWith(err)
		failAll([]envelope{e}, err)
		return
	}
	t.end()
}

// guard turns a panic into an Error that ends the incarnation.
func (inc *incarnation) guard(op string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = inc.panicked(op, r)
		}
	}()
	return f()
}

func (inc *incarnation) panicked(op string, r any) *Error {
	inc.h.log.Error("object panicked", "object", inc.id.String(), "epoch", inc.epoch, "panic", r, "stack", string(debug.Stack()))
	return &Error{Op: op, ID: inc.id, Epoch: inc.epoch, Cause: Panicked, Err: fmt.Errorf("%v", r), own: true}
}

// fired is an alarm on its way to its object.
type fired struct {
	due  storage.Due
	done func(error)
}

// runAlarm runs the alarm if the row still says so. The row stays until the
// handler's own commit completes it: a crash in between fires it again.
func (inc *incarnation) runAlarm(t *Turn, f *fired) {
	// From here on a reset tells the dispatcher as well: one that heard nothing would
	// not fire this alarm any more.
	forget := t.OnBreak(f.done)
	ran := func(err error) { forget(); f.done(err) }
	row, err := inc.alarmRow()
	if err != nil {
		ran(err)
		return
	}
	if row.At.IsZero() || row.At.After(t.now) {
		// Completed or moved since it was read from the index; the dispatcher may look
		// again when that is durable. What has moved and is due runs all the same: an
		// object that sets its alarm to now in each turn must not outrun it.
		t.After(func() { ran(nil) })
		t.end()
		return
	}
	scheduled, err := t.scheduled()
	if err != nil {
		ran(err)
		return
	}
	if f := inc.h.breaks.failed(inc.id); f != nil && f.row == row && !scheduled {
		// It has run, and its object has reset itself meanwhile. That is counted before
		// anything else: one that does it each time must come to the end of its retries.
		inc.retry(t, row, f.at, f.err)
		t.After(func() { ran(nil) })
		t.end()
		return
	}
	inc.h.meters.late(t.now.Sub(row.At))
	info := alarm.Info{Scheduled: row.Scheduled(), Retry: row.Retry}
	if scheduled {
		inc.wake(t, ran, info)
		return
	}
	inc.alarm, inc.taken = &noAlarm, false
	inc.handling.Store(&row)
	err = inc.guard("alarm", func() error {
		inc.runHandler(t, info, func(t *Turn, err error) {
			inc.alarmRan(t, row, err)
			t.After(func() { ran(nil) })
		})
		return nil
	})
	if err != nil {
		inc.breakWith(err)
		return
	}
	t.end()
}

// runHandler runs the machine's alarm, for as long as the watchdog lets it.
func (inc *incarnation) runHandler(t *Turn, info alarm.Info, done func(*Turn, error)) {
	inc.alarms.Add(1)
	inc.machine.Alarm(t, info, func(t *Turn, err error) {
		inc.alarms.Add(1)
		done(t, err)
	})
}

// alarmRan completes the row in turn t, or sets the retry.
func (inc *incarnation) alarmRan(t *Turn, row storage.Alarm, err error) {
	inc.handling.Store(nil)
	switch {
	case err == nil:
		if !inc.taken {
			t.writeAlarm(storage.Alarm{})
		}
		inc.h.meters.alarmRan(inc.id.Class, alarm.Succeeded)
	case inc.taken:
		inc.h.log.Warn("alarm failed", "object", inc.id.String(), "retry", row.Retry, "error", err)
		inc.h.meters.alarmRan(inc.id.Class, alarm.Retried) // by what was set in its place, if anything was
	default:
		inc.retry(t, row, t.now, err)
	}
}

// retry makes of the row, whose run has failed at a time, its retry.
func (inc *incarnation) retry(t *Turn, row storage.Alarm, at time.Time, err error) {
	if at = at.Round(0); at.After(t.now) {
		at = t.now // the clock was put back
	}
	outcome, next := alarm.GivenUp, storage.Alarm{}
	if wait, again := alarm.Backoff(row.Retry, alarm.Jitter(inc.id, row.Retry)); again {
		outcome, next = alarm.Retried, storage.Alarm{At: at.Add(wait), Retry: row.Retry + 1, Set: row.Scheduled()}
	}
	t.writeAlarm(next)
	inc.h.meters.alarmRan(inc.id.Class, outcome)
	inc.h.log.Warn("alarm failed", "object", inc.id.String(), "retry", row.Retry, "error", err)
	if outcome == alarm.GivenUp {
		inc.h.log.Error("alarm given up after its last retry", "object", inc.id.String(), "retries", row.Retry, "error", err)
	}
}

// alarmRow is the alarm as the last batch of this incarnation left it, or as it
// was found in storage.
func (inc *incarnation) alarmRow() (storage.Alarm, error) {
	if inc.alarm == nil && inc.fresh {
		inc.alarm = &noAlarm
	}
	if inc.alarm == nil {
		inc.reads.Add(1)
		a, err := inc.h.o.Store.Alarm(&inc.life, inc.id)
		inc.reads.Add(1)
		if err != nil {
			return a, err
		}
		if inc.alarm = &noAlarm; !a.At.IsZero() {
			known := a
			inc.alarm = &known
		}
	}
	return *inc.alarm, nil
}

// noAlarm is the row of who has none.
var noAlarm storage.Alarm

// passivate ends an idle incarnation in order, or lets it go on: false.
func (inc *incarnation) passivate() (over bool) {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	en := s.entries[inc.id]
	if en == nil || en.inc != inc || en.state != passivating || inc.err() != nil {
		return true
	}
	posted := slices.ContainsFunc(en.queue, func(e envelope) bool { return e.own })
	idle := inc.machine.Idle()
	if !idle {
		inc.stays = inc.turns.Load()
	}
	if posted || !idle || !inc.gate.idle() || inc.busy() {
		en.state = active
		for range en.queue {
			inc.poke()
		}
		return false
	}
	inc.broken.CompareAndSwap(nil, &Error{Op: "run", ID: inc.id, Epoch: inc.epoch, Cause: Superseded, Err: errEvicted})
	inc.h.evicted.Add(1)
	inc.life.end(errEvicted)
	inc.h.sockets.forget(inc.id)
	inc.h.sys.Root.Stop(inc.pid)
	return true
}

var errEvicted = errors.New("the incarnation was evicted")

// terminated is called when the incarnation's actor has ended.
func (inc *incarnation) terminated() {
	inc.isolate.remove(inc)
	inc.h.release(inc, nil)
}

// breakWith resets the incarnation. It may be called from any goroutine, in the
// middle of a turn as well: nobody waits for that turn to end.
func (inc *incarnation) breakWith(err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Op: "run", ID: inc.id, Epoch: inc.epoch, Cause: Aborted, Err: err}
	}
	if left, ok := inc.condemn(e); ok {
		inc.bury(left)
		inc.h.watcher.reset(e, inc.isolate.n)
	}
}

// condemn ends the incarnation's life: from here on nothing of it is written or
// leaves. Its WebSockets are closed when it is buried. False: it was over already.
func (inc *incarnation) condemn(e *Error) (left []*socket, ok bool) {
	if !inc.broken.CompareAndSwap(nil, e) {
		return nil, false
	}
	inc.gate.shut()
	return inc.h.sockets.take(inc.id), true
}

// bury does what is left to do about a condemned incarnation.
func (inc *incarnation) bury(left []*socket) {
	e := inc.broken.Load()
	inc.h.meters.reset(inc.isolate.n, e.Cause)
	inc.h.breaks.add(inc.id, lastBreak{e, inc.reset(e.Cause), inc.failedRun(e), inc.cut(e)})
	if inc.overran.Load() {
		inc.isolate.abandon(inc)
		if inc.turns.Load()%2 == 0 {
			inc.isolate.ended(inc)
		}
	} else {
		inc.isolate.remove(inc)
	}
	inc.life.end(e)
	// Out of the directory first: who is told, and calls again, gets the next one.
	inc.h.release(inc, e)
	closeFor(e, left)
	if inc.baton.Swap(nil) != nil {
		// Its turn is abandoned. Who runs it finds out.
		inc.h.o.Dispatcher.Schedule(inc.mailbox.run)
	}
	inc.unhook(e)
	s := inc.shard
	s.mu.Lock()
	pid := inc.pid
	s.mu.Unlock()
	if pid != nil {
		inc.h.sys.Root.Stop(pid)
	}
}

// reset is what the next incarnation's schedule is told of this one's end.
func (inc *incarnation) reset(c Cause) alarm.Reset {
	r := alarm.Reset{Epoch: inc.epoch, Panic: c == Panicked, Memory: c == MemoryLimit && inc.asked.Load()}
	if id := inc.atRun.Load(); id != nil {
		r.Schedule = *id
	}
	// A memory limit names whoever's demand did not fit; the others of the isolate
	// are bystanders.
	r.Own = r.Panic || r.Memory || r.Schedule != "" && c != MemoryLimit
	return r
}

// abort is a reset that the object's own code asks for.
func (inc *incarnation) abort(op string, reason error) {
	inc.breakWith(&Error{Op: op, ID: inc.id, Epoch: inc.epoch, Cause: Aborted, Err: reason, own: true})
}

// failedRun is the run of the alarm that has failed by a reset of the object's own
// making, nil for none. One that the object is only caught in costs no retry.
func (inc *incarnation) failedRun(e *Error) *failedRun {
	row := inc.handling.Load()
	if row == nil || !inc.brought(e) {
		return nil
	}
	return &failedRun{row: *row, at: inc.h.o.Clock.Now(), err: e}
}

// cut is failedRun for the handler of a schedule's owner.
func (inc *incarnation) cut(e *Error) error {
	if inc.handling.Load() != nil || inc.alarms.Load()%2 == 0 || !inc.brought(e) {
		return nil
	}
	return e
}

// brought: the object has brought the reset about.
func (inc *incarnation) brought(e *Error) bool {
	return e.own || e.Cause == MemoryLimit && inc.asked.Load()
}

// touch notes that the incarnation handles an event. It does so by the monotonic clock:
// a wall clock that is put back must not keep what rests in memory.
func (inc *incarnation) touch(now time.Time) {
	inc.touched.Store(int64(now.Sub(inc.h.began)))
}

// restsSince is when the incarnation last handled an event.
func (inc *incarnation) restsSince() time.Time {
	return inc.h.began.Add(time.Duration(inc.touched.Load()))
}
