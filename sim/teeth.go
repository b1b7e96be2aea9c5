package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	pa "github.com/asynkron/protoactor-go/actor"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// Teeth are hosts in which one thing is wrong, for each invariant at least one. The
// checks have to find each: those that can't are no checks.
func Teeth() []*Broken { return teeth }

var teeth = []*Broken{
	{
		Name: "forgets-owed", Invariant: "I1", Profile: "reset-mid-execute",
		Why:      "a stream whose session was reset is ended as if nothing were owed",
		Sessions: sendWith(forgetsOwed),
	},
	{
		Name: "no-ledger", Invariant: "I1", Profile: "reset-mid-execute",
		Why:   "no row is written for what is owed, so that a reset leaves it unanswered",
		World: takeOut(func(s *seams.Seams) { s.Session.NoLedger = true }),
	},
	{
		Name: "answers-twice", Invariant: "I1", Profile: "reset-mid-execute",
		Why:      "an answer that a GET brings is brought once more, as another event",
		Sessions: relayWith(answersTwice),
	},
	{
		Name: "wrong-answer", Invariant: "I1", Profile: "swarm",
		Why:      "a stream ends with the answer that another one had",
		Sessions: relayWith(mixesUp),
	},
	{
		Name: "acks-before-commit", Invariant: "I2", Profile: "swarm",
		Why:   "storage says that a commit is durable before it is",
		World: func(w *World) { w.disk.Lies = true },
	},
	{
		Name: "forgets", Invariant: "I3", Profile: "power-cut",
		Why:   "a power cut takes back what was acknowledged",
		World: func(w *World) { w.disk.Forgets = true },
	},
	{
		Name: "no-fence", Invariant: "I4", Profile: "reset-mid-execute",
		Why:   "storage takes the commits of incarnations that are gone",
		World: takeOut(func(s *seams.Seams) { s.Storage.NoEpochs = true }),
	},
	{
		Name: "same-boot", Invariant: "I4", Profile: "power-cut",
		Why:   "a host that starts again begins its epochs where the last one did",
		World: func(w *World) { w.disk.SameBoot = true },
	},
	{
		Name: "two-turns", Invariant: "I5", Profile: "swarm",
		Why:        "while one turn waits for storage another begins",
		World:      func(w *World) { w.disk.ReadDelay = func() time.Duration { return 5 * time.Millisecond } },
		Dispatcher: func(p *Process) pa.Dispatcher { return twice{p} },
	},
	{
		Name: "early", Invariant: "I6", Profile: "swarm",
		Why: "alarms are stored ten seconds early",
		Store: func(_ *World, s storage.Store) storage.Store {
			return &brokenStore{Store: s, seen: func(b *storage.Batch) {
				if b.Alarm != nil && !b.Alarm.At.IsZero() {
					b.Alarm = &storage.Alarm{At: b.Alarm.At.Add(-10 * time.Second), Retry: b.Alarm.Retry}
				}
			}}
		},
	},
	{
		Name: "loses-alarms-on-restart", Invariant: "I6", Profile: "power-cut",
		Why: "alarms that were set before a restart are not found after it",
		Store: func(w *World, s storage.Store) storage.Store {
			set := map[storage.ID]bool{}
			return &brokenStore{Store: s, seen: func(b *storage.Batch) {
				if b.Alarm != nil {
					set[b.ID] = true
				}
			}, hides: func(id storage.ID) bool { return w.boots > 1 && !set[id] }}
		},
	},
	{
		Name: "alarm-apart", Invariant: "I6", Profile: "power-cut",
		Why: "an alarm is written a moment after the rows that it was set with",
		Store: func(w *World, s storage.Store) storage.Store {
			p := w.host.p
			return &brokenStore{Store: s, seen: func(b *storage.Batch) {
				if b.ID.Class == "bell" && b.Alarm != nil && !b.Alarm.At.IsZero() {
					later := &storage.Batch{ID: b.ID, Epoch: b.Epoch, Alarm: b.Alarm}
					b.Alarm = nil
					p.AfterFunc(5*time.Second, func() { s.Submit(later, func(error) {}) })
				}
			}}
		},
	},
	{
		Name: "no-reassert", Invariant: "I7", Profile: "swarm",
		Why:   "the schedule erases the alarm of a session whose runtime is resident",
		World: takeOut(func(s *seams.Seams) { s.Alarm.NoReassert = true }),
	},
	{
		Name: "delete-last", Invariant: "I7", Profile: "swarm",
		Why:   "the framework's deletion of the alarm comes after the deadlines were asked for",
		World: takeOut(func(s *seams.Seams) { s.Alarm.DeleteLast = true }),
	},
	{
		Name: "stale-lease", Invariant: "I7", Profile: "swarm",
		Why:   "what ends a lease derives no alarm, and the runtime stays",
		World: takeOut(func(s *seams.Seams) { s.Session.NoRelease = true }),
	},
	{
		Name: "rearms-while-idle", Invariant: "I8", Profile: "swarm",
		Why:   "the idle deadline is armed again although nothing is resident",
		World: takeOut(func(s *seams.Seams) { s.Session.RearmWhileIdle = true }),
	},
	{
		Name: "spin", Invariant: "I8", Profile: "swarm",
		Why: "an alarm that should be deleted is set to at once, again and again",
		Store: func(w *World, s storage.Store) storage.Store {
			return &brokenStore{Store: s, seen: func(b *storage.Batch) {
				if b.Alarm != nil && b.Alarm.At.IsZero() {
					b.Alarm = &storage.Alarm{At: w.host.p.Now()}
				}
			}}
		},
	},
	{
		Name: "never-releases", Invariant: "I8", Profile: "swarm",
		Why:   "the release of a keep-alive is no event",
		World: takeOut(func(s *seams.Seams) { s.Alarm.NoRelease = true }),
	},
	{
		Name: "gauge-leaks", Invariant: "I9", Profile: "swarm",
		Why: "a runtime is said to be closed and goes on",
		Plugin: func(_ *World, p mcp.Plugin) mcp.Plugin {
			return mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
				rt, err := p.Build(ctx, s)
				if err != nil {
					return nil, err
				}
				return undead{rt}, nil
			})
		},
	},
	{
		Name: "reset-spares-one", Invariant: "I10", Profile: "reset-mid-execute",
		Why: "of the objects of an isolate one survives its reset",
		ResetIsolate: func(h *host) func(int, actor.Cause, error) (int, error) {
			return func(n int, c actor.Cause, err error) (int, error) {
				all := h.inMemory(n)
				for i, id := range all {
					if i > 0 {
						h.actors.Reset(id, c, err)
					}
				}
				return len(all), nil
			}
		},
	},
	{
		Name: "reset-breaks-neighbour", Invariant: "I10", Profile: "reset-mid-execute",
		Why: "the reset of an isolate breaks an object of the next one too",
		ResetIsolate: func(h *host) func(int, actor.Cause, error) (int, error) {
			return func(n int, c actor.Cause, err error) (int, error) {
				if all := h.inMemory((n + 1) % h.w.plan.Isolates); len(all) > 0 {
					h.actors.Reset(all[0], c, err)
				}
				return h.actors.ResetIsolate(n, c, err)
			}
		},
	},
	{
		Name: "leaves-out", Invariant: "I11", Profile: "swarm",
		Why:      "a stream that goes on lacks an event in its middle",
		Sessions: relayWith(leavesOut),
	},
	{
		Name: "replays-too-much", Invariant: "I11", Profile: "swarm",
		Why:      "a stream that is resumed begins with an event that the client has",
		Sessions: sendWith(fromBefore),
	},
	{
		Name: "two-contents", Invariant: "I11", Profile: "swarm",
		Why: "an event that is told again is not what it was",
		Sessions: func(w *World, s session.Sessions) session.Sessions {
			return relayWith(changes)(w, sendWith(fromBefore)(w, s))
		},
	},
	{
		Name: "forgets-what-was-delivered", Invariant: "I11", Profile: "idle-storm",
		Why:   "events leave storage as soon as they are delivered",
		World: func(w *World) { w.retention = time.Millisecond },
	},
	{
		Name: "keeps-what-was-delivered", Invariant: "I8", Profile: "swarm",
		Why:   "no alarm takes delivered events from storage when their retention has passed",
		World: func(w *World) { w.retention = 24 * time.Hour },
	},
	{
		Name: "never-evicts", Invariant: "I12", Profile: "swarm",
		Why: "objects that nobody uses stay in memory",
		World: func(w *World) {
			p := *w.plan
			p.Evict = -1
			w.plan = &p
		},
	},
	{
		Name: "no-bound", Invariant: "I12", Profile: "swarm",
		Why:   "the bound on what a session may owe is not kept",
		World: func(w *World) { w.unbounded = true },
	},
	{
		Name: "tries-again", Invariant: "I2", Profile: "power-cut",
		Why:   "an fsync that has failed is tried again, as if that meant anything",
		World: func(w *World) { w.disk.TriesAgain = true },
	},
	{
		Name: "lock-lets-in", Invariant: "I5", Profile: "swarm",
		Why:   "a critical section lets others in while it awaits",
		World: func(w *World) { w.unlocked = true },
	},
	{
		Name: "begins-early", Invariant: "I2", Profile: "swarm",
		Why: "calls begin while they are being stored, of tools that change something",
		Plugin: func(_ *World, p mcp.Plugin) mcp.Plugin {
			return mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
				return p.Build(ctx, flattering{s})
			})
		},
	},
	{
		Name: "loses-increments", Invariant: "I3", Profile: "reset-mid-execute",
		Why: "of two increments of a session's counter that come at once, one is lost",
		Plugin: func(_ *World, p mcp.Plugin) mcp.Plugin {
			return mcp.PluginFunc(func(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
				return p.Build(ctx, racing{s})
			})
		},
	},
	{
		Name: "unknown", Invariant: "I13", Profile: "swarm",
		Why:      "a session that is at rest is said to be unknown, now and then",
		Sessions: sendWith(forgetsSessions),
	},
}

