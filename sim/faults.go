package sim

import (
	"net/http"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// faults are what can go wrong, by name. Each takes the host or the world as it
// finds it: a fault that meets nothing to break does nothing.
var faults = map[string]func(w *World, f *Fault){
	// reset-session resets the object of the Nth session.
	"reset-session": func(w *World, f *Fault) {
		if id := w.sessionOf(f.N); id != "" {
			w.inHost(func(h *host) {
				if h.actors.Reset(objectOf(id), f.Cause, nil) != 0 {
					w.sometimes("reset-session " + f.Cause.String())
				}
			})
		}
	},
	// reset-isolate resets the Nth isolate, with all that lives in it.
	"reset-isolate": func(w *World, f *Fault) {
		w.inHost(func(h *host) { w.resetIsolate(h, f.N%w.plan.Isolates, f.Cause) })
	},
	// strike arms a reset at a point.
	"strike": func(w *World, f *Fault) {
		w.inHost(func(h *host) {
			if _, err := h.actors.Chaos().Arm(actor.Strike{Point: f.Point, Scope: f.Scope, Cause: f.Cause, Skip: f.N % 5}); err != nil {
				panic(err)
			}
		})
	},
	// kill ends the host's process, as kill -9 does.
	"kill": func(w *World, _ *Fault) {
		if w.host.up {
			w.sometimes("kill")
			w.host.p.Kill()
		}
	},
	// deploy shuts the host down in order and starts the next.
	"deploy": func(w *World, f *Fault) { w.deploy(f.Takes) },
	// pause stops the host's process for a while.
	"pause": func(w *World, f *Fault) {
		p := w.host.p
		p.Pause()
		w.sometimes("pause")
		w.s.After(f.Takes, p.Resume)
	},
	// clock sets the host's wall clock forward or back.
	"clock": func(w *World, f *Fault) {
		by := f.Takes
		if f.N%2 == 1 {
			by = -by
		}
		w.clockWrong += by
		w.clockFar = max(w.clockFar, w.clockWrong.Abs())
		w.host.p.Jump(by)
		w.sometimes("clock")
	},
	// slow-disk makes each write take longer, for a while.
	"slow-disk": func(w *World, f *Fault) {
		w.slowDisk += 20 * time.Millisecond
		w.sometimes("slow-disk")
		w.s.After(f.Takes, func() { w.slowDisk -= 20 * time.Millisecond })
	},
	// stall makes one write take so long that the host gives it up.
	"stall": func(w *World, f *Fault) { w.stall = f.Takes; w.sometimes("stall") },
	// full makes writes fail for a while: the host ends, and can't start.
	"full": func(w *World, f *Fault) {
		w.disk.Full = true
		w.sometimes("full")
		w.s.After(f.Takes, func() { w.disk.Full = false })
	},
	// unreadable makes reads fail for a while.
	"unreadable": func(w *World, f *Fault) {
		w.disk.FailReads = true
		w.sometimes("unreadable")
		w.s.After(f.Takes, func() { w.disk.FailReads = false })
	},
	// cut breaks some of the connections.
	"cut": func(w *World, _ *Fault) {
		for _, x := range append([]*Exchange(nil), w.net.open...) {
			if w.net.rand.IntN(3) == 0 {
				w.sometimes("cut")
				x.Cut()
			}
		}
	},
	// slow-net delays everything for a while.
	"slow-net": func(w *World, f *Fault) {
		w.slowNet += 200 * time.Millisecond
		w.sometimes("slow-net")
		w.s.After(f.Takes, func() { w.slowNet -= 200 * time.Millisecond })
	},
	// repeat sends a copy of a request that is under way.
	"repeat": func(w *World, _ *Fault) {
		for _, x := range w.net.open {
			if x.request.Method != http.MethodGet && x.request.Header["Mcp-Session-Id"] != "" && !x.Duplicate {
				w.sometimes("repeat")
				w.history.copied(x.request.Body)
				w.net.Repeat(x.request)
				return
			}
		}
	},
}

// inHost makes f an event of the host's process.
func (w *World) inHost(f func(h *host)) {
	if h := w.host; h.up && !h.closing {
		h.p.Go(func() { f(h) })
	}
}

// sessionOf is the session of the Nth client, empty when it has none.
func (w *World) sessionOf(n int) string {
	if len(w.clients) == 0 {
		return ""
	}
	return w.clients[n%len(w.clients)].session
}

// resetIsolate resets an isolate, and looks whether that breaks all that lives in
// it and nothing else.
func (w *World) resetIsolate(h *host, n int, cause actor.Cause) {
	before := map[string]uint64{}
	for _, c := range w.clients {
		if c.session != "" {
			before[c.session] = h.actors.Epoch(objectOf(c.session))
		}
	}
	reset := h.actors.ResetIsolate
	if w.broken != nil && w.broken.ResetIsolate != nil {
		reset = w.broken.ResetIsolate(h)
	}
	if _, err := reset(n, cause, nil); err != nil {
		panic(err)
	}
	w.sometimes("reset-isolate " + cause.String())
	for _, id := range sortedKeys(before) {
		if before[id] == 0 {
			continue
		}
		here, now := h.actors.IsolateOf(objectOf(id)) == n, h.actors.Epoch(objectOf(id))
		if here == (now == before[id]) {
			w.history.violate("I10", "isolate %d was reset; session %s of isolate %d had epoch %d before and has %d", n, id, h.actors.IsolateOf(objectOf(id)), before[id], now)
		}
	}
}

// heal ends everything that goes wrong.
func (w *World) heal() {
	w.settling = true
	w.note("healing")
	w.disk.Full, w.disk.FailReads = false, false
	w.slowDisk, w.slowNet, w.stall = 0, 0, 0
	w.host.p.Resume()
	w.host.p.Jump(-w.clockWrong)
	w.clockWrong = 0
	w.inHost(func(h *host) {
		for _, a := range h.actors.Chaos().Armed() {
			h.actors.Chaos().Disarm(a.Number)
		}
	})
}
