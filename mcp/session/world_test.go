package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// model is a runtime that answers by script: it records what it is told.
type model struct {
	w       *world
	s       mcp.Session
	n       int // which runtime of the world it is
	version string
}

func (m *model) Deliver(ctx context.Context, msg wire.Message) error {
	m.w.mu.Lock()
	m.w.delivered = append(m.w.delivered, fmt.Sprintf("%d %s %s %s", m.n, msg.Method(), msg.ID(), msg.Params()))
	m.w.mu.Unlock()
	answer := func(result string) error { return m.s.Send(ctx, wire.NewResult(msg.ID(), []byte(result)), "") }
	switch name := msg.ParamString("name"); {
	case msg.Is("initialize"):
		return answer(`{"protocolVersion":"` + m.version + `","capabilities":{"tools":{}},"serverInfo":{"name":"model","version":"1"}}`)
	case msg.Kind() != wire.Request:
		if msg.Kind() == wire.Response {
			m.w.replies <- msg
		}
		return nil
	case name == "hang":
		return nil
	case name == "progress":
		for i := range 3 {
			_ = m.s.Send(ctx, wire.NewNotification("notifications/progress",
				fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, msg.Param(wire.TokenOfRequest), i)), msg.ID())
		}
		return answer(`{"done":true}`)
	case name == "progress-by-id":
		_ = m.s.Send(ctx, wire.NewNotification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":1}`, msg.ID())), msg.ID())
		return answer(`{"done":true}`)
	case name == "ask":
		return m.s.Send(ctx, wire.NewRequest("5", "elicitation/create", []byte(`{"message":"?"}`)), msg.ID())
	case name == "log":
		_ = m.s.Send(ctx, wire.NewNotification("notifications/tools/list_changed", nil), "")
		return answer(`{}`)
	case name == "exit":
		m.s.Exited(errors.New("exit status 3: out of cheese"))
		return nil
	case name == "count":
		n := 0
		err := m.s.State().Update(ctx, "n", func(old []byte) ([]byte, error) {
			n = len(old) + 1
			return []byte(strings.Repeat("x", n)), nil
		})
		if err != nil {
			return err
		}
		return answer(fmt.Sprintf(`{"n":%d}`, n))
	}
	return answer(`{"echo":` + string(msg.Params()) + `,"by":` + fmt.Sprint(m.n) + `}`)
}

func (m *model) Close(context.Context) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.open--
	m.w.closed++
	return nil
}

// world is a host with sessions, and what its runtimes saw.
type world struct {
	t     *testing.T
	store storage.Store
	host  *actor.Host
	svc   *session.Service

	mu          sync.Mutex
	delivered   []string
	built       int
	open        int
	memory      int64 // what each runtime charges
	closed      int
	version     string
	buildErr    error
	buildDelay  time.Duration
	replies     chan wire.Message
	serverTuned func(*session.Server)
	hostTuned   func(*actor.Options)
	tracing     trace.TracerProvider
	metering    metric.MeterProvider
	clock       clock.Clock // nil: the real one
	seams       seams.Seams
	around      func(actor.Machine) actor.Machine // each session's; nil: nothing
}

func newWorld(t *testing.T, tune func(*session.Server)) *world {
	return (&world{serverTuned: tune}).begin(t)
}

func (w *world) begin(t *testing.T) *world {
	w.t, w.version, w.replies = t, "2025-11-25", make(chan wire.Message, 10)
	if w.store == nil {
		w.store = &countingStore{Store: storage.NewMemory()}
	}
	t.Cleanup(func() { w.store.Close() })
	w.boot()
	t.Cleanup(w.shutdown)
	return w
}

// boot starts a host on the world's store.
func (w *world) boot() {
	a := actor.Options{Store: w.store, Clock: w.clock, Logger: slog.New(slog.DiscardHandler), EvictAfter: time.Hour, Seams: w.seams.Alarm}
	if w.hostTuned != nil {
		w.hostTuned(&a)
	}
	h, err := actor.NewHost(a)
	if err != nil {
		w.t.Fatal(err)
	}
	srv := session.Server{Name: "model", Plugin: mcp.PluginFunc(w.build)}
	if w.serverTuned != nil {
		w.serverTuned(&srv)
	}
	o := session.Options{Servers: []session.Server{srv}, TracerProvider: w.tracing, MeterProvider: w.metering, Seams: w.seams.Session}
	if w.around == nil {
		w.svc, err = session.NewService(h, o)
	} else {
		w.svc, err = session.NewServiceWith(h, o, w.around)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.host = h
}

func (w *world) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = w.host.Shutdown(ctx)
	if err := w.svc.Wait(ctx); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != 0 {
		w.t.Errorf("%d runtimes are left", w.open)
	}
}

// reboot is a host that ends in order and another that follows.
func (w *world) reboot() { w.shutdown(); w.boot() }