// takeOut takes a part of the host out.
func takeOut(f func(*seams.Seams)) func(*World) { return func(w *World) { f(&w.seams) } }

// undead is a runtime that goes on after its end.
type undead struct{ mcp.Runtime }

func (undead) Close(context.Context) error { return nil }

// flattering is a session whose server says of every tool that it changes nothing.
type flattering struct{ mcp.Session }

func (s flattering) Send(ctx context.Context, m wire.Message, about wire.ID) error {
	if text := m.String(); strings.Contains(text, `"readOnlyHint":false`) {
		m, _ = wire.Parse([]byte(strings.ReplaceAll(text, `"readOnlyHint":false`, `"readOnlyHint":true`))) // it parsed before
	}
	return s.Session.Send(ctx, m, about)
}

// racing is a session whose counters are read and written without anything between that
// holds others off.
type racing struct{ mcp.Session }

func (s racing) State() mcp.State { return racingState{s.Session.State()} }

type racingState struct{ mcp.State }

func (s racingState) Update(ctx context.Context, key string, f func([]byte) ([]byte, error)) error {
	old, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	value, err := f(old)
	if err != nil {
		return err
	}
	return s.Put(ctx, key, value)
}

// brokenStore is a store that does not do what it is told.
type brokenStore struct {
	storage.Store
	seen  func(*storage.Batch)
	hides func(storage.ID) bool
}

