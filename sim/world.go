package sim

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/front"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// begin is when simulated worlds begin.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// World is a simulated machine that runs a host, the network before it, and the
// clients that use it.
type World struct {
	s       *Scheduler
	plan    *Plan
	told    *Plan // what Run was given; a broken world may have changed it
	start   time.Time
	disk    *Disk
	net     *Network
	host    *host // the one that runs, or ran last
	history *history
	seams   seams.Seams
	broken  *Broken // nil: nothing is broken on purpose

	clients []*client

	settling bool // nothing goes wrong any more
	over     bool
	record   bool // what the pictures need is kept
	tales    *tales
	goOn     bool // also after a violation
	boots    int
	restarts int // in a row, of hosts that did not stay up
	// residents is how many runtimes there are, by isolate.
	residents map[int]int
	covered   map[string]int
	notes     notes
	watch     watch
	died      map[session.EventID]time.Time // when events were lost on their way to a client

	// What goes wrong at the moment.
	slowDisk, slowNet time.Duration
	stall             time.Duration // of the next write
	killInAlarm       bool

	// Broken on purpose.
	unbounded, unlocked bool
	retention           time.Duration // that hosts have; the plan's, when nothing is broken
	clockWrong          time.Duration
	clockMoved          time.Duration // how far it was set, in all
	clockFar            time.Duration // the most that it has been
}

// host is one process that runs the real code.
type host struct {
	w        *World
	p        *Process
	store    storage.Store
	actors   *actor.Host
	office   *office
	sessions *session.Service
	front    *front.Front
	up       bool
	began    time.Time
	closing  bool // it is being shut down in order
	fired    uint64
}

// newWorld prepares a run. Nothing has happened yet.
func newWorld(p *Plan, broken *Broken) *World {
	s := NewScheduler(p.Seed, begin)
	w := &World{s: s, plan: p, start: begin, disk: NewDisk(s), net: NewNetwork(s), residents: map[int]int{}, covered: map[string]int{}, died: map[session.EventID]time.Time{}, broken: broken, retention: p.Retention}
	w.history = newHistory(w)
	w.net.Latency = func() time.Duration { return p.Network.draw(w.net.rand) + w.slowNet }
	w.disk.Latency = func() time.Duration {
		d := p.Sync.draw(w.disk.rand) + w.slowDisk + w.stall
		w.stall = 0
		return d
	}
	w.disk.ReadDelay = func() time.Duration { return p.Reads.draw(w.disk.rand) }
	w.net.flushed = w.leaves
	w.net.dropped = func(b []byte) {
		for e := range eventsIn(b) {
			w.died[e] = s.now
		}
	}
	var latest uint64
	w.net.arrived = func(x *Exchange) {
		if x.number < latest {
			w.sometimes("a later request arrived first")
		}
		latest = max(latest, x.number)
		if id := x.request.Header["Mcp-Session-Id"]; id != "" && x.request.Method == http.MethodPost {
			w.history.session(id).used = s.now
		}
	}
	w.disk.applies = w.history.written
	w.disk.failed = func(what string) { w.sometimes(what) }
	w.disk.retried = func() {
		w.history.violate("I2", "the host has written on after an fsync had failed: what is durable is in doubt")
	}
	if p.Window > 0 {
		w.net.Window = p.Window
	}
	w.net.blocked = func() { w.sometimes("a front waits for a client that does not read") }
	if broken != nil && broken.World != nil {
		broken.World(w)
	}
	return w
}

// boot starts a host process.
func (w *World) boot() {
	h := &host{w: w, p: w.s.NewProcess(), began: w.s.now}
	w.host = h
	h.p.Jump(w.clockWrong)
	w.boots++
	h.p.OnKill = func() { w.crashed(h) }
	boot := w.boots
	h.p.Go(func() {
		if err := h.run(boot); err != nil {
			w.note("the host does not start: %v", err)
			h.p.Kill()
		}
	})
}

