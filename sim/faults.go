package sim

import (
	"net/http"
	"strconv"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
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
			if _, err := h.actors.Chaos().Arm(f.strike()); err != nil {
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
		w.clockMoved += f.Takes
		w.clockFar = max(w.clockFar, w.clockWrong.Abs())
		w.host.p.Jump(by)
		w.sometimes("clock")
		if by < 0 {
			w.sometimes("clock back")
		} else {
			w.sometimes("clock forward")
		}
	},
	// slow-disk makes each write take longer, for a while.
	"slow-disk": func(w *World, f *Fault) {
		w.slowDisk += 20 * time.Millisecond
		w.sometimes("slow-disk")
		w.s.After(f.Takes, func() { w.slowDisk = max(w.slowDisk-20*time.Millisecond, 0) })
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
	// sync-error makes one fsync fail: the host ends, and does not try again.
	"sync-error": func(w *World, _ *Fault) { w.disk.FailSync = true },
	// flip turns a bit of an object's rows: its checksum is wrong, and it can't be read
	// until it has been restored.
	"flip": func(w *World, f *Fault) {
		id := storage.ID{Class: "clerk", Name: strconv.Itoa(f.N % 3)}
		if session := w.sessionOf(f.N); session != "" && f.N%4 > 0 {
			id = objectOf(session)
		}
		w.disk.Flipped = id
		w.s.After(f.Takes, func() { w.disk.Flipped = storage.ID{} })
	},
	// kill-in-alarm ends the host's process in the middle of the next alarm's handler.
	"kill-in-alarm": func(w *World, _ *Fault) { w.killInAlarm = true },
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
		w.s.After(f.Takes, func() { w.slowNet = max(w.slowNet-200*time.Millisecond, 0) })
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
	before, lived := h.alive(), h.epochs(n)
	reset := h.actors.ResetIsolate
	if w.broken != nil && w.broken.ResetIsolate != nil {
		reset = w.broken.ResetIsolate(h)
	}
	if _, err := reset(n, cause, nil); err != nil {
		panic(err)
	}
	w.sometimes("reset-isolate " + cause.String())
	for i, now := range h.alive() {
		if i != n && now != before[i] {
			w.history.violate("I10", "isolate %d was reset; isolate %d had %d objects before and has %d", n, i, before[i], now)
		}
	}
	// One that was being evicted may take a moment.
	h.p.AfterFunc(time.Second, func() {
		now := h.epochs(n)
		for _, id := range sortedIDs(lived) {
			if now[id] == lived[id] {
				w.history.violate("I10", "isolate %d was reset; %v has epoch %d as before", n, id, now[id])
			}
		}
	})
}

// epochs are those of the objects in an isolate.
func (h *host) epochs(isolate int) map[storage.ID]uint64 {
	all := map[storage.ID]uint64{}
	for id := range h.w.history.epochs {
		if e := h.actors.Epoch(id); e != 0 && h.actors.IsolateOf(id) == isolate {
			all[id] = e
		}
	}
	return all
}

// alive is how many objects are in memory, by isolate.
func (h *host) alive() []int64 {
	all := make([]int64, h.w.plan.Isolates)
	for i := range all {
		for _, n := range h.actors.Isolate(i).Objects {
			all[i] += n
		}
	}
	return all
}

// heal ends everything that goes wrong.
func (w *World) heal() {
	w.settling = true
	w.note("healing")
	w.disk.Full, w.disk.FailReads, w.disk.FailSync, w.disk.Flipped = false, false, false, storage.ID{}
	w.killInAlarm = false
	w.slowDisk, w.slowNet, w.stall = 0, 0, 0
	w.host.p.Resume()
	w.host.p.Jump(-w.clockWrong)
	w.clockMoved += w.clockWrong.Abs()
	w.clockWrong = 0
	w.inHost(func(h *host) {
		for _, a := range h.actors.Chaos().Armed() {
			h.actors.Chaos().Disarm(a.Number)
		}
	})
}
