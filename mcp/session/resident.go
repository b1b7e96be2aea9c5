package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

var errReset = mcp.ErrReset

// maxFromRuntime bounds what a runtime has sent and the session has not handled,
// in bytes: past it, Send blocks.
const maxFromRuntime = 8 << 20

// resident is one generation of a session's runtime: what the plugin sees as its
// mcp.Session. One goroutine at a time builds the runtime, delivers to it in order, and
// closes it; there is none while there is nothing to do.
type resident struct {
	obj    *object
	gen    uint64
	svc    *Service
	id     string
	epoch  uint64
	server *Server
	meta   meta
	init   []byte
	log    atomic.Pointer[slog.Logger] // nil until it is asked for
	post   func(any) error
	charge func(context.Context, int64) (func(), error)
	story  *story

	life   context.Context // ends when the runtime is to be closed, is not ready in time, or the incarnation is over
	cancel context.CancelCauseFunc
	forget func()
	room   *semaphore.Weighted

	// worker is woken at the start, when there is something to deliver, when the life
	// ends, and when the runtime before this one is gone.
	worker  worker
	begun   bool
	runtime mcp.Runtime // nil: it is not built

	// gated is how many messages for it wait behind the output gate.
	gated atomic.Int32

	mu      sync.Mutex
	started bool // else there is nothing to end
	inbox   []wire.Message
	waiting int64      // bytes in the inbox
	ops     []*stateOp // that wait for their turn, in order; nil when the life has ended
	charges []charge   // that are not given back, in order; nil when the runtime is gone
	charged int        // how many there were
	exit    sync.Once

	// Under the service's lock.
	before *resident // of the same session, until it is gone
	gone   bool
	next   *worker // of the runtime that waits for this one to be gone
}

func newResident(obj *object, t *actor.Turn, gen uint64) *resident {
	s := obj.s
	rt := &resident{
		obj: obj, gen: gen, svc: obj.svc, id: s.id, epoch: s.epoch, server: s.cfg, meta: *s.meta, init: s.initParams,
		post: obj.post, charge: t.Charger(),
		room: semaphore.NewWeighted(maxFromRuntime), charges: []charge{}, ops: []*stateOp{},
	}
	rt.worker.runner, rt.worker.step = obj.svc.host.Runner(), rt.live
	rt.story = obj.newStory(t, gen)
	rt.life, rt.cancel = context.WithCancelCause(context.Background())
	rt.forget = t.OnBreak(rt.broken)
	return rt
}

// start runs the generation: it must not block.
func (rt *resident) start() {
	rt.svc.began()
	rt.mu.Lock()
	rt.started = true
	rt.mu.Unlock()
	rt.worker.wake()
}

// live goes on with the generation's life until nothing is left to do for now; true
// when it is over.
func (rt *resident) live() (over bool) {
	over = true
	defer func() {
		if over { // also when the plugin has ended the goroutine
			rt.svc.ended()
		}
	}()
	if !rt.begun {
		// A runtime of an incarnation that was reset can still act on the world: the
		// next is built only when it is gone.
		if rt.svc.succeed(rt) {
			return false
		}
		rt.begin()
	}
	if rt.runtime != nil {
		rt.serve()
	}
	if rt.life.Err() == nil {
		return false
	}
	rt.finish()
	return true
}

func (rt *resident) begin() {
	rt.begun = true
	rt.story.begin()
	r, err := rt.build()
	if err == nil {
		rt.runtime = r
		rt.svc.residents.Add(1)
		rt.story.resident()
		if errors.Is(context.Cause(rt.life), errBuildTimeout) {
			err = errBuildTimeout
		}
	}
	if err != nil {
		rt.story.failed(err)
	}
	if rt.post(built{rt.gen, err}) != nil {
		rt.end()
	}
}

func (rt *resident) finish() {
	if rt.runtime != nil {
		rt.closeRuntime(rt.runtime)
		rt.story.reaped()
		rt.svc.residents.Add(-1)
	}
	rt.end()
	rt.mu.Lock()
	for _, c := range rt.charges {
		c.give()
	}
	rt.charges = nil
	rt.mu.Unlock()
	rt.forget()
	rt.svc.left(rt)
	_ = rt.post(closed{rt.gen})
}

// end ends the life: what waits for it hears of it.
func (rt *resident) end() {
	rt.cancel(nil)
	rt.mu.Lock()
	ops, started := rt.ops, rt.started
	rt.ops = nil
	rt.mu.Unlock()
	if started {
		rt.worker.wake()
	}
	for _, op := range ops {
		op.wake.Set() // each has one that waits, and all are told
	}
}