// run is what the program does when it starts.
func (h *host) run(boot int) (err error) {
	w, p := h.w, h.p
	log := slog.New(&w.notes)
	w.disk.seams = w.seams.Storage
	if h.store, err = w.disk.Open(p); err != nil {
		return err
	}
	store := w.haunted(p, h.store, w.s.Rand(fmt.Sprint("ghosts ", boot)))
	if w.broken != nil && w.broken.Store != nil {
		store = w.broken.Store(w, store)
	}
	if w.tales != nil {
		store = taleStore{store, w.tales}
	}
	var dispatcher pa.Dispatcher = p
	if w.broken != nil && w.broken.Dispatcher != nil {
		dispatcher = w.broken.Dispatcher(p)
	}
	h.actors, err = actor.NewHost(actor.Options{
		Store: store, Clock: p, Runner: p, Logger: log, Isolates: w.plan.Isolates, HeapLimit: w.plan.Heap, EvictAfter: w.plan.Evict,
		Dispatcher: dispatcher, Random: w.s.Rand(fmt.Sprint("chaos ", boot)), Kill: p.Kill, Seams: w.seams.Alarm,
	})
	if err != nil {
		return err
	}
	var plugin mcp.Plugin = &server{w: w, p: p, rand: w.s.Rand(fmt.Sprint("server ", boot))}
	if w.broken != nil && w.broken.Plugin != nil {
		plugin = w.broken.Plugin(w, plugin)
	}
	srv := session.Server{Name: "model", Plugin: plugin}
	srv.Policy = session.Policy{
		IdleTimeout: w.plan.Idle, BuildTimeout: 30 * time.Second, ApprovalTimeout: w.plan.Approval, PausedCeiling: w.plan.Paused,
		RunningCeiling: w.plan.Running, Retention: w.retention, Lifetime: w.plan.Lifetime,
		MaxOwed: w.plan.Owed,
	}
	if w.unbounded {
		srv.Policy.MaxOwed = 0
	}
	if w.plan.Reexecute {
		srv.Reexecute = session.ReexecuteReadOnly
	}
	if w.plan.Early {
		srv.Early = session.EarlyReadOnly
	}
	h.sessions, err = session.NewService(h.actors, session.Options{
		Servers: []session.Server{srv}, Logger: log, TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), Seams: w.seams.Session,
	})
	if err != nil {
		return err
	}
	var sessions session.Sessions = &watched{h.sessions, w}
	if w.broken != nil && w.broken.Sessions != nil {
		sessions = w.broken.Sessions(w, sessions)
	}
	if w.tales != nil {
		sessions = taleSessions{sessions, w.tales}
	}
	ids := w.s.Rand(fmt.Sprint("ids ", boot))
	h.front, err = front.New(front.Options{
		Sessions: sessions, Server: "model", Clock: p, Runner: p, Logger: log, At: h.sessions.At,
		Text:           func() string { return text(ids) },
		TracerProvider: tracenoop.NewTracerProvider(),
	})
	if err != nil {
		return err
	}
	h.office = h.open()
	w.history.kept()
	if err := h.actors.Start(); err != nil {
		return err
	}
	h.up = true
	w.net.Server = &Listener{h.p, h.front}
	w.note("host %d is up", boot)
	w.mark(UpMark, fmt.Sprintf("host %d", boot))
	w.tales.world(fmt.Sprintf("host %d is up", boot))
	return nil
}

// watched notes which ways back are taken.
type watched struct {
	session.Sessions
	w *World
}

func (s *watched) Send(ctx context.Context, id string, e session.Event) error {
	switch e := e.(type) {
	case *session.Post:
		s.w.history.sent(e)
	case *session.Attach:
		s.w.sometimes("a front attached again")
	case *session.Flushed:
		s.w.history.delivered(objectOf(id), e.Event)
	}
	return s.Sessions.Send(ctx, id, e)
}

