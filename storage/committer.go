package storage

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/internal/seams"
)

// Bounds of a Committer, in bytes of Batch.Size where they are bytes.
const (
	// DefaultQueueBytes bounds what waits to be applied. Submit blocks above it.
	DefaultQueueBytes = 64 << 20
	// DefaultGroupBytes and DefaultGroupCount bound one group.
	DefaultGroupBytes = 1 << 20
	DefaultGroupCount = 1024
	// DefaultWindow bounds the groups that are applied and not yet durable. While
	// it is full, what waits grows into a larger group.
	DefaultWindow = 4

	// yields is how often those that are ready go first while a group grows by it.
	yields = 8
	// controlBytes is what a queued claim or release counts for.
	controlBytes = 128
	// spareRequests bounds the array that is kept for the next queue.
	spareRequests = 1 << 14
)

// CommitterOptions configure a Committer. The zero value is the default, save
// for Fatal.
type CommitterOptions struct {
	QueueBytes int
	GroupBytes int
	GroupCount int
	Window     int
	// Linger bounds how long a batch that lingers waits. 0 means DefaultLinger.
	Linger time.Duration
	// Clock is what it is measured by. Nil means the system's.
	Clock clock.Clock
	// Runner starts the goroutines. Nil means the runtime's own.
	Runner run.Runner
	// Fatal is called once, with the first error of a group. In production it
	// ends the process. If it returns, everything fails from there on.
	Fatal func(error)
	// Seams take parts out, for the tests and benchmarks of this module.
	Seams seams.Storage
	// Kill ends the process at once, as by kill -9, at a commit that Seams name.
	Kill func()
}