// build asks the plugin for the runtime, whose life is over if that takes too long: it
// is closed then like any other.
func (rt *resident) build() (r mcp.Runtime, err error) {
	late := rt.svc.host.Clock().AfterFunc(rt.server.BuildTimeout, func() {
		rt.story.closing(closedBuild, 0)
		rt.cancel(errBuildTimeout)
	})
	defer late.Stop()
	defer func() {
		if p := recover(); p != nil {
			rt.Logger().Error("plugin panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the plugin panicked: %v", p)
		}
	}()
	return rt.server.Plugin.Build(rt.life, rt)
}

// serve delivers what there is.
func (rt *resident) serve() {
	for rt.life.Err() == nil {
		rt.mu.Lock()
		batch := rt.inbox
		rt.inbox, rt.waiting = nil, 0
		rt.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			if rt.life.Err() != nil {
				return
			}
			if err := rt.runtime.Deliver(rt.life, m); err != nil {
				rt.Exited(err)
				break
			}
		}
	}
}

// closeRuntime closes the runtime; a plugin that can't within the time is left
// to itself.
func (rt *resident) closeRuntime(r mcp.Runtime) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	late := rt.svc.host.Clock().AfterFunc(rt.svc.closeTimeout, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	defer func() {
		if p := recover(); p != nil {
			rt.Logger().Error("plugin panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := r.Close(ctx); err != nil {
		rt.Logger().Warn("runtime did not close in order", "error", err)
	}
}

// maxInbox bounds what waits for a runtime to take it, in bytes: twice the
// default of what a session's requests may hold.
const maxInbox = 128 << 20

// deliver queues a message for the runtime. One that does not take what it is
// sent is given up.
func (rt *resident) deliver(m wire.Message) {
	rt.mu.Lock()
	full := rt.waiting > maxInbox
	if !full {
		rt.inbox = append(rt.inbox, m)
		rt.waiting += int64(len(m.Bytes()))
	}
	rt.mu.Unlock()
	if full {
		rt.Exited(fmt.Errorf("it has not taken %d bytes that were sent to it", rt.waiting))
		return
	}
	rt.worker.wake()
}

// close ends the generation in order, broken because its incarnation was reset.
func (rt *resident) close(e closeRuntime) {
	if e.err != nil {
		rt.story.failed(e.err)
	}
	rt.story.closing(e.why, e.idle)
	rt.end()
}

func (rt *resident) broken(err error) {
	rt.story.reset(err)
	rt.end()
}

// The mcp.Session of the plugin.

func (rt *resident) ID() string               { return rt.id }
func (rt *resident) Server() string           { return rt.server.Name }
func (rt *resident) Principal() mcp.Principal { return rt.meta.Principal }
func (rt *resident) Epoch() uint64            { return rt.epoch }
func (rt *resident) State() mcp.State         { return durable{rt} }
func (rt *resident) Handshake() mcp.Handshake {
	return mcp.Handshake{ProtocolVersion: rt.meta.Version, Initialize: json.RawMessage(rt.init)}
}

// Logger implements mcp.Session. Most runtimes never ask for it.
func (rt *resident) Logger() *slog.Logger {
	l := rt.log.Load()
	if l == nil {
		l = rt.svc.log.With("session", rt.id, "epoch", rt.epoch, "generation", rt.gen)
		rt.log.Store(l)
	}
	return l
}

func (rt *resident) Send(ctx context.Context, m wire.Message, about wire.ID) error {
	if rt.life.Err() != nil {
		return errReset
	}
	if !rt.room.TryAcquire(weight(m)) {
		both, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(rt.life, cancel)()
		if err := rt.room.Acquire(both, weight(m)); err != nil {
			if rt.life.Err() != nil {
				return errReset
			}
			return ctx.Err()
		}
	}
	if err := rt.post(fromRuntime{rt.gen, m, about}); err != nil {
		return fmt.Errorf("%w: %w", errReset, err)
	}
	return nil
}

// release gives back the room of a message that the session has handled.
func (rt *resident) release(m wire.Message) { rt.room.Release(weight(m)) }

func weight(m wire.Message) int64 { return min(int64(len(m.Bytes()))+256, maxFromRuntime) }

// CloseStream implements mcp.StreamCloser.
func (rt *resident) CloseStream(_ context.Context, about wire.ID, retry time.Duration) error {
	if rt.life.Err() != nil {
		return errReset
	}
	return rt.post(endStream{rt.gen, about, retry})
}

func (rt *resident) Exited(err error) {
	rt.exit.Do(func() { _ = rt.post(exited{rt.gen, err}) })
}

func (rt *resident) Charge(bytes int64) (func(), error) {
	if bytes < 0 {
		return nil, fmt.Errorf("mcp: a charge can't be negative: %d bytes", bytes)
	}
	give, err := rt.charge(rt.life, bytes)
	if err != nil {
		if rt.life.Err() != nil {
			return nil, fmt.Errorf("%w: %w", errReset, err)
		}
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.charges == nil {
		give()
		return nil, errReset
	}
	rt.charged++
	n := rt.charged
	rt.charges = append(rt.charges, charge{n, give})
	return func() { rt.discharge(n) }, nil
}

// charge is one that a runtime has made and has not given back.
type charge struct {
	n    int
	give func()
}

func (rt *resident) discharge(n int) {
	rt.mu.Lock()
	i, is := slices.BinarySearchFunc(rt.charges, n, func(c charge, n int) int { return c.n - n })
	if !is {
		rt.mu.Unlock()
		return // it was given back, or the runtime is gone
	}
	give := rt.charges[i].give
	rt.charges = slices.Delete(rt.charges, i, i+1)
	rt.mu.Unlock()
	give()
}

// stateOp runs a runtime's access to the session's durable state in a turn.
type stateOp struct {
	rt   *resident
	f    func(t *actor.Turn) error
	wake run.Signal
	done atomic.Pointer[error]
}

// do runs f in a turn of the session. A runtime that is to be closed has no
// business there any more, nor has one that another has taken the place of.
func (rt *resident) do(ctx context.Context, f func(t *actor.Turn) error) error {
	runner := rt.svc.host.Runner()
	op := &stateOp{rt: rt, f: f, wake: runner.Signal()}
	rt.mu.Lock()
	if rt.ops == nil {
		rt.mu.Unlock()
		return errReset
	}
	rt.ops = append(rt.ops, op)
	rt.mu.Unlock()
	defer func() {
		rt.mu.Lock()
		rt.ops = slices.DeleteFunc(rt.ops, func(o *stateOp) bool { return o == op })
		rt.mu.Unlock()
	}()
	if err := rt.post(op); err != nil {
		return fmt.Errorf("%w: %w", errReset, err)
	}
	defer runner.AfterDone(ctx, op.wake.Set)()
	op.wake.Wait()
	switch err := op.done.Load(); {
	case err != nil:
		return *err
	case rt.life.Err() != nil:
		return errReset
	default:
		return ctx.Err()
	}
}

// run is called in the turn.
func (op *stateOp) run(t *actor.Turn, current *resident) {
	err := errReset
	if op.rt == current && op.rt.life.Err() == nil {
		err = op.f(t)
	}
	op.done.Store(&err)
	op.wake.Set()
}

// guarded calls a runtime's function; its panic is the runtime's, not the session's.
func guarded(f func([]byte) ([]byte, error), old []byte) (v []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function passed to Update panicked: %v", p)
		}
	}()
	return f(old)
}

// durable is the session's key-value space as its runtime sees it.
type durable struct{ rt *resident }

func (d durable) Get(ctx context.Context, key string) (value []byte, err error) {
	err = d.rt.do(ctx, func(t *actor.Turn) (err error) {
		value, err = t.Get(prefixState + key)
		return err
	})
	return value, err
}

func (d durable) Put(ctx context.Context, key string, value []byte) error {
	return d.Update(ctx, key, func([]byte) ([]byte, error) { return append([]byte{}, value...), nil })
}

func (d durable) Delete(ctx context.Context, key string) error {
	return d.Update(ctx, key, func([]byte) ([]byte, error) { return nil, nil })
}

func (d durable) Update(ctx context.Context, key string, f func([]byte) ([]byte, error)) error {
	return d.rt.do(ctx, func(t *actor.Turn) (err error) {
		old, err := t.Get(prefixState + key)
		if err != nil {
			return err
		}
		v, err := guarded(f, old)
		switch {
		case err != nil:
			return err
		case v == nil:
			t.Delete(prefixState + key)
		default:
			t.Put(prefixState+key, v)
		}
		return nil
	})
}