// text is what ids are made of.
func text(r *rand.Rand) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var b strings.Builder
	for range 26 {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// crashed is what becomes of the rest of the world when a host's process is gone.
func (w *World) crashed(h *host) {
	w.note("the host is gone")
	w.mark(DownMark, "the host")
	w.tales.world("the host is gone")
	h.up = false
	if w.host == h {
		w.net.Server = nil
	}
	w.net.crashed(h.p)
	w.history.crashes = append(w.history.crashes, crash{w.s.now, w.disk.upTo, w.disk.refused})
	clear(w.history.flushes) // some may have been known in its memory alone
	w.disk.Crash()           // of one that has ended in order nothing is left to lose
	if !h.closing {
		w.sometimes("the host crashed")
	}
	// Children of a host that is gone are ended by the next one, before it builds.
	for _, id := range sortedKeys(w.history.sessions) {
		if s := w.history.sessions[id]; s.resident != nil && s.resident.v.p == h.p {
			s.resident, s.residents = nil, 0
		}
	}
	clear(w.residents)
	w.watch.resident(w)
	if !w.over {
		w.s.After(w.restart(h), w.boot)
	}
}

// restart is how long whoever looks after the host waits until it starts the next:
// longer and longer while they end as soon as they are up.
func (w *World) restart(h *host) time.Duration {
	if w.s.now.Sub(h.began) > 10*time.Second {
		w.restarts = 0
	}
	w.restarts++
	return w.plan.Network.draw(w.disk.rand) + min(100*time.Millisecond<<min(w.restarts-1, 8), 10*time.Second)
}

// deploy shuts the host down in order, and starts the next.
func (w *World) deploy(limit time.Duration) {
	h := w.host
	if !h.up || h.closing {
		return
	}
	h.closing = true
	w.note("deploy")
	ctx := NewContext()
	ctx.deadline = w.s.now.Add(limit)
	w.s.After(limit, func() { ctx.Cancel(context.DeadlineExceeded) })
	h.p.Go(func() {
		half := NewContext()
		w.s.After(limit/2, func() { half.Cancel(context.DeadlineExceeded) })
		_ = h.front.Shutdown(half) // what is left is cut off
		_ = h.actors.Shutdown(ctx) // what is left is reset
		_ = h.sessions.Wait(ctx)
		_ = h.store.Close()
		w.sometimes("deploy")
		h.p.Kill()
	})
}

// built is told of a runtime that is resident.
func (w *World) built(rt *resident) {
	s := w.history.session(rt.s.ID())
	if e := rt.s.Epoch(); e < s.epoch {
		w.history.violate("I4", "a runtime of session %s is built in epoch %d, after one in epoch %d", rt.s.ID(), e, s.epoch)
	} else {
		s.epoch = e
		w.history.epochs[objectOf(rt.s.ID())] = e
	}
	switch {
	case s.built == 0:
	case s.reaped && s.lastOf == rt.s.Epoch():
		w.sometimes("rebuilt after idle")
	default:
		w.sometimes("rebuilt after a reset")
	}
	s.built, s.reaped, s.lastOf = s.built+1, false, rt.s.Epoch()
	if s.residents++; s.residents > 1 {
		w.history.violate("I9", "session %s has two runtimes at once", rt.s.ID())
	}
	s.resident = rt
	w.tales.tell("", rt.s.ID(), AtRuntime, AtSession, false, "the runtime is built")
	w.residents[w.isolateOf(rt.s.ID())]++
	w.watch.resident(w)
}

// reaped is told of a runtime that is gone.
func (w *World) reaped(rt *resident) {
	s := w.history.session(rt.s.ID())
	s.residents--
	if s.resident == rt {
		s.resident, s.reaped = nil, true
	}
	w.tales.tell("", rt.s.ID(), AtRuntime, AtRuntime, false, "the runtime is closed")
	w.residents[w.isolateOf(rt.s.ID())]--
	w.watch.resident(w)
}

func (w *World) isolateOf(session string) int { return w.host.actors.IsolateOf(objectOf(session)) }

func objectOf(session string) storage.ID { return storage.ID{Class: "mcp-session", Name: session} }

// leaves looks at what a front sends: an event leaves when it is durable.
func (w *World) leaves(x *Exchange, b []byte) {
	w.tales.flushed(b)
	id := x.header.Get("Mcp-Session-Id")
	for e := range eventsIn(b) {
		if !w.disk.Durable(objectOf(id), session.EventKey(e)) {
			w.history.violate("I2", "event %s leaves before it is durable", e)
		}
	}
}

// eventsIn are the ids of the events in a part of a stream.
func eventsIn(b []byte) iter.Seq[session.EventID] {
	return func(yield func(session.EventID) bool) {
		for line := range strings.SplitSeq(string(b), "\n") {
			text, ok := strings.CutPrefix(line, "id: ")
			if !ok || session.IsTold(text) {
				continue
			}
			if e, err := session.ParseEventID(text); err == nil && !yield(e) {
				return
			}
		}
	}
}

// goesOn: nothing is wrong, or it is to go on all the same.
func (w *World) goesOn() bool { return w.goOn || w.history.violated == nil }

// sometimes notes that something has happened that has to happen now and then.
func (w *World) sometimes(what string) { w.covered[what]++ }

func (w *World) boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (w *World) note(format string, a ...any) {
	w.notes.add(w.s.now.Sub(w.start), w.s.steps, fmt.Sprintf(format, a...))
}
