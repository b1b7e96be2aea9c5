package actor

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// Turn is one uninterrupted stretch of an object's code. What it writes lands in
// one batch when it ends. It must not be used after that, nor from another
// goroutine.
type Turn struct {
	inc   *incarnation
	now   time.Time
	batch *storage.Batch
	size  int            // of the batch, in bytes, or a little more
	at    map[string]int // where a key is in the batch's puts, once there are many
	view  *overlay       // what the turn reads through, once it has read
	after []func()
	few   [2]func() // the first of them
	outs  []func()  // ahead of after: see out
	// submitted runs at the end of the turn, when its batch is on its way.
	submitted []func()
	lingers   bool // see Linger
	// leaving is what of a response leaves with the turn.
	leaving *leaving
	// open: it is going on. It is closed while its code awaits.
	open atomic.Bool
}

// fewPuts are searched one by one.
const fewPuts = 16

// turn begins a turn. Called by who has the mailbox.
func (inc *incarnation) turn() *Turn {
	t := &Turn{inc: inc}
	inc.baton.Store(t)
	t.begin()
	return t
}

// begin begins a turn, or the next one of code that has awaited.
func (t *Turn) begin() {
	t.reopen()
	t.again()
}

func (t *Turn) reopen() {
	t.open.Store(true)
	t.inc.turns.Add(1)
}

// close is told that the code of a turn has returned, or waits, or is over.
func (t *Turn) close() {
	if t.open.Load() {
		t.open.Store(false)
		t.inc.turned()
	}
}

// over is told that a turn's code has returned, or has panicked outside of what is the
// object's own.
func (t *Turn) over(panicked any) (has bool) {
	if panicked != nil {
		t.inc.breakWith(t.inc.panicked("run", panicked))
	}
	t.close()
	return t.inc.baton.CompareAndSwap(t, nil)
}

// Now is the time at which the turn began.
func (t *Turn) Now() time.Time { return t.now }

// ID names the object.
func (t *Turn) ID() storage.ID { return t.inc.id }

// Epoch is the incarnation's number.
func (t *Turn) Epoch() uint64 { return t.inc.epoch }

// Last is the reset that ended the incarnation before this one, nil when it was
// not reset in this process, or too many others were since.
func (t *Turn) Last() *Error { return t.inc.h.breaks.last(t.inc.id) }

// Context ends with the incarnation; its cause is the reset's error.
func (t *Turn) Context() context.Context { return &t.inc.life }

func (t *Turn) overlay() *overlay {
	if t.view == nil {
		bs := t.inc.gate.unapplied()
		if t.batch != nil {
			bs = append(bs, t.batch)
		}
		t.view = overlayOf(bs, t.inc.fresh)
	}
	return t.view
}

// Get reads a row, nil when there is none.
func (t *Turn) Get(key string) ([]byte, error) {
	t.inc.reads.Add(1)
	defer t.inc.reads.Add(1)
	v, err := t.overlay().get(&t.inc.life, t.inc.h.o.Store, t.inc.id, key)
	return v, t.inc.why(err)
}

// why is the error of a read, or the reset that it is a consequence of.
func (inc *incarnation) why(err error) error {
	if err != nil && inc.err() != nil {
		return inc.err()
	}
	return err
}

// List reads rows: those of the object's own, whose keys don't begin with a zero
// byte. See [alarm.Prefix].
func (t *Turn) List(r storage.Range) iter.Seq2[storage.Entry, error] { return t.list(own(r)) }

func (t *Turn) list(r storage.Range) iter.Seq2[storage.Entry, error] {
	rows := t.overlay().list(&t.inc.life, t.inc.h.o.Store, t.inc.id, r)
	return func(yield func(storage.Entry, error) bool) {
		reads := &t.inc.reads
		reads.Add(1)
		defer reads.Add(1)
		for e, err := range rows {
			reads.Add(1) // the body of the loop is no read
			more := yield(e, t.inc.why(err))
			reads.Add(1)
			if !more {
				return
			}
		}
	}
}

func (t *Turn) write() *storage.Batch {
	if t.batch == nil {
		t.inc.backpressure()
		t.batch = &storage.Batch{ID: t.inc.id, Epoch: t.inc.epoch}
	}
	return t.batch
}

// find is where a key is in the batch's puts, -1 when it is not there.
func (t *Turn) find(key string) int {
	puts := t.batch.Puts
	if len(puts) <= fewPuts {
		return slices.IndexFunc(puts, func(e storage.Entry) bool { return e.Key == key })
	}
	if t.at == nil {
		t.at = make(map[string]int, 2*len(puts))
		for i := range puts {
			t.at[puts[i].Key] = i
		}
	}
	if i, ok := t.at[key]; ok {
		return i
	}
	return -1
}

