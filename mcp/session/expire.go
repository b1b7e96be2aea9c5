package session

import (
	"slices"
	"time"
)

// onExpire answers what a POST is still owed, because its front waits no longer.
// What was answered meanwhile stays answered: the first commit counts.
func (s *state) onExpire(e *Expire, now time.Time, o *out) {
	st := s.streams[postStream(e.Stream)]
	if st == nil {
		return // it owes nothing, or was never admitted
	}
	for _, r := range slices.Clone(st.owes) {
		s.expireRow(r, e.Why, now, o)
	}
}

// expireRow answers a request that nobody waits for any longer: what it asks a
// person is closed, and its runtime is told.
func (s *state) expireRow(r *owed, why Loss, now time.Time, o *out) {
	for _, id := range sortedKeys(s.asks) {
		if s.asks[id].row == r && s.asks[id].approval != nil {
			s.expireAsk(id, now, o)
		}
	}
	if r.out != 0 && s.rt.phase == ready {
		o.do(deliver{s.rt.gen, cancelled(r.out)})
	}
	s.lose(r, why, o)
	if !s.alive() { // it was the session's own initialize
		s.endGeneration(Lost(ReasonEnded), closedEnded, now, o)
	}
}