func (o *CommitterOptions) fill() {
	for _, d := range []struct {
		n   *int
		def int
	}{
		{&o.QueueBytes, DefaultQueueBytes},
		{&o.GroupBytes, DefaultGroupBytes},
		{&o.GroupCount, DefaultGroupCount},
		{&o.Window, DefaultWindow},
	} {
		if *d.n <= 0 {
			*d.n = d.def
		}
	}
	if o.Linger <= 0 {
		o.Linger = DefaultLinger
	}
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.Runner == nil {
		o.Runner = run.Real
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
}

// Committer takes the claims, batches and releases of all objects in one queue
// and turns them into groups, so that many commits share one fsync.
//
// Two goroutines work in a pipeline. The first forms a group out of what waits,
// asks the fence about each batch while it does so, and applies the group; it
// does not wait for the disk. The second waits for groups in order and calls
// back. So while one group is on its way to the disk, the next one forms, and
// its size adapts to the load without a timer. Claims that come while nothing is on its
// way are answered by the first.
//
// A batch that lingers stays out of the queue until the next claim, batch or release of its
// object, with which it lands as one if it can, or until it has waited long enough.
//
// A batch that is refused for what it holds ends its incarnation: batches behind
// it must not land without it.
type Committer struct {
	backend  Backend
	opts     CommitterOptions
	observer atomic.Pointer[func(ID, time.Time)]
	failure  atomic.Pointer[Error]
	counts   counts

	mu      sync.Mutex
	work    run.Signal // the queue has something, or closing
	queue   []request
	spare   []request
	bytes   int
	blocked []*blocked // in order; the first does not fit
	lingers lingering
	closing bool
	ended   bool       // both goroutines are gone
	gone    run.Signal // likewise

	applied pipe // from the first goroutine to the second

	fence  *Fence // of the forming goroutine
	number uint64 // of the group that is being formed; likewise
	writes uint64 // groups that write; likewise
	free   chan *group
}

// Stats are totals since the store was opened.
type Stats struct {
	Claims, Commits, Stale uint64
	// Groups is the number of times that the disk was written to.
	Groups uint64
	// Bytes is the Size of all committed batches.
	Bytes uint64
	// Waited is the time spent waiting for the disk.
	Waited time.Duration
	// QueueBytes is what waits to be applied right now.
	QueueBytes int
	// Alarms is how many more objects have an alarm than when the store was opened.
	Alarms int64
}

type counts struct {
	claims, commits, stale, groups, bytes atomic.Uint64
	waited, alarms                        atomic.Int64
}

type kind uint8

const (
	submitting kind = iota
	claiming
	releasing
)

// request is an element of the queue.
type request struct {
	kind    kind
	size    int
	id      ID
	epoch   uint64 // releasing
	batch   *Batch
	err     error // found before it was queued
	done    func(error)
	claimed func(uint64, bool, error)
}

// blocked is a Submit that waits for room.
type blocked struct {
	request request
	wake    run.Signal
	queued  bool // false when it wakes: the store was closed
}

// outcome is what is left of a request when it has passed the fence.
type outcome struct {
	err     error
	done    func(error)
	claimed func(uint64, bool, error)
	claim   *Incarnation
	fresh   bool
	id      ID
	alarm   time.Time
}

type group struct {
	writes   Group // nil when there is nothing to write
	outcomes []outcome
}

// NewCommitter makes a boot number durable and starts the pipeline.
func NewCommitter(b Backend, o CommitterOptions) (*Committer, error) {
	o.fill()
	boot, err := b.NextBoot()
	if err != nil {
		return nil, err
	}
	c := &Committer{
		backend: b,
		opts:    o,
		fence:   NewFence(boot),
		free:    make(chan *group, o.Window+2),
		work:    o.Runner.Signal(),
		gone:    o.Runner.Signal(),
		applied: pipe{window: o.Window, room: o.Runner.Signal(), ready: o.Runner.Signal()},
	}
	c.fence.seams = o.Seams
	o.Runner.Go(c.form)
	o.Runner.Go(c.settle)
	return c, nil
}

// Claim is Store.Claim. It does not block.
func (c *Committer) Claim(id ID, done func(uint64, bool, error)) {
	r := request{kind: claiming, size: controlBytes, id: id, claimed: done}
	if err := id.Validate(); err != nil {
		r.err = &Error{Op: "claim", ID: id, Err: err}
	}
	if !c.enqueue(r, false) {
		c.opts.Runner.Go(func() { done(0, false, &Error{Op: "claim", ID: id, Err: ErrClosed}) })
	}
}

// Release is Store.Release. It does not block.
func (c *Committer) Release(id ID, epoch uint64) {
	c.enqueue(request{kind: releasing, size: controlBytes, id: id, epoch: epoch}, false)
}

// Submit is Store.Submit.
func (c *Committer) Submit(b *Batch, done func(error)) {
	r := request{kind: submitting, size: b.Size(), id: b.ID, batch: b, done: done}
	if err := b.Validate(); err != nil {
		r.err = &Error{Op: "commit", ID: b.ID, Err: err}
	}
	if !c.enqueue(r, true) {
		c.opts.Runner.Go(func() { done(&Error{Op: "commit", ID: b.ID, Err: ErrClosed}) })
	}
}

// OnAlarm is Store.OnAlarm.
func (c *Committer) OnAlarm(f func(ID, time.Time)) { c.observer.Store(&f) }

// Stats returns the totals so far.
func (c *Committer) Stats() Stats {
	c.mu.Lock()
	queued := c.bytes
	c.mu.Unlock()
	return Stats{
		Claims:     c.counts.claims.Load(),
		Commits:    c.counts.commits.Load(),
		Stale:      c.counts.stale.Load(),
		Groups:     c.counts.groups.Load(),
		Bytes:      c.counts.bytes.Load(),
		Waited:     time.Duration(c.counts.waited.Load()),
		QueueBytes: queued,
		Alarms:     c.counts.alarms.Load(),
	}
}

// Close ends the pipeline after what has been queued. Only the first call
// returns nil or the failure; a later one waits and returns ErrClosed.
func (c *Committer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.closing
	c.closing = true
	c.lingers.over(true, c.line)
	for _, w := range c.blocked {
		w.wake.Set()
	}
	c.blocked = nil
	c.work.Set()
	for !c.ended {
		run.WaitWithout(&c.mu, c.gone)
	}
	c.gone.Set() // for who else waits
	if again {
		return &Error{Op: "close", Err: ErrClosed}
	}
	if err := c.failure.Load(); err != nil {
		return err
	}
	return nil
}

// Fail makes everything that is not durable yet fail with the error, and ends
// the process through Fatal. A backend may call it from any goroutine.
func (c *Committer) Fail(err error) {
	if c.failure.CompareAndSwap(nil, &Error{Op: "commit", Err: err}) {
		c.opts.Fatal(c.failure.Load())
	}
}

// enqueue reports false when the store is closed. With wait it blocks while the
// queue is full. Those that are blocked are let in one by one as they fit, and
// not woken to race for the room: there may be thousands of them.
func (c *Committer) enqueue(r request, wait bool) bool {
	c.mu.Lock()
	if wait && !c.closing && (len(c.blocked) > 0 || !c.fits(r)) {
		w := &blocked{request: r, wake: c.opts.Runner.Signal()}
		c.blocked = append(c.blocked, w)
		c.mu.Unlock()
		w.wake.Wait()
		return w.queued
	}
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.push(r)
	return true
}

// fits reports whether there is room for a request. One that is larger than the
// whole queue fits when the queue is empty.
func (c *Committer) fits(r request) bool {
	return c.bytes == 0 || c.bytes+r.size <= c.opts.QueueBytes
}

// push lets a request in, behind or with what lingers of its object.
func (c *Committer) push(r request) {
	c.bytes += r.size
	lingers := r.kind == submitting && r.batch.Lingers && r.err == nil && r.size <= mostLingering
	if before, ok := c.lingers.take(r.id); ok {
		if before.joins(&r) {
			r = before.join(r)
		} else {
			c.line(before)
		}
		lingers = false // or the first of many would wait for the last
	}
	if !lingers {
		c.line(r)
	} else if c.lingers.add(r) {
		c.tick()
	}
}

// tick has what lingers looked after.
func (c *Committer) tick() {
	c.opts.Clock.AfterFunc(c.opts.Linger/2, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.lingers.over(false, c.line) {
			c.tick()
		}
	})
}