// Put writes a row. The value must not be modified any more.
func (t *Turn) Put(key string, value []byte) {
	b := t.write()
	t.view.put(key, value)
	if i := t.find(key); i >= 0 {
		t.size += len(value) - len(b.Puts[i].Value)
		b.Puts[i].Value = value
		return
	}
	t.size += rowSize(key, value)
	if t.at != nil {
		t.at[key] = len(b.Puts)
	}
	b.Puts = append(b.Puts, storage.Entry{Key: key, Value: value})
}

// PutAll is Put for each of some rows.
func (t *Turn) PutAll(rows []storage.Entry) {
	if len(rows) == 0 {
		return
	}
	b := t.write()
	b.Puts = slices.Grow(b.Puts, len(rows))
	for i := range rows {
		t.Put(rows[i].Key, rows[i].Value)
	}
}

// Delete deletes a row.
func (t *Turn) Delete(key string) {
	b := t.write()
	t.view.delete(key)
	if i := t.find(key); i >= 0 {
		t.size -= rowSize(key, b.Puts[i].Value)
		moved := b.Puts[len(b.Puts)-1]
		b.Puts[i] = moved
		b.Puts = b.Puts[:len(b.Puts)-1]
		if t.at != nil {
			t.at[moved.Key] = i
			delete(t.at, key)
		}
	}
	t.size += rowSize(key, nil)
	b.Deletes = append(b.Deletes, key)
}

// growth is by how much a Put makes the batch larger.
func (t *Turn) growth(key string, value []byte) int {
	n := rowSize(key, value)
	if t.batch != nil {
		if i := t.find(key); i >= 0 {
			n -= rowSize(key, t.batch.Puts[i].Value)
		}
	}
	return n
}

// rowSize is what a write adds to the Size of a batch, or a little more.
func rowSize(key string, value []byte) int { return len(key) + len(value) + 40 }

// Clear deletes all rows of the object, its schedules among them, and its alarm.
// A pending destroy goes on.
func (t *Turn) Clear() {
	scheduled, err := t.scheduled()
	if err == nil && scheduled {
		err = t.inc.keeper.Clear(t.clear)
	} else if err == nil {
		t.clear()
	}
	if err != nil {
		t.inc.breakWith(&Error{Op: "clear", ID: t.inc.id, Epoch: t.inc.epoch, Cause: CommitFailed, Err: err})
	}
}

func (t *Turn) clear() {
	b := t.write()
	t.view.clear()
	b.Clear, b.Puts, b.Deletes = true, nil, nil
	t.size, t.at = 0, nil
	t.writeAlarm(storage.Alarm{})
}

// SetAlarm sets the object's alarm; the zero time deletes it, and a time in the
// past means now. Setting what is set already writes nothing. A time that no alarm
// can have is refused with an *Error that wraps alarm.ErrTime, and nothing
// changes. It fails with ErrScheduled once Schedule is used.
func (t *Turn) SetAlarm(at time.Time) error {
	if scheduled, err := t.scheduled(); err != nil {
		return err
	} else if scheduled {
		return &Error{Op: "set alarm", ID: t.inc.id, Epoch: t.inc.epoch, Err: ErrScheduled, Hint: "register a deadline with Schedule().AddSource"}
	}
	if !at.IsZero() {
		if err := alarm.CheckTime(at); err != nil {
			return &Error{Op: "set alarm", ID: t.inc.id, Epoch: t.inc.epoch, Err: err}
		}
		if at.Before(t.now) {
			at = t.now
		}
	}
	row, err := t.inc.alarmRow()
	if err != nil {
		return err
	}
	is := storage.Alarm{At: at}.Normal() // as storage keeps it
	if running := t.inc.handling.Load() != nil && !t.inc.taken; row == is && !running {
		return nil // while it runs there seems to be none, and yet there is one to delete
	}
	t.writeAlarm(is)
	return nil
}

// Alarm is the time that the alarm was set to, also while a retry is due; zero when
// there is none, or while it runs.
func (t *Turn) Alarm() (time.Time, error) {
	row, err := t.inc.alarmRow()
	return row.Scheduled(), err
}

func (t *Turn) writeAlarm(a storage.Alarm) {
	a = a.Normal() // as storage keeps it
	t.inc.alarm, t.inc.taken = &a, true
	t.write().Alarm = &a
}