func (w *world) build(_ context.Context, s mcp.Session) (mcp.Runtime, error) {
	w.mu.Lock()
	memory := w.memory
	w.mu.Unlock()
	if _, err := s.Charge(memory); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buildDelay > 0 {
		time.Sleep(w.buildDelay)
	}
	if w.buildErr != nil {
		return nil, w.buildErr
	}
	w.built++
	w.open++
	return &model{w, s, w.built, w.version}, nil
}

func (w *world) runtimes() (built, open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.built, w.open
}

func (w *world) saw(part string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, d := range w.delivered {
		if strings.Contains(d, part) {
			n++
		}
	}
	return n
}

// client is one session's client, below HTTP.
type client struct {
	w  *world
	id string
}

var caller = session.Caller{Server: "model", Version: "2025-11-25"}

// link is an exchange: what came over its socket.
type link struct {
	w       *world
	c       *client
	sock    *session.Socket
	opening *session.Opening
	frames  []session.Frame
	end     *session.End
	mute    bool // does not confirm what it takes
}

func (c *client) send(e session.Event, sock *session.Socket) *link {
	c.w.t.Helper()
	if err := c.w.svc.Send(c.w.t.Context(), c.id, e); err != nil {
		c.w.t.Fatal(err)
	}
	return &link{w: c.w, c: c, sock: sock}
}

func (c *client) post(msgs ...string) *link {
	c.w.t.Helper()
	return c.postAs(caller, false, msgs...)
}

func (c *client) postAs(who session.Caller, create bool, msgs ...string) *link {
	c.w.t.Helper()
	sock := session.NewSocket(0)
	p := &session.Post{Socket: sock, Caller: who, Stream: session.NewStream(), Create: create, Batch: len(msgs) > 1}
	for _, s := range msgs {
		m, err := wire.Parse([]byte(s))
		if err != nil {
			c.w.t.Fatal(err)
		}
		p.Messages = append(p.Messages, m)
	}
	return c.send(p, sock)
}

func (c *client) get(after string) *link {
	c.w.t.Helper()
	sock := session.NewSocket(0)
	return c.send(&session.Get{Socket: sock, Caller: caller, Stream: session.NewStream(), After: after}, sock)
}

func (w *world) open1() *client {
	w.t.Helper()
	c := &client{w, session.NewID(time.Now())}
	l := c.postAs(caller, true, initialize)
	if got := l.wait().text(); !strings.Contains(got, `"id":0,"result"`) {
		w.t.Fatalf("initialize: %s", got)
	}
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).wait()
	return c
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func call(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","_meta":{"progressToken":"tok"}}}`
}

// until takes from the socket until f says so.
func (l *link) until(what string, f func() bool) *link {
	l.w.t.Helper()
	deadline := time.After(5 * time.Second)
	ready := make(chan struct{}, 1)
	l.sock.OnReady(func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	for {
		d := l.sock.Take()
		if d.Opening != nil {
			l.opening = d.Opening
		}
		l.frames = append(l.frames, d.Frames...)
		if len(d.Frames) > 0 && !l.mute {
			last := d.Frames[len(d.Frames)-1].ID
			_ = l.w.svc.Send(l.w.t.Context(), l.c.id, &session.Flushed{Socket: l.sock, Event: last})
		}
		if d.End != nil {
			l.end = d.End
		}
		if f() {
			return l
		}
		select {
		case <-ready:
		case <-deadline:
			l.w.t.Fatalf("waited in vain for %s; got opening %+v, end %+v, frames:\n%s", what, l.opening, l.end, l.text())
		}
	}
}

// wait takes until the exchange has ended.
func (l *link) wait() *link {
	l.w.t.Helper()
	return l.until("the end", func() bool { return l.end != nil })
}

func (l *link) has(part string) *link {
	l.w.t.Helper()
	return l.until(part, func() bool { return strings.Contains(l.text(), part) })
}

func (l *link) text() string {
	var b strings.Builder
	for _, f := range l.frames {
		b.Write(f.Data)
		b.WriteByte('\n')
	}
	return b.String()
}

func (l *link) gone() {
	_ = l.w.svc.Send(l.w.t.Context(), l.c.id, &session.Gone{Socket: l.sock})
}

func (w *world) within(d time.Duration, what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// countingStore counts reads: of one row, of many rows, and of ids. It fails those of one
// row when told to.
type countingStore struct {
	storage.Store
	gets, lists, objects atomic.Int64
	fails                atomic.Bool // reads of one row
}

func (s *countingStore) Get(ctx context.Context, id storage.ID, key string) ([]byte, error) {
	s.gets.Add(1)
	if s.fails.Load() {
		return nil, errors.New("input/output error")
	}
	return s.Store.Get(ctx, id, key)
}

func (s *countingStore) List(ctx context.Context, id storage.ID, r storage.Range) iter.Seq2[storage.Entry, error] {
	s.lists.Add(1)
	return s.Store.List(ctx, id, r)
}

func (s *countingStore) Objects(ctx context.Context, class, after string, limit int) ([]storage.ID, error) {
	s.objects.Add(1)
	return s.Store.Objects(ctx, class, after, limit)
}