func (s *brokenStore) Submit(b *storage.Batch, done func(error)) {
	if s.seen != nil {
		s.seen(b)
	}
	s.Store.Submit(b, done)
}

func (s *brokenStore) Due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	all, err := s.Store.Due(ctx, after, until, limit)
	if s.hides == nil {
		return all, err
	}
	var shown []storage.Due
	for _, d := range all {
		if !s.hides(d.ID) {
			shown = append(shown, d)
		}
	}
	return shown, err
}

// sender stands between a front and the sessions.
type sender struct {
	session.Sessions
	w    *World
	rand *rand.Rand
	send func(ctx context.Context, s *sender, id string, e session.Event) error
}

func (s *sender) Send(ctx context.Context, id string, e session.Event) error {
	return s.send(ctx, s, id, e)
}

func sendWith(f func(context.Context, *sender, string, session.Event) error) func(*World, session.Sessions) session.Sessions {
	return func(w *World, s session.Sessions) session.Sessions { return &sender{s, w, w.s.Rand("broken"), f} }
}

func forgetsOwed(ctx context.Context, s *sender, id string, e session.Event) error {
	if a, ok := e.(*session.Attach); ok {
		a.Socket.Open(session.Opening{Streaming: true})
		a.Socket.End(session.End{Kind: session.Final})
		return nil
	}
	return s.Sessions.Send(ctx, id, e)
}

