package session

import (
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/mcp/wire"
	"github.com/kalpahost/kalpa/storage"
)

// object drives a session's machine: it is the one place where what a step
// yields is written, read and done.
type object struct {
	svc *Service
	s   *state
	rt  *resident // the runtime of the present generation; nil: none
	// links break the sockets when the incarnation is reset.
	links map[*Socket]func()
	post  func(event any) error
	// reclaimed are to be told when the runtime is gone.
	reclaimed []func()
}

func (obj *object) Start(t *actor.Turn) error {
	obj.post = t.Poster()
	obj.s = newState(t.ID().Name, t.Epoch(), obj.svc)
	id := t.ID()
	t.OnBreak(func(error) {
		obj.s.share.end()
		obj.svc.writesDown(id)
	})
	// The deadlines are the session's own: the schedule layer knows nothing of them,
	// and whatever it makes of the alarm, they are asserted again after it.
	idle, keep := obj.s.sources(obj.svc.seams)
	t.Schedule().AddSource("idle", idle)
	t.Schedule().AddSource("keep", keep)
	last := t.Last()
	why := func(epoch uint64) Loss {
		if last != nil {
			return LostTo(last.Cause)
		}
		return LostTo(obj.svc.host.EndedBy(epoch))
	}
	o := newOut()
	defer o.release()
	if err := obj.s.load(t, why, t.Now(), o); err != nil {
		return err
	}
	for _, e := range obj.svc.confirmed.of(obj.s.id) {
		obj.s.step(&Flushed{Event: e.String()}, t.Now(), o)
	}
	obj.s.tidy(o) // at once: resets that follow each other must not put it off
	return obj.apply(t, o)
}

// Reclaim implements [actor.Reclaimer].
func (obj *object) Reclaim(t *actor.Turn, done func()) {
	obj.Handle(t, pressure{})
	if obj.s.rt.phase != closing {
		done()
		return
	}
	obj.reclaimed = append(obj.reclaimed, done)
}

func (obj *object) Handle(t *actor.Turn, event any) {
	switch e := event.(type) {
	case Event:
		obj.link(t, e)
	case *stateOp:
		e.run(t, obj.rt)
		return
	case *operation:
		obj.operate(t, e)
		return
	case closed:
		if obj.rt != nil && obj.rt.gen == e.gen {
			obj.rt = nil
		}
		defer func() {
			for _, done := range obj.reclaimed {
				done()
			}
			obj.reclaimed = nil
		}()
	case actor.Drain:
		event = drain{}
		if !e.Deadline.IsZero() {
			// What is still under way shortly before the end is answered as lost, so that
			// the answers get out.
			left := e.Deadline.Sub(t.Now())
			obj.svc.host.Clock().AfterFunc(left-min(left/3, time.Second), func() { _ = obj.post(hasten{}) })
		}
	}
	if m, ok := event.(fromRuntime); ok {
		defer obj.handled(m)
	}
	o := newOut()
	defer o.release()
	obj.s.step(event, t.Now(), o)
	if err := obj.apply(t, o); err != nil {
		t.Abort(err)
	}
	if _, rests := event.(tidy); rests {
		rid(&obj.links)
	}
}

func (obj *object) handled(m fromRuntime) {
	if obj.rt != nil && obj.rt.gen == m.gen {
		obj.rt.release(m.msg)
	}
}

func (obj *object) Alarm(t *actor.Turn, _ alarm.Info, done func(*actor.Turn, error)) {
	o := newOut()
	defer o.release()
	about, known := obj.place(t), obj.s.meta != nil // the step may end what is left of it
	obj.s.step(ring{}, t.Now(), o)
	err := obj.apply(t, o)
	if err != nil {
		t.Abort(err) // what the step has decided is in memory, and would never be done
	} else if known && obj.svc.watcher.Load() != nil {
		about.Kind = AlarmRun
		t.After(func() { obj.svc.tell(about) })
	}
	done(t, err)
}

// Idle: nothing is resident, and nobody listens.
func (obj *object) Idle() bool {
	return obj.rt == nil && obj.s.rt.phase == none && len(obj.s.behind) == 0 && len(obj.s.sockets) == 0 && len(obj.links) == 0
}

// link makes a reset of the incarnation break the event's socket.
func (obj *object) link(t *actor.Turn, e Event) {
	sock := e.socket()
	switch e.(type) {
	case *Flushed, *Expire:
		return
	case *Gone:
		obj.unlink(sock)
		return
	}
	set(&obj.links, sock, t.OnBreak(func(err error) { sock.End(End{Kind: Broken, Err: err}) }))
}

func (obj *object) unlink(sock *Socket) {
	if forget := obj.links[sock]; forget != nil {
		forget()
		delete(obj.links, sock)
	}
}

// apply writes and reads what a step asked for, and queues its effects.
func (obj *object) apply(t *actor.Turn, o *out) error {
	defer obj.counts()
	for len(o.reads)+len(o.trims)+len(o.puts)+len(o.deletes) > 0 || o.clear {
		if o.clear {
			t.Clear()
		}
		for _, k := range o.deletes {
			t.Delete(k)
		}
		t.PutAll(o.puts)
		reads, trims := o.reads, o.trims
		clear(o.puts)
		clear(o.deletes)
		o.puts, o.deletes, o.reads, o.trims, o.clear = o.puts[:0], o.deletes[:0], nil, nil, false
		for _, tr := range trims {
			if err := obj.trim(t, tr); err != nil {
				return err
			}
		}
		for _, r := range reads {
			p, err := obj.page(t, r)
			if err != nil {
				return err
			}
			obj.s.step(p, t.Now(), o)
		}
	}
	for _, e := range o.effects {
		obj.queue(t, e)
	}
	t.Rests(obj.s.restsSince())
	if len(o.settled) > 0 || o.again > 0 {
		obj.measure(t, o.settled, o.again)
	}
	return nil
}

