package actor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// Pressure reclamation is what an isolate does before it is reset. Over its soft
// limit it asks its members, least recently used first, for what nobody needs: an
// object that rests is evicted, and a machine that is a Reclaimer gives back what it
// can make again. A charge that does not fit waits for that, if it can help.

// Reclaimer is what a Machine implements that keeps something in memory which it can
// give back and make again, as a session does its runtime.
type Reclaimer interface {
	// Reclaim asks for it: the isolate's heap is short. It is called in a turn, when the
	// object could not be evicted. done must be called once, from anywhere: when it has
	// been given back, or at once when there is nothing to give.
	Reclaim(t *Turn, done func())
}

// patience is how long a charge waits for what is being reclaimed: somewhat longer
// than the closing of a runtime may take, and shorter than a turn.
const patience = 15 * time.Second

// A member that is in the middle of a turn is asked again after a while, and for no
// longer than a moment: turns are short, unless they are what fills the heap.
const (
	lookAgain = 5 * time.Millisecond
	moment    = time.Second
)

// roundEvery is the time between two rounds that only the soft limit asks for.
const roundEvery = time.Second

// waiter is a charge that waits for memory.
type waiter struct {
	inc     *incarnation
	bytes   int64
	since   time.Time
	wake    run.Signal
	covered bool // by a round that has begun since it waits
	end     waitEnd
}

type waitEnd uint8

const (
	waits waitEnd = iota
	granted
	refused // there is nothing more to reclaim
	overdue // it has waited for too long
)

// round is one pass over an isolate's members.
type round struct {
	left  []*incarnation         // not asked yet, least recently used first
	asked map[*incarnation]int64 // have not answered; what each had charged
	count int                    // how many were asked
	busy  bool                   // members that may have something to give are at work
	freed int64
}

// reclaims: the isolate reclaims, instead of being reset at once.
func (i *isolate) reclaims() bool { return i.h.o.SoftLimit > 0 }

// grant lets charges that wait have what has become free, in order. Called with the
// lock.
func (i *isolate) grant() {
	for len(i.waiters) > 0 && i.fits(i.waiters[0].bytes) {
		w := i.waiters[0]
		i.waiters = i.waiters[1:]
		i.take(w.inc, w.bytes)
		w.finish(granted)
	}
}

// finish is called with the isolate's lock.
func (w *waiter) finish(end waitEnd) {
	w.end = end
	w.wake.Set()
}

// drop takes a waiter out, if it still waits: those behind it may fit. Called with the
// lock.
func (i *isolate) drop(w *waiter) {
	i.waiters = slices.DeleteFunc(i.waiters, func(other *waiter) bool { return other == w })
	i.grant()
}

// wait returns when a charge that did not fit has been granted, or with the error of
// the reset that it has come to. It must not be called in a turn.
func (i *isolate) wait(ctx context.Context, w *waiter) error {
	defer i.h.o.Clock.AfterFunc(patience, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if w.end == waits {
			i.drop(w)
			w.finish(overdue)
		}
	}).Stop()
	defer i.h.o.Runner.AfterDone(ctx, w.wake.Set)()
	for {
		i.mu.Lock()
		end, err := w.end, error(nil)
		switch {
		case end == waits && ctx.Err() != nil:
			i.drop(w)
			err = context.Cause(ctx)
		case end == refused:
			err = i.full(w.inc, w.bytes, "nothing more could be reclaimed")
		case end == overdue:
			err = i.full(w.inc, w.bytes, fmt.Sprintf("it has waited %v for what is being reclaimed", patience))
		}
		i.mu.Unlock()
		switch {
		case w.inc.err() != nil:
			i.resume() // those behind it
			return w.inc.err()
		case end == granted:
			i.h.meters.waited(i.n, "granted")
			return nil
		case end != waits:
			i.h.meters.waited(i.n, "reset")
			return i.overflow(w.inc, err)
		case err != nil:
			return err
		}
		w.wake.Wait()
	}
}

// resume has those who still wait be looked after.
func (i *isolate) resume() {
	i.mu.Lock()
	left := len(i.waiters) > 0
	i.mu.Unlock()
	if left {
		i.reclaim()
	}
}

// pressed: the soft limit asks for a round. Called with the lock.
func (i *isolate) pressed() bool {
	if !i.reclaims() || i.heap <= i.h.o.SoftLimit || i.round != nil {
		return false
	}
	now := i.h.o.Clock.Now().Sub(i.h.began)
	if now < i.nextRound {
		return false
	}
	i.nextRound = now + roundEvery
	return true
}

// relieve begins a round if the soft limit asks for one.
func (i *isolate) relieve() {
	i.mu.Lock()
	pressed := i.pressed()
	i.mu.Unlock()
	if pressed {
		i.reclaim()
	}
}

// reclaim begins a round if none is under way, and asks as many members as it needs.
// Who calls it holds no lock.
func (i *isolate) reclaim() {
	i.mu.Lock()
	if i.round == nil {
		i.begin()
	}
	i.mu.Unlock()
	i.goOn()
}

// begin begins a round. Called with the lock.
func (i *isolate) begin() {
	r := &round{asked: map[*incarnation]int64{}}
	// In any order: what is taken is sorted below.
	for inc := range i.members {
		switch {
		case !i.mayGive(inc):
		case inc.atWork():
			r.busy = true
		default:
			r.left = append(r.left, inc)
		}
	}
	slices.SortFunc(r.left, func(a, b *incarnation) int {
		return cmp.Or(cmp.Compare(a.lastUse(), b.lastUse()), byID(a.id, b.id))
	})
	for _, w := range i.waiters {
		w.covered = true
	}
	i.round = r
}

