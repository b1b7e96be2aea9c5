package sim

import (
	"slices"
	"time"
)

// Shrink returns a smaller plan that fails as well: of a plan that fails, what is not
// needed for that is left out. It takes out faults, then clients, then operations, and
// after that makes what is left shorter and simpler, until nothing helps any more. The
// plan that it is given stays as it is.
//
// fails runs a plan and says whether it fails in the way that is looked for. Shrink
// asks nothing else, and asks it often: some hundred times for a plan of some
// hundred lines.
func Shrink(p *Plan, fails func(*Plan) bool) *Plan {
	s := &shrinker{plan: p.clone(), fails: fails}
	for s.found = true; s.found; {
		s.found = false
		s.drop(len(s.plan.Faults), func(p *Plan, from, to int) { p.Faults = slices.Delete(p.Faults, from, to) })
		s.drop(len(s.plan.Calls), func(p *Plan, from, to int) { p.Calls = slices.Delete(p.Calls, from, to) })
		s.drop(len(s.plan.Clients), (*Plan).dropClients)
		for i := range s.plan.Clients {
			s.drop(len(s.plan.Clients[i].Ops), func(p *Plan, from, to int) {
				c := &p.Clients[i]
				c.Ops = slices.Delete(c.Ops, from, to)
			})
		}
		s.simplify()
	}
	return s.plan
}

// shrinker holds the smallest plan that has failed so far.
type shrinker struct {
	plan  *Plan
	fails func(*Plan) bool
	found bool // this round has made it smaller
}

// try keeps a plan with one change if it still fails.
func (s *shrinker) try(change func(*Plan)) bool {
	p := s.plan.clone()
	change(p)
	if p.validate() != nil || !s.fails(p) {
		return false
	}
	s.plan, s.found = p, true
	return true
}

// drop takes runs of n things out: halves first, and single ones in the end. From the
// last to the first, because what comes early is likelier to be needed.
func (s *shrinker) drop(n int, remove func(p *Plan, from, to int)) {
	for size := n; size > 0; size /= 2 {
		for from := n - size; n > 0; from -= size {
			from = max(from, 0)
			to := min(from+size, n)
			if s.try(func(p *Plan) { remove(p, from, to) }) {
				n -= to - from
			}
			if from == 0 {
				break
			}
		}
	}
}

// shorter are times that may not matter: each is halved as long as that helps, once it
// has been tried without.
func (s *shrinker) shorter(least time.Duration, of func(*Plan) *time.Duration) {
	for d := *of(s.plan); d > least; d = *of(s.plan) {
		half := max(least, (d / 2).Truncate(time.Millisecond))
		if !s.try(func(p *Plan) { *of(p) = least }) && !s.try(func(p *Plan) { *of(p) = half }) || half == d {
			return
		}
	}
}

// simplify makes what is left shorter.
func (s *shrinker) simplify() {
	s.shorter(time.Second, func(p *Plan) *time.Duration { return &p.Length })
	for i := range s.plan.Faults {
		s.shorter(0, func(p *Plan) *time.Duration { return &p.Faults[i].Takes })
		s.shorter(0, func(p *Plan) *time.Duration { return &p.Faults[i].At })
	}
	for i := range s.plan.Clients {
		s.shorter(0, func(p *Plan) *time.Duration { return &p.Clients[i].At })
		s.shorter(0, func(p *Plan) *time.Duration { return &p.Clients[i].Delete })
		for j := range s.plan.Clients[i].Ops {
			for _, of := range []func(o *Op) *time.Duration{
				func(o *Op) *time.Duration { return &o.At },
				func(o *Op) *time.Duration { return &o.Takes },
				func(o *Op) *time.Duration { return &o.Leave },
				func(o *Op) *time.Duration { return &o.Again },
			} {
				s.shorter(0, func(p *Plan) *time.Duration { return of(&p.Clients[i].Ops[j]) })
			}
		}
		if s.plan.Clients[i].Kind != Official {
			s.try(func(p *Plan) { p.Clients[i].Kind = Official })
		}
	}
	if s.plan.Isolates > 1 {
		s.try(func(p *Plan) { p.Isolates = 1 })
	}
	if s.plan.BuildFails > 0 {
		s.try(func(p *Plan) { p.BuildFails = 0 })
	}
	for _, of := range []func(*Plan) *Spread{
		func(p *Plan) *Spread { return &p.Build }, func(p *Plan) *Spread { return &p.Close }, func(p *Plan) *Spread { return &p.Network },
		func(p *Plan) *Spread { return &p.Sync }, func(p *Plan) *Spread { return &p.Reads },
	} {
		if spread := *of(s.plan); spread.Max > spread.Min {
			s.try(func(p *Plan) { of(p).Max = spread.Min })
		}
	}
}

// dropClients takes clients out. A fault that means one of those that stay means the
// same one afterwards.
func (p *Plan) dropClients(from, to int) {
	was := len(p.Clients)
	p.Clients = slices.Delete(p.Clients, from, to)
	for i := range p.Faults {
		if f := &p.Faults[i]; f.Kind == "reset-session" {
			if f.N %= was; f.N >= to {
				f.N -= to - from
			}
		}
	}
}

// clone copies a plan, with all that it holds.
func (p *Plan) clone() *Plan {
	c := *p
	c.Faults = slices.Clone(p.Faults)
	c.Calls = slices.Clone(p.Calls)
	c.Clients = slices.Clone(p.Clients)
	for i := range c.Clients {
		c.Clients[i].Ops = slices.Clone(c.Clients[i].Ops)
	}
	return &c
}