// counts tells how many requests of the session are under way by now.
func (obj *object) counts() {
	server := ""
	if obj.s.meta != nil {
		server = obj.s.meta.Server
	}
	obj.s.share.set(server, len(obj.s.live))
}

// page reads the next events of a stream.
func (obj *object) page(t *actor.Turn, r read) (page, error) {
	p := page{st: r.st, socket: r.socket, from: r.after, last: r.after, carry: r.carry}
	size := 0
	for e, err := range t.List(storage.Range{Prefix: prefixEvent + r.st.id + "/", After: eventKey(r.after), Limit: pageLimit + 1}) {
		if err != nil {
			return p, err
		}
		if len(p.frames) == pageLimit || size > DefaultPending/2 {
			p.more = true
			break
		}
		id, err := parseEventKey(e.Key)
		if err != nil {
			continue // reported when it was loaded
		}
		f := Frame{ID: id.String(), Data: e.Value}
		if m, err := wire.Parse(e.Value); err == nil && m.Kind() == wire.Response {
			f.Answers = m.ID()
		}
		p.frames, p.last = append(p.frames, f), id
		size += len(e.Value)
	}
	return p, nil
}

// trim deletes events that have been delivered and whose retention is over.
func (obj *object) trim(t *actor.Turn, tr trim) error {
	for e, err := range t.List(storage.Range{Prefix: prefixEvent + tr.st.id + "/"}) {
		if err != nil {
			return err
		}
		if id, err := parseEventKey(e.Key); err == nil && tr.upto.Less(id) && !tr.whole {
			break
		}
		t.Delete(e.Key)
		tr.st.bytes -= int64(len(e.Value))
		obj.s.logBytes -= int64(len(e.Value))
	}
	if tr.whole {
		t.Delete(prefixStream + tr.st.id)
		obj.queue(t, kept{tr.st.id, tr.upto})
		obj.s.forget(tr.st)
	}
	return nil
}

// tidyAfter is how long a confirmed flush may be known in memory only: what a
// process that is killed within it may tell again. Sessions that go on write it
// earlier, along with something else.
const tidyAfter = 100 * time.Millisecond

// queue puts an effect behind the output gate.
func (obj *object) queue(t *actor.Turn, e effect) {
	switch e := e.(type) {
	case openSocket:
		if no := e.opening.Refusal; no != nil && no.Limit != "" && obj.s.cfg != nil {
			server := obj.s.cfg.Name
			t.After(func() { obj.svc.telemetry.refused(server, no.Limit) }) // who is told finds it counted
		}
		t.After(func() { e.sock.Open(e.opening) })
	case push:
		t.After(func() { e.sock.Push(e.frame) })
	case endSocket:
		// Until the batch behind the end is durable, a reset must still break the socket.
		forget := obj.links[e.sock]
		delete(obj.links, e.sock)
		t.After(func() {
			e.sock.End(e.end)
			if forget != nil {
				forget()
			}
		})
	case readLater:
		t.After(func() { obj.later(e.after, e) })
	case build:
		rt := newResident(obj, t, e.gen)
		obj.rt = rt
		if e.first {
			t.Submitted(rt.start)
			obj.linger(t)
		} else {
			t.After(rt.start)
		}
	case begin:
		if rt := obj.rt; rt != nil && rt.gen == e.gen && rt.gated.Load() == 0 {
			t.Submitted(func() { rt.deliver(e.msg) })
			obj.linger(t)
		} else {
			obj.queue(t, deliver(e))
		}
	case deliver:
		if rt := obj.rt; rt != nil && rt.gen == e.gen {
			rt.gated.Add(1)
			t.After(func() { rt.deliver(e.msg); rt.gated.Add(-1) })
		}
	case reached:
		if e.point == actor.BeforeCommit {
			obj.at(t, e)
		} else {
			t.After(func() { obj.at(t, e) })
		}
	case kept:
		t.After(func() { obj.svc.confirmed.written(obj.s.id, e.stream, e.upto) })
	case happened:
		about := obj.place(t)
		t.After(func() { about.Kind, about.Reason = e.kind, e.why; obj.svc.tell(about) })
	case departed:
		t.After(func() { obj.svc.census.leave(e.server, e.subject) })
	case listenLater:
		t.After(func() { obj.later(e.after, listen{}) })
	case tidyLater:
		t.After(func() { obj.later(tidyAfter, tidy{}) })
	case opened:
		if rt := obj.rt; rt != nil && rt.gen == e.gen {
			t.After(rt.story.ready)
		}
	case closeRuntime:
		if rt := obj.rt; rt != nil && rt.gen == e.gen {
			t.After(func() { rt.close(e) })
		}
	}
}

// linger has what the turn writes wait for the answer to it, where nobody means to strike
// between the two.
func (obj *object) linger(t *actor.Turn) {
	if !obj.svc.host.Chaos().Waits() {
		t.Linger()
	}
}

// later posts an event after a time, if the incarnation lives that long.
func (obj *object) later(d time.Duration, event any) {
	if d == 0 {
		_ = obj.post(event)
		return
	}
	obj.svc.host.Clock().AfterFunc(d, func() { _ = obj.post(event) })
}

// at lets chaos strike where a request has come to.
func (obj *object) at(t *actor.Turn, e reached) {
	m := actor.Moment{Point: e.point, ID: t.ID()}
	if e.row != nil {
		m.Method, m.Tool = e.row.Method, e.row.Tool
	}
	obj.svc.host.Chaos().At(m)
}
