package sim

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/storage"
)

// Objects that are no sessions: what a program's own classes do. Clerks count, keep a
// schedule and stay awake; bells set their one alarm themselves.

// CallPlan is a call of an object's method.
type CallPlan struct {
	At    time.Duration
	Do    string // one of Calls
	N     int    // which object
	Takes time.Duration
}

// Calls are what objects can be asked to do.
var Calls = []string{
	"add",        // counts
	"remind",     // has a callback run after a while
	"ring",       // sets the alarm
	"hold",       // stays awake for a while
	"hold-twice", // and releases that twice
	"await",      // lets others in for a while
	"lock",       // awaits, and lets nobody in
	"hold-on",    // and never releases it
}

// clerk is an incarnation of a clerk or a bell.
type clerk struct {
	h     *host
	state *actor.State
	busy  bool // a turn goes on
	open  int  // turns that await, and let others in
	shut  bool // one that awaits, and lets nobody in
	holds int  // keep-alives
	used  time.Time
}

// asks is a call's argument.
type asks struct {
	N    string
	Take time.Duration
}

// reminder is something that an object has been told to do later.
type reminder struct {
	n     string
	id    storage.ID
	at    time.Duration // of the world, when it is due
	acked bool
	set   bool // its bell's code has set the alarm, whatever became of that
	fired int
	void  bool // its bell was set anew, or may have been
}

// office is the classes of one host, and how they are called.
type office struct {
	add    actor.Call[asks, int]
	remind actor.Call[asks, bool]
	ring   actor.Call[asks, bool]
	hold   actor.Call[asks, bool]
	await  actor.Call[asks, bool]
	lock   actor.Call[asks, bool]
}

// turn checks that a clerk's turns don't overlap, save where one awaits and lets others
// in.
func (c *clerk) turn() (end func()) {
	switch {
	case c.busy:
		c.h.w.history.violate("I5", "two turns of %s go on at once", c.state.ID())
	case c.shut:
		c.h.w.history.violate("I5", "a turn of %s begins in the critical section of another", c.state.ID())
	case c.open > 0:
		c.h.w.sometimes("a turn at another's await")
	}
	c.busy, c.used = true, c.h.w.s.now
	return func() { c.busy, c.used = false, c.h.w.s.now }
}

// open registers the classes.
func (h *host) open() *office {
	var o office
	var job actor.Job[string]
	create := func(_ context.Context, s *actor.State) (*clerk, error) {
		h.w.history.began(s.ID(), s.Epoch())
		s.Schedule()
		c := &clerk{h: h, state: s, used: h.w.s.now}
		h.w.history.clerks[s.ID()] = c
		return c, nil
	}
	clerks := actor.Define("clerk", create)
	job = actor.Callback(clerks, "reminded", func(c *clerk, _ context.Context, n string) error {
		defer c.turn()()
		c.h.inAlarm()
		h.w.history.fired(n)
		return nil
	})
	o.add = actor.Method(clerks, "add", func(c *clerk, _ context.Context, _ asks) (int, error) {
		defer c.turn()()
		was, err := c.state.Get("count")
		if err != nil {
			return 0, err
		}
		n, _ := strconv.Atoi(string(was))
		return n + 1, c.state.Put("count", []byte(strconv.Itoa(n+1)))
	})
	o.remind = actor.Method(clerks, "remind", func(c *clerk, _ context.Context, a asks) (bool, error) {
		defer c.turn()()
		h.w.history.reminders[a.N].at = h.w.now() + a.Take
		_, err := job.In(c.state, a.Take, a.N)
		return true, err
	})
	o.hold = actor.Method(clerks, "hold", func(c *clerk, _ context.Context, a asks) (bool, error) {
		defer c.turn()()
		release := c.state.Schedule().KeepAlive()
		c.holds++
		if a.N == "hold-on" {
			return true, nil
		}
		h.p.AfterFunc(a.Take, func() {
			release()
			c.holds--
			c.used = h.w.s.now
			if a.N == "hold-twice" {
				release()
			}
		})
		return true, nil
	})
	o.await = actor.Method(clerks, "await", func(c *clerk, ctx context.Context, a asks) (bool, error) {
		c.turn()()
		c.open++
		err := c.state.Await(ctx, func(context.Context) error { h.p.Sleep(a.Take); return nil })
		c.open--
		if err != nil {
			return false, err // its incarnation is gone: no turn goes on
		}
		defer c.turn()()
		return true, nil
	})
	o.lock = actor.Method(clerks, "lock", func(c *clerk, ctx context.Context, a asks) (bool, error) {
		c.turn()()
		critical := c.state.Critical
		if h.w.unlocked {
			critical = func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
		}
		return true, critical(ctx, func(ctx context.Context) error {
			c.shut = true
			defer func() { c.shut, c.used = false, h.w.s.now }()
			return c.state.Await(ctx, func(context.Context) error { h.p.Sleep(a.Take); return nil })
		})
	})
	clerks.Register(h.actors)
	bells := actor.Define("bell", func(_ context.Context, s *actor.State) (*bell, error) {
		h.w.history.began(s.ID(), s.Epoch())
		return &bell{clerk{h: h, state: s}}, nil
	})
	o.ring = actor.Method(bells, "ring", func(b *bell, _ context.Context, a asks) (bool, error) {
		defer b.turn()()
		at := h.p.Now().Round(0).Add(a.Take)
		h.w.history.reminders[a.N].at = h.w.now() + a.Take
		if err := b.state.SetAlarm(at); err != nil { // it reads what was set before
			return false, err
		}
		h.w.history.reminders[a.N].set = true
		return true, b.state.Put("last", []byte(a.N))
	})
	bells.Register(h.actors)
	return &o
}

