package session

import "time"

// deadline is when the session next wants its alarm, zero for never: the
// earliest of what its runtime, its requests, its log and its own life wait for.
func (s *state) deadline() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch {
	case s.meta == nil:
		return at
	case s.meta.Ended:
		if s.rt.phase == none {
			earlier(s.active.Add(teardown))
		}
		return at
	case s.cfg == nil:
		return at
	}
	if s.rt.phase == building {
		earlier(s.rt.since.Add(s.cfg.BuildTimeout))
	}
	if s.rt.phase == ready && len(s.live) == 0 && s.cfg.IdleTimeout > 0 {
		earlier(s.active.Add(s.cfg.IdleTimeout))
	}
	if len(s.live) > 0 {
		earlier(s.live[0].At.Add(s.cfg.RunningCeiling))
	}
	if len(s.marks) > 0 {
		// A little later than the first is due, so that one wake serves many.
		earlier(s.marks[0].at.Add(s.cfg.Retention + s.cfg.Retention/4))
	}
	earlier(s.active.Add(s.cfg.Lifetime))
	return at
}

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
			s.meta = nil
		}
		return
	case s.cfg == nil:
		return
	}
	for len(s.live) > 0 && due(s.live[0].At.Add(s.cfg.RunningCeiling)) {
		r := s.live[0]
		if out := r.out; out != 0 && s.rt.phase == ready {
			o.do(deliver{s.rt.gen, cancelled(out)})
		}
		s.lose(r, Lost(ReasonDeadline), o)
	}
	switch {
	case s.rt.phase == building && due(s.rt.since.Add(s.cfg.BuildTimeout)):
		s.buildFailed(errBuildTimeout, now, o)
	case s.rt.phase == ready && len(s.live) == 0 && s.cfg.IdleTimeout > 0 && due(s.active.Add(s.cfg.IdleTimeout)):
		s.dispose(now, o)
	}
	for len(s.marks) > 0 && due(s.marks[0].at.Add(s.cfg.Retention)) {
		m := s.marks[0]
		s.marks = s.marks[1:]
		if s.streams[m.st.id] == m.st {
			o.trims = append(o.trims, trim{m.st, m.upto, m.whole})
		}
	}
	if len(s.marks) == 0 {
		s.marks = nil
	}
	if due(s.active.Add(s.cfg.Lifetime)) {
		s.end(o)
		s.endGeneration(Lost(ReasonEnded), now, o)
	}
}

// dispose reclaims an idle runtime. The client's stream ends; it comes back and
// gets what is new, and a runtime is built when it asks for something.
func (s *state) dispose(now time.Time, o *out) {
	s.log.Info("idle runtime reclaimed", "generation", s.rt.gen, "idle", now.Sub(s.active))
	s.closeRuntime(now, o)
	if s.get != nil {
		s.supersede(s.get, o)
	}
}

// rest brings a session to rest that owes nothing: its host is shutting down.
func (s *state) rest(now time.Time, o *out) {
	if len(s.live) > 0 {
		return
	}
	s.closeRuntime(now, o)
	if s.get != nil {
		s.supersede(s.get, o)
	}
}

// end marks the session as over for good.
func (s *state) end(o *out) {
	s.meta.Ended = true
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
	s.end(o)
	s.endGeneration(Lost(ReasonEnded), now, o)
	for _, id := range sortedKeys(s.streams) {
		if st := s.streams[id]; st.socket != nil {
			o.do(endSocket{st.socket, End{Kind: Final}})
		}
	}
	o.do(openSocket{d.Socket, Opening{}})
	o.do(endSocket{d.Socket, End{Kind: Final}})
}