// After lets f run when everything written so far, in this turn and before it,
// is durable: it is the only way out of the object. Functions run in order, must
// not block, and never run when the incarnation is reset first.
func (t *Turn) After(f func()) {
	if t.after == nil && t.few[0] == nil {
		t.after = t.few[:0]
	}
	t.after = append(t.after, f)
}

// Submitted lets f run when what this turn has written is on its way to storage: then
// nothing but the end of the process, or of the store, keeps it from being durable before
// another incarnation begins. It is no way out of the object for what rests on that.
// Functions run in order, must not block, and never run when the incarnation is reset first.
func (t *Turn) Submitted(f func()) { t.submitted = append(t.submitted, f) }

// Linger lets the store hold what this turn has written back for some milliseconds, so
// that it lands together with what the object's next turn writes. What waits behind it
// waits as long. It is for a turn that is answered by another at once, as a rule.
func (t *Turn) Linger() { t.lingers = true }

// Abort resets the object after this turn, which leaves no trace.
func (t *Turn) Abort(reason error) {
	t.inc.abort("run", reason)
}

// Poster returns a function by which the incarnation's own helpers (a runtime, a
// timer) post events to it, and to no later incarnation. It fails with the
// reset's error when the incarnation is over.
func (t *Turn) Poster() func(event any) error {
	inc := t.inc
	return func(event any) error { return inc.h.post(inc, event) }
}

// post enqueues an event for one incarnation only.
func (h *Host) post(inc *incarnation, event any) error {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := inc.err(); err != nil {
		return err
	}
	en := inc.entry
	if en.inc != inc {
		return &Error{Op: "post", ID: inc.id, Epoch: inc.epoch, Cause: Superseded}
	}
	h.put(en, envelope{event: event, own: true})
	if en.state == active {
		inc.poke()
	}
	return nil
}

// Charger returns a function that accounts for memory that the object keeps, in
// bytes; see [Host.Heap]. It may be called from any goroutine, and not in a turn: what
// does not fit waits until the isolate has reclaimed enough, or ctx ends. Where that
// can't help, or takes too long, the isolate is reset.
func (t *Turn) Charger() func(ctx context.Context, bytes int64) (release func(), err error) {
	inc := t.inc
	return func(ctx context.Context, bytes int64) (func(), error) {
		w, err := inc.isolate.charge(inc, bytes)
		if w != nil {
			err = inc.isolate.wait(ctx, w)
		}
		if err != nil {
			return nil, err
		}
		return inc.releases(bytes), nil
	}
}

// releases returns what gives a charge back, once.
func (inc *incarnation) releases(bytes int64) func() {
	return sync.OnceFunc(func() { inc.isolate.discharge(inc, bytes) })
}

// again makes a new turn of one that has ended.
func (t *Turn) again() {
	t.now, t.view = t.inc.h.o.Clock.Now(), nil
	t.inc.running = t
}

// leave lets out what waits for the turn's end, in the middle of a transaction:
// what it rests on is sealed already.
func (t *Turn) leave() {
	after := t.after
	t.after = nil
	t.inc.gate.pass(after)
}

// end seals the turn: its batch is submitted, its outputs wait behind it.
func (t *Turn) end() {
	inc := t.inc
	if inc.err() != nil {
		return // an abandoned task may still be using the turn
	}
	if err := t.derive(); err != nil {
		inc.breakWith(&Error{Op: "derive alarm", ID: inc.id, Epoch: inc.epoch, Cause: CommitFailed, Err: err})
		return
	}
	inc.running = nil
	if b := t.batch; b != nil {
		t.batch, t.size, t.at = nil, 0, nil
		b.Fresh, b.Lingers = inc.fresh, t.lingers
		size := int64(b.Size())
		if err := inc.isolate.cache(inc, size); err != nil {
			return
		}
		inc.gate.seal(b, size)
		inc.fresh = false // from here on the store has it, or the gate
		inc.h.o.Store.Submit(b, func(err error) {
			inc.isolate.unwritten.Add(-size)
			if err == nil {
				inc.gate.confirmed(size)
				inc.h.looked()
				return
			}
			cause := CommitFailed
			if isStale(err) {
				cause = Superseded
			}
			inc.breakWith(&Error{Op: "commit", ID: inc.id, Epoch: inc.epoch, Cause: cause, Err: err})
		})
	}
	t.outside()
	for _, f := range t.submitted {
		f()
	}
	t.submitted = nil
	t.leave()
}

func isStale(err error) bool { return errors.Is(err, storage.ErrStaleEpoch) }