func byID(a, b storage.ID) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name))
}

// goOn asks further members while what those give who have been asked is not enough.
func (i *isolate) goOn() {
	for {
		i.mu.Lock()
		inc := i.next()
		i.mu.Unlock()
		if inc == nil {
			return
		}
		if !inc.ask() {
			i.mu.Lock()
			if i.round != nil {
				i.round.busy = true
			}
			i.answer(inc)
			i.mu.Unlock()
		}
	}
}

// next chooses who is asked; nil when there is nobody to ask at the moment. It ends
// a round whose members have answered. Called with the lock.
func (i *isolate) next() *incarnation {
	for i.round != nil {
		r := i.round
		for len(r.left) > 0 && i.short() {
			inc := r.left[0]
			r.left = r.left[1:]
			if _, ok := i.members[inc]; ok {
				r.asked[inc] = base + inc.charged
				r.count++
				return inc
			}
		}
		if len(r.asked) > 0 {
			return nil // it goes on when they have answered
		}
		i.round = nil
		if r.count > 0 {
			i.h.log.Info("isolate has reclaimed memory", "isolate", i.n, "asked", r.count, "freed", r.freed, "heap", i.heap, "soft_limit", i.h.o.SoftLimit, "limit", i.h.o.HeapLimit)
		}
		switch {
		case len(i.waiters) == 0:
		case !i.waiters[0].covered:
			i.begin()
		case r.busy && i.h.o.Clock.Now().Sub(i.waiters[0].since) < moment:
			i.h.o.Clock.AfterFunc(lookAgain, i.resume)
			return nil
		default:
			w := i.waiters[0]
			i.waiters = i.waiters[1:]
			w.finish(refused)
		}
	}
	return nil
}

// short: what has been promised is not enough. Called with the lock.
func (i *isolate) short() bool {
	goal := i.h.o.HeapLimit
	for _, w := range i.waiters {
		goal -= w.bytes
	}
	left := i.heap
	for inc := range i.round.asked {
		left -= base + inc.charged
	}
	return left > min(goal, i.h.o.SoftLimit)
}

// enough guesses whether reclaiming can make room for n bytes for a member. Called
// with the lock.
func (i *isolate) enough(asks *incarnation, n int64) bool {
	left := i.heap
	for _, w := range i.waiters {
		left += w.bytes
	}
	for inc := range i.members {
		if inc != asks && i.mayGive(inc) {
			left -= base + inc.charged
		}
	}
	return n <= i.h.o.HeapLimit-left
}

// answer notes that a member has given what it can. Called with the lock.
func (i *isolate) answer(inc *incarnation) {
	if i.round == nil {
		return
	}
	had, asked := i.round.asked[inc]
	if !asked {
		return
	}
	delete(i.round.asked, inc)
	if _, stays := i.members[inc]; stays {
		had -= base + inc.charged
	}
	if had > 0 {
		i.round.freed += had
		i.h.meters.reclaimed(i.n, had)
	}
}

// answered is answer for who holds no lock; the round goes on.
func (i *isolate) answered(inc *incarnation) {
	i.mu.Lock()
	i.answer(inc)
	i.mu.Unlock()
	i.goOn()
}

// inUse is the last use of what is being used.
const inUse = math.MinInt64

// Rests says since when nobody has needed what the machine keeps in memory, and that
// it may be reclaimed; the zero time: somebody needs it. Of an object that never says
// so each event is a use.
func (t *Turn) Rests(since time.Time) {
	at := int64(inUse)
	if !since.IsZero() {
		at = cmp.Or(int64(since.Sub(t.inc.h.began)), 1) // 0: nothing was said
	}
	t.inc.rests.Store(at)
}

// lastUse is when the incarnation was last of use, by the host's own time.
func (inc *incarnation) lastUse() int64 {
	if at := inc.rests.Load(); at != 0 {
		return at
	}
	return inc.touched.Load()
}

// mayGive guesses that a member has something to give: whether it has is known to its
// mailbox alone. Who waits for memory has not. Called with the lock.
func (i *isolate) mayGive(inc *incarnation) bool {
	return inc.lastUse() != inUse && !slices.ContainsFunc(i.waiters, func(w *waiter) bool { return w.inc == inc })
}

// ask asks an incarnation that rests to give what it can. False: it is at work.
func (inc *incarnation) ask() bool {
	s := inc.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	en := s.entries[inc.id]
	if en == nil || en.inc != inc || en.state != active || len(en.queue) > 0 || inc.atWork() {
		return false
	}
	en.state = passivating
	inc.h.sys.Root.Send(inc.pid, reclaim{})
	return true
}

// giveBack is what an incarnation does that was asked and can't be evicted.
func (inc *incarnation) giveBack() (has bool) {
	done := func() { inc.isolate.answered(inc) }
	r, ok := inc.machine.(Reclaimer)
	if !ok || inc.err() != nil || inc.torn.Load() {
		done()
		return true
	}
	t := inc.turn()
	defer func() { has = t.over(recover()) }()
	if err := inc.guard("reclaim", func() error { r.Reclaim(t, done); return nil }); err != nil {
		inc.breakWith(err)
		return
	}
	t.end()
	return
}