// line puts a request into the queue.
func (c *Committer) line(r request) {
	c.queue = append(c.queue, r)
	if len(c.queue) == 1 {
		c.work.Set()
	}
}

// take returns everything that is queued, or nil when the queue is closed and empty.
func (c *Committer) take() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) == 0 {
		if c.closing {
			return nil
		}
		run.WaitWithout(&c.mu, c.work)
	}
	if slices.ContainsFunc(c.queue, func(r request) bool { return r.kind == submitting }) {
		c.gather()
	}
	taken := c.queue
	c.queue, c.spare = c.spare[:0], taken
	return taken
}

// gather lets those that are ready to run submit what they are about to, so that it
// shares the fsync: one takes as much of a processor as half a dozen commits. It waits
// for nobody: when nothing else is ready, nothing is lost. Called with the lock.
func (c *Committer) gather() {
	for range yields {
		before := len(c.queue)
		c.mu.Unlock()
		c.opts.Runner.Yield()
		c.mu.Lock()
		if len(c.queue) == before {
			return
		}
	}
}

// freed gives room back, and lets in who waits for it.
func (c *Committer) freed(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= bytes
	n := 0
	for ; n < len(c.blocked) && c.fits(c.blocked[n].request); n++ {
		c.push(c.blocked[n].request)
		c.blocked[n].queued = true
		c.blocked[n].wake.Set()
		c.blocked[n] = nil
	}
	if c.blocked = c.blocked[n:]; len(c.blocked) == 0 {
		c.blocked = nil
	}
}

// form is the first stage: it owns the fence.
func (c *Committer) form() {
	defer c.applied.close()
	for {
		taken := c.take()
		if taken == nil {
			return
		}
		for rest := taken; len(rest) > 0; {
			g, n, bytes := c.formGroup(rest)
			if g.writes != nil {
				if c.writes++; c.writes == c.opts.Seams.KillBefore {
					c.opts.Kill()
				}
				if err := g.writes.Apply(); err != nil {
					c.Fail(err)
				}
			}
			if g.writes == nil && c.applied.resting() {
				c.acquireAll(g) // there is nothing to wait for: a wake needs no other goroutine
				c.callBack(g)
			} else {
				c.applied.put(g)
			}
			c.freed(bytes)
			rest = rest[n:]
		}
		clear(taken) // the array is used again, and must not keep the batches
		if cap(taken) > spareRequests {
			c.mu.Lock()
			c.spare = nil
			c.mu.Unlock()
		}
	}
}

// formGroup makes a group out of the first n requests.
func (c *Committer) formGroup(rs []request) (g *group, n, bytes int) {
	select {
	case g = <-c.free:
	default:
		g = new(group)
	}
	c.number++
	commits := 0
	for ; n < len(rs) && n < c.opts.GroupCount; n++ {
		r := &rs[n]
		if n > 0 && (bytes+r.size > c.opts.GroupBytes || r.kind == submitting && c.mustFollow(r.batch)) {
			break
		}
		bytes += r.size
		switch r.kind {
		case claiming:
			g.outcomes = append(g.outcomes, c.claim(r))
		case releasing:
			c.fence.Release(r.id, r.epoch)
		case submitting:
			o, w, ok := c.admit(r)
			if ok {
				if g.writes == nil {
					g.writes = c.backend.NewGroup()
				}
				g.writes.Add(w)
				commits++
				c.counts.bytes.Add(uint64(r.size))
			}
			g.outcomes = append(g.outcomes, o)
		}
	}
	c.counts.commits.Add(uint64(commits))
	return g, n, bytes
}