// inAlarm is the middle of an alarm's handler.
func (h *host) inAlarm() {
	if h.w.killInAlarm {
		h.w.killInAlarm = false
		h.w.sometimes("kill-in-alarm")
		h.p.Kill()
	}
}

// bell is an object that sets its alarm itself.
type bell struct{ clerk }

// Alarm rings.
func (b *bell) Alarm(_ context.Context, info alarm.Info) error {
	defer b.turn()()
	b.h.inAlarm()
	if now := b.h.p.Now().Round(0); now.Before(info.Scheduled) {
		b.h.w.history.violate("I6", "the alarm of %s fires at %v and was set to %v", b.state.ID(), now, info.Scheduled)
	}
	n, err := b.state.Get("last")
	if err == nil && n != nil {
		b.h.w.history.fired(string(n))
	}
	return err
}

// called makes a call of the plan's.
func (w *World) called(c *CallPlan) {
	w.inHost(func(h *host) {
		if h.office == nil {
			return
		}
		w.history.calls++
		n := fmt.Sprintf("call%d", w.history.calls)
		ctx := context.Background()
		id := storage.ID{Class: "clerk", Name: strconv.Itoa(c.N)}
		switch c.Do {
		case "add":
			w.history.add1(h, id, func() (int, error) { return h.office.add.Do(ctx, h.actors.Stub(id), asks{}) })
		case "hold", "hold-twice", "hold-on":
			if _, err := h.office.hold.Do(ctx, h.actors.Stub(id), asks{N: c.Do, Take: c.Takes}); err == nil {
				w.sometimes(c.Do)
				w.history.awake[id] = w.history.awake[id] || c.Do == "hold-on"
			}
		case "await":
			if _, err := h.office.await.Do(ctx, h.actors.Stub(id), asks{Take: c.Takes / 4}); err == nil {
				w.sometimes(c.Do)
			}
		case "lock":
			if _, err := h.office.lock.Do(ctx, h.actors.Stub(id), asks{Take: c.Takes / 4}); err == nil {
				w.sometimes(c.Do)
			}
		case "remind":
			r := w.history.remind(n, id)
			_, err := h.office.remind.Do(ctx, h.actors.Stub(id), asks{n, c.Takes})
			r.acked = err == nil
		case "ring":
			id.Class = "bell"
			for _, o := range w.history.rings[id] {
				o.void = true // one alarm is all that there is
			}
			r := w.history.remind(n, id)
			w.history.rings[id] = append(w.history.rings[id], r)
			_, err := h.office.ring.Do(ctx, h.actors.Stub(id), asks{n, c.Takes})
			r.acked = err == nil
		}
	})
}

// now is the time of the world.
func (w *World) now() time.Duration { return w.s.now.Sub(w.start) }
