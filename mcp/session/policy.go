package session

import (
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// What the policy can want.
type action uint8

const (
	wait      action = iota
	dispose          // reclaim the idle runtime
	expire           // a request has run into its ceiling
	decline          // a question has waited for its person too long
	failBuild        // the runtime is not ready in time
)

// verdict is what the policy wants.
type verdict struct {
	do  action
	row *owed   // to expire
	ask wire.ID // to decline
	// at is the deadline: passed when there is something to do, else when the policy
	// wants to be asked again, which is after now; zero for never.
	at time.Time
}

// view is what the policy sees of a session.
type view struct {
	phase  phase
	since  time.Time // when the phase began
	active time.Time // the last request, reply or answer
	leases []lease
	// pressed: the isolate needs memory.
	pressed bool
	cfg     *Server
}

// lease is a reason for which a runtime stays: a request that runs or waits for a
// person, or the question itself.
type lease struct {
	until time.Time
	row   *owed
	ask   wire.ID
}

// decide is the idle policy. Within the time-out it waits. While something is
// leased it waits, and what has outlived its lease is ended. Else the runtime is
// disposed of, at once where the isolate needs its memory. Answers that were not
// delivered, and rows of dead incarnations, are no leases: they keep their rows and
// not the runtime.
func decide(v view, now time.Time) verdict {
	var next lease
	for _, l := range v.leases {
		if next.until.IsZero() || l.until.Before(next.until) {
			next = l
		}
	}
	switch {
	case len(v.leases) > 0 && !next.until.After(now) && next.ask != "":
		return verdict{do: decline, ask: next.ask, at: next.until}
	case len(v.leases) > 0 && !next.until.After(now):
		return verdict{do: expire, row: next.row, at: next.until}
	case v.phase == building:
		ready := v.since.Add(v.cfg.BuildTimeout)
		if !ready.After(now) {
			return verdict{do: failBuild, at: ready}
		}
		return verdict{at: earliest(ready, next.until)}
	case len(v.leases) > 0:
		return verdict{at: next.until}
	case v.phase != ready || v.cfg.IdleTimeout < 0:
		return verdict{}
	}
	if v.pressed {
		return verdict{do: dispose, at: v.active}
	}
	idle := v.active.Add(v.cfg.IdleTimeout)
	if !idle.After(now) {
		return verdict{do: dispose, at: idle}
	}
	return verdict{at: idle}
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// look is the policy's view of the session.
func (s *state) look() view {
	v := view{phase: s.rt.phase, since: s.rt.since, active: s.active, cfg: s.cfg}
	for _, r := range s.live {
		until := r.since.Add(s.cfg.RunningCeiling)
		if !r.paused.IsZero() {
			until = earliest(until, r.paused.Add(s.cfg.PausedCeiling-r.waited))
		}
		v.leases = append(v.leases, lease{until: until, row: r})
	}
	for _, id := range sortedKeys(s.asks) {
		if a := s.asks[id]; a.approval != nil {
			v.leases = append(v.leases, lease{until: a.approval.until, ask: id})
		}
	}
	return v
}

// restsSince is when the session was last used by its client, of which nothing but a
// reclaimable runtime is in memory; zero while there is more.
func (s *state) restsSince() time.Time {
	switch {
	case s.rt.phase == none || s.rt.phase == closing:
		return earliest(s.active, s.now) // what has never been used rests from now on
	case !s.alive() || s.cfg == nil || len(s.live) > 0:
		return time.Time{}
	}
	v := s.look()
	if v.pressed = true; decide(v, s.now).do != dispose {
		return time.Time{}
	}
	return s.active
}

// onPressure gives back what nobody needs.
func (s *state) onPressure(now time.Time, o *out) {
	if s.restsSince().IsZero() || s.rt.phase != ready {
		return
	}
	s.dispose(closedPressure, now, o)
}

// idleDeadline is when the policy wants to be asked: the deadline that belongs to
// the session and that nobody else may erase (I7).
func (s *state) idleDeadline(now time.Time) time.Time {
	if !s.alive() || s.cfg == nil {
		return time.Time{}
	}
	return decide(s.look(), now).at
}

// keepDeadline is when something stored has been kept long enough: delivered
// events, records of approvals, the session itself.
func (s *state) keepDeadline(now time.Time) time.Time {
	switch {
	case s.meta == nil:
		return time.Time{}
	case s.meta.Ended:
		if s.rt.phase != none {
			return now.Add(closingLook) // not before the runtime is reaped; and if nobody is left to tell of that
		}
		return s.active.Add(teardown)
	case s.cfg == nil:
		return now.Add(unhostedLook)
	}
	at := earliest(s.expiry(), s.sweep)
	if len(s.approvals) > 0 {
		at = earliest(at, s.approvals[0].keptUntil(s.cfg))
	}
	return at
}

// sweepAfter has what is flushed at a time go when it has been kept long enough: a little
// later, so that one wake serves many. What is due earlier stays so.
func (s *state) sweepAfter(flushed time.Time) {
	if s.sweep.IsZero() && s.cfg != nil {
		s.sweep = flushed.Add(s.cfg.Retention + s.cfg.Retention/4)
	}
}

// expiry is when the session ends for want of use; zero for never.
func (s *state) expiry() time.Time {
	if s.cfg.Lifetime < 0 {
		return time.Time{}
	}
	return s.active.Add(s.cfg.Lifetime)
}

// maxTrims bounds the streams that one turn trims.
const maxTrims = 1000

// closingLook is how long an ended session waits to hear that its runtime is gone,
// before it looks again.
const closingLook = 10 * time.Second

// unhostedLook is how long a session whose server is not hosted waits until it looks again:
// the server may be there by then, and what was kept long enough is to go.
const unhostedLook = 24 * time.Hour

// teardown is how long an ended session keeps its rows, so that the reply to the
// request that ended it gets out first.
const teardown = time.Second

// onRing does what is due.
func (s *state) onRing(now time.Time, o *out) {
	due := func(t time.Time) bool { return !t.After(now) }
	switch {
	case s.meta == nil:
		return
	case s.meta.Ended:
		if s.rt.phase == none && due(s.active.Add(teardown)) {
			o.clear = true
			o.do(kept{})
			o.do(departed{s.meta.Server, s.meta.Principal.Subject})
			s.meta = nil
			// In any order: all are forgotten.
			for _, st := range s.streams { // a flush that is confirmed from here on brings no row back
				s.forget(st)
			}
			s.behind = nil
		}
		return
	case s.cfg == nil:
		return
	}
	for more := true; more && s.alive(); {
		more = s.enforce(decide(s.look(), now), now, o)
	}
	// What is left over is due at once, in another turn.
	for n := 0; n < maxTrims && len(s.marks) > 0 && due(s.marks[0].at.Add(s.cfg.Retention)); n++ {
		s.trimFirst(o)
	}
	if s.sweep = (time.Time{}); len(s.marks) == 0 {
		s.marks = nil
	} else {
		s.sweepAfter(s.marks[0].at)
	}
	s.forgetApprovals(now, o)
	if at := s.expiry(); !at.IsZero() && due(at) {
		s.end("expired", o)
		s.endGeneration(Lost(ReasonEnded), closedEnded, now, o)
		s.endStreams(o)
	}
}

// enforce does what the policy wants, and tells whether it must be asked again.
func (s *state) enforce(v verdict, now time.Time, o *out) bool {
	switch v.do {
	case expire:
		s.expireRow(v.row, Lost(ReasonDeadline), now, o)
	case decline:
		s.expireAsk(v.ask, now, o)
	case failBuild:
		s.buildFailed(errBuildTimeout, now, o)
	case dispose:
		s.dispose(closedIdle, now, o)
	case wait:
		return false
	}
	return true
}

// dispose reclaims an idle runtime. The client's stream ends; it comes back and
// gets what is new, and a runtime is built when it asks for something.
func (s *state) dispose(why ending, now time.Time, o *out) {
	s.logger().Info("idle runtime reclaimed", "generation", s.rt.gen, "idle", now.Sub(s.active), "reason", string(why))
	s.closeRuntime(why, nil, now, o)
	if s.get != nil {
		s.supersede(s.get, o)
	}
}

// rest brings a session to rest that owes nothing: its host is shutting down.
func (s *state) rest(now time.Time, o *out) {
	if len(s.live) > 0 {
		return
	}
	s.closeRuntime(closedShutdown, nil, now, o)
	if s.get != nil {
		s.supersede(s.get, o)
	}
}

// end marks the session as over for good, from now on.
func (s *state) end(why string, o *out) {
	s.meta.Ended = true
	s.activity(s.now, o)
	o.do(happened{SessionEnded, why})
	o.put(keyMeta, encode(s.meta))
}

// onDelete ends the session: what it owes is answered, its streams end, its
// runtime is closed.
func (s *state) onDelete(d *Delete, now time.Time, o *out) {
	if r := s.check(d.Caller, ""); r != nil && r.Status != 503 {
		refuse(d.Socket, r, o)
		return
	}
	s.active = now
	s.end("deleted", o)
	s.endGeneration(Lost(ReasonEnded), closedEnded, now, o)
	s.endStreams(o)
	conclude(d.Socket, Opening{}, o)
}

// endStreams ends what is open of a session that is over.
func (s *state) endStreams(o *out) {
	for _, id := range sortedKeys(s.streams) {
		if st := s.streams[id]; st.socket != nil {
			o.do(endSocket{st.socket, End{Kind: Final}})
			s.unbind(st)
		}
	}
}