func forgetsSessions(ctx context.Context, s *sender, id string, e session.Event) error {
	if p, ok := e.(*session.Post); ok && !p.Create && s.rand.IntN(50) == 0 {
		return session.ErrUnknown
	}
	return s.Sessions.Send(ctx, id, e)
}

func fromBefore(ctx context.Context, s *sender, id string, e session.Event) error {
	if g, ok := e.(*session.Get); ok && g.After != "" {
		if at, err := session.ParseEventID(g.After); err == nil && at.Seq > 0 {
			at.Seq--
			g.After = at.String()
		}
	}
	return s.Sessions.Send(ctx, id, e)
}

// relayWith passes what a session puts into a socket on to the front, through f.
func relayWith(f func(s *relay, from session.Event, frame session.Frame) []session.Frame) func(*World, session.Sessions) session.Sessions {
	return func(w *World, s session.Sessions) session.Sessions {
		return &relay{Sessions: s, rand: w.s.Rand("broken"), change: f, inner: map[*session.Socket]*session.Socket{}}
	}
}

type relay struct {
	session.Sessions
	rand   *rand.Rand
	change func(*relay, session.Event, session.Frame) []session.Frame
	inner  map[*session.Socket]*session.Socket // a session's socket by the front's
	last   session.Frame                       // that has answered
}

func (s *relay) Send(ctx context.Context, id string, e session.Event) error {
	var to, from *session.Socket
	from = session.NewSocket(0)
	switch e := e.(type) {
	case *session.Post:
		to, e.Socket = e.Socket, from
	case *session.Get:
		to, e.Socket = e.Socket, from
	case *session.Attach:
		to, e.Socket = e.Socket, from
	case *session.Flushed:
		e.Socket = s.inner[e.Socket]
	case *session.Gone:
		e.Socket = s.inner[e.Socket]
	case *session.Expire:
		e.Socket = s.inner[e.Socket]
	default:
		return s.Sessions.Send(ctx, id, e)
	}
	if to != nil {
		s.inner[to] = from
		from.OnReady(func() { s.pass(e, from, to) })
	}
	return s.Sessions.Send(ctx, id, e)
}

func (s *relay) pass(e session.Event, from, to *session.Socket) {
	d := from.Take()
	if d.Opening != nil {
		to.Open(*d.Opening)
	}
	for _, f := range d.Frames {
		for _, g := range s.change(s, e, f) {
			to.Push(g)
		}
	}
	if d.End != nil {
		to.End(*d.End)
	}
}

func answersTwice(_ *relay, from session.Event, f session.Frame) []session.Frame {
	if _, get := from.(*session.Get); !get || f.Answers == "" {
		return []session.Frame{f}
	}
	again := f
	if at, err := session.ParseEventID(f.ID); err == nil {
		at.Seq++
		again.ID = at.String()
	}
	return []session.Frame{f, again}
}

func mixesUp(s *relay, _ session.Event, f session.Frame) []session.Frame {
	if f.Answers != "" {
		f.Data, s.last.Data = s.last.Data, f.Data
	}
	if f.Data == nil {
		f.Data = s.last.Data
	}
	return []session.Frame{f}
}

func leavesOut(s *relay, _ session.Event, f session.Frame) []session.Frame {
	if len(f.Data) > 0 && f.Answers == "" && s.rand.IntN(10) == 0 {
		return nil
	}
	return []session.Frame{f}
}

func changes(s *relay, from session.Event, f session.Frame) []session.Frame {
	if g, get := from.(*session.Get); get && g.After != "" && len(f.Data) > 0 {
		f.Data = append(slices.Clone(f.Data), ' ')
	}
	return []session.Frame{f}
}

// twice is a dispatcher that gives a mailbox to two goroutines.
type twice struct{ *Process }

func (d twice) Schedule(f func()) { d.Go(f); d.Go(f) }

// inMemory are the sessions that an isolate holds.
func (h *host) inMemory(isolate int) []storage.ID {
	var all []storage.ID
	for _, id := range sortedKeys(h.w.history.sessions) {
		if o := objectOf(id); h.actors.Epoch(o) != 0 && h.actors.IsolateOf(o) == isolate {
			all = append(all, o)
		}
	}
	return all
}