// mustFollow reports whether a batch can't be in the group that is being formed:
// a Clear may have to read the object's rows, and so comes after all of them have
// been applied.
func (c *Committer) mustFollow(b *Batch) bool {
	if !b.Clear {
		return false
	}
	in := c.fence.claims[b.ID]
	return in != nil && in.group == c.number
}

func (c *Committer) claim(r *request) outcome {
	o := outcome{id: r.id, claimed: r.claimed, err: r.err}
	if o.err != nil {
		return o
	}
	if c.fence.Exhausted() {
		boot, err := c.backend.NextBoot()
		if err != nil {
			o.err = err
			return o
		}
		c.fence.Reboot(boot)
	}
	o.claim = c.fence.Claim(r.id)
	c.counts.claims.Add(1)
	return o
}

func (c *Committer) admit(r *request) (o outcome, w Write, ok bool) {
	b := r.batch
	o = outcome{id: b.ID, done: r.done, err: r.err}
	if failed := c.failure.Load(); failed != nil {
		o.err = failed
		return o, w, false
	}
	if o.err != nil {
		c.fence.Release(b.ID, b.Epoch)
		return o, w, false
	}
	if w, ok = c.fence.Admit(b); !ok {
		o.err = &Error{Op: "commit", ID: b.ID, Err: ErrStaleEpoch}
		c.counts.stale.Add(1)
		return o, w, false
	}
	w.incarnation.group = c.number
	switch was, is := w.Was.At.IsZero(), w.Is.At.IsZero(); {
	case was && !is:
		c.counts.alarms.Add(1)
	case is && !was:
		c.counts.alarms.Add(-1)
	}
	if at, set := w.AlarmSet(); set {
		o.alarm = at
	}
	return o, w, true
}

// settle is the second stage: it waits for the disk and calls back.
func (c *Committer) settle() {
	defer func() {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		c.gone.Set()
	}()
	for g := c.applied.take(); g != nil; g = c.applied.take() {
		c.acquireAll(g) // while the group is on its way to the disk
		if g.writes != nil && c.failure.Load() == nil {
			begun := time.Now() //nolint:forbidigo // it measures the disk, and decides nothing
			if err := g.writes.Wait(); err != nil {
				c.Fail(err)
			}
			c.counts.waited.Add(int64(time.Since(begun))) //nolint:forbidigo // likewise
			if c.counts.groups.Add(1) == c.opts.Seams.KillAfter {
				c.opts.Kill()
			}
		}
		c.callBack(g)
	}
}

// acquireAll completes a group's claims. What they read was applied before the group was
// formed to its end.
func (c *Committer) acquireAll(g *group) {
	for i := range g.outcomes {
		if o := &g.outcomes[i]; o.claim != nil {
			o.fresh, o.err = c.acquire(o.id, o.claim)
		}
	}
}

// acquire completes a claim; fresh: nothing was ever committed to the object.
func (c *Committer) acquire(id ID, in *Incarnation) (fresh bool, err error) {
	epoch, alarm, err := c.backend.Head(id)
	if err == nil {
		err = in.Acquire(id, epoch, alarm)
	}
	if err != nil {
		c.Release(id, in.Epoch)
	}
	return epoch == 0, err
}

// callBack tells what has become of a group, which is used again.
func (c *Committer) callBack(g *group) {
	failed := c.failure.Load()
	observer := c.observer.Load()
	for i := range g.outcomes {
		o := &g.outcomes[i]
		if failed != nil && o.err == nil {
			o.err = failed
		}
		if o.err == nil && observer != nil && !o.alarm.IsZero() {
			(*observer)(o.id, o.alarm)
		}
		switch {
		case o.claimed == nil:
			o.done(o.err)
		case o.err != nil:
			o.claimed(0, false, o.err)
		default:
			o.claimed(o.claim.Epoch, o.fresh, nil)
		}
	}
	clear(g.outcomes)
	g.outcomes, g.writes = g.outcomes[:0], nil
	select {
	case c.free <- g:
	default:
	}
}
