package sim

import (
	"io"
	"maps"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

var allRows storage.Range

// Result is what a run came to.
type Result struct {
	Plan      *Plan
	Violation *Violation // nil: everything held
	Notes     []string   // the latest that happened

	Steps    uint64
	Virtual  time.Duration
	Real     time.Duration
	Requests int
	Answered int
	Lost     int
	Refused  int
	Open     int // sent, and nothing is known of them
	Boots    int
	Alarms   uint64
	Trace    uint64         // a hash of all that happened, in order
	Covered  map[string]int // what has happened how often

	Marks []Mark // what went wrong, in order
	Torn  int    // groups of writes that crashes took back

	// With Options.Record.
	Samples   []Sample
	Latencies []Latency
	Tale      *Tale
}

// Options say how to run a plan.
type Options struct {
	// Broken is a part that is broken on purpose. Nil: none.
	Broken *Broken
	// Seams are parts of the host that are taken out.
	Seams seams.Seams
	// GoOn: a violation is noted, and the run goes on as if nothing were wrong.
	GoOn bool
	// Record keeps what the pictures need.
	Record bool
	// Log is told all that happens, line by line. Nil: nobody is.
	Log io.Writer
	// Steps, if not nil, is told the hash of the trace at each step.
	Steps func(step, hash uint64)
}

// Run runs a plan: first while things go wrong, then until all has come to rest,
// and until every session's lifetime has passed. The error is of a plan that can't be
// run.
func Run(p *Plan, o Options) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	began := wall()
	w := newWorld(p, o.Broken)
	w.told = p
	w.s.onStep, w.goOn = o.Steps, o.GoOn
	if o.Seams != (seams.Seams{}) {
		w.seams = o.Seams
	}
	if w.record = o.Record; w.record {
		w.tales = newTales(w)
	}
	w.notes.world, w.notes.log = w, o.Log
	w.boot()
	for i := range p.Clients {
		w.clients = append(w.clients, w.newClient(&p.Clients[i]))
	}
	for i := range p.Calls {
		w.s.After(p.Calls[i].At, func() { w.called(&p.Calls[i]) })
	}
	for i := range p.Faults {
		f := &p.Faults[i]
		w.s.After(f.At, func() {
			w.note("fault %s n=%d takes=%v cause=%v point=%v", f.Kind, f.N, f.Takes, f.Cause, f.Point)
			w.markFault(f)
			faults[f.Kind](w, f)
		})
	}
	w.s.After(lookEvery, w.look)
	err := w.s.Run(w.start.Add(p.Length))
	if err == nil && w.goesOn() {
		w.heal()
		err = w.s.Run(w.start.Add(p.Length + p.settle()))
	}
	if err == nil && w.goesOn() {
		w.rest()
	}
	if err == nil && w.goesOn() {
		for _, c := range w.clients {
			c.leave()
		}
		w.watch.quiet = w.host.actors.Alarms().Fired
		err = w.s.Run(w.s.now.Add(2*p.Evict + time.Minute))
	}
	if err == nil && w.goesOn() {
		w.left()
		before := w.inMemory()
		if err = w.s.Run(w.s.now.Add(2*p.Evict + 5*time.Second)); err == nil {
			w.evicted(before)
			err = w.expire()
		}
	}
	if err == nil && w.goesOn() {
		w.gone()
	}
	if err != nil {
		w.history.violate(Panicked, "%v", err)
		r := w.result(began)
		go w.close() // it may wait for a lock that the panic has left locked, and is not waited for
		return r, nil
	}
	r := w.result(began)
	w.close()
	return r, nil
}

// expire lets the lifetime of every session pass: until none is stored any more, and a
// while longer, to see what does not end. A clock that was ahead may have been the last
// to know of a session.
func (w *World) expire() (err error) {
	for end := w.s.now.Add(2 * w.plan.Lifetime); err == nil && w.s.now.Before(end) && len(w.disk.image.Objects(session.Class, "", 1)) > 0; {
		err = w.s.Run(w.s.now.Add(time.Minute))
	}
	if err == nil {
		err = w.s.Run(w.s.now.Add(2 * time.Minute))
	}
	return err
}

// settle is how long it takes until all has come to rest: every ceiling may have to
// pass, and then the idle time-out, and the retention.
func (p *Plan) settle() time.Duration {
	return 2*p.patience() + p.Idle + p.Evict + 2*p.Retention + 2*time.Minute
}

func (w *World) result(began time.Time) *Result {
	r := &Result{
		Plan: w.told, Violation: w.history.violated, Notes: w.notes.last(), Steps: w.s.steps, Virtual: w.s.now.Sub(w.start), Real: wall().Sub(began),
		Boots: w.boots, Trace: w.s.trace, Covered: maps.Clone(w.covered), Samples: w.watch.samples, Latencies: w.watch.answered,
		Marks: w.watch.marks, Torn: w.disk.lost,
	}
	if w.tales != nil {
		r.Tale = w.tales.tale()
	}
	for _, q := range w.history.requests {
		r.Requests++
		switch {
		case q.lost != nil:
			r.Lost++
		case q.answers > 0:
			r.Answered++
		case q.refused:
			r.Refused++
		default:
			r.Open++
		}
	}
	return r
}

// close ends all that is still there.
func (w *World) close() {
	w.over = true
	w.host.p.Kill()
	for _, c := range w.clients {
		c.p.Kill()
	}
	w.s.Close()
}
