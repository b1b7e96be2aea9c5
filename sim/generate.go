package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// profiles are the ways to make a plan, by name.
var profiles = map[string]func(g *generator){
	// A random subset of all faults, each with an intensity of its own.
	"swarm": func(g *generator) {
		for _, kind := range sortedKeys(faults) {
			if g.chance(0.4) {
				g.faults(kind, 1+g.IntN(6))
			}
		}
		g.strikes(g.IntN(12))
	},
	// Resets at every point of executions.
	"reset-mid-execute": func(g *generator) {
		g.strikes(20 + g.IntN(20))
		g.faults("reset-session", 10)
		g.faults("reset-isolate", 10)
	},
	// Sessions come and rest; little goes wrong.
	"idle-storm": func(g *generator) {
		g.p.Clients, g.p.Length = nil, 20*time.Minute
		g.rest, g.come = 0.6, g.p.Length
		g.clients(30+g.IntN(20), 40)
		g.faults("reset-isolate", 2)
	},
	// One deployment after another.
	"deploy-wave": func(g *generator) {
		g.faults("deploy", 10)
		g.faults("cut", 3)
	},
	// A heap that is too small.
	"memory-pressure": func(g *generator) {
		g.p.Heap = int64(1+g.IntN(4)) << 20
		for i := range g.p.Clients {
			for j := range g.p.Clients[i].Ops {
				if op := &g.p.Clients[i].Ops[j]; g.chance(0.4) {
					op.Tool, op.Bytes = "greedy", int64(g.IntN(2<<20))
				}
			}
		}
	},
	// The power goes, and comes back.
	"power-cut": func(g *generator) {
		g.p.Sync = Spread{time.Millisecond, 40 * time.Millisecond}
		g.faults("kill", 15)
		g.faults("full", 2)
		g.faults("sync-error", 3)
		g.faults("slow-disk", 3)
	},
}

// Profiles are the names of the ways to make a plan.
func Profiles() []string { return sortedKeys(profiles) }

// NewPlan makes the plan of a seed.
func NewPlan(seed uint64, profile string) (*Plan, error) {
	make, ok := profiles[profile]
	if !ok {
		return nil, fmt.Errorf("%q is no profile; there are %s", profile, strings.Join(Profiles(), ", "))
	}
	s := NewScheduler(seed, begin)
	g := &generator{Rand: s.Rand("plan " + profile), rest: 0.07}
	if profile == "idle-storm" {
		g.again = s.Rand("again " + profile)
	}
	g.p = &Plan{
		Seed: seed, Profile: profile, Length: 10 * time.Minute,
		Isolates: 1 + g.IntN(4), Heap: 32 << 20, Evict: 10 * time.Second,
		Idle: g.between(5*time.Second, time.Minute), Approval: 20 * time.Second, Paused: 40 * time.Second, Running: time.Minute,
		Retention: g.between(5*time.Second, 30*time.Second), Lifetime: 30 * time.Minute,
		Build: Spread{time.Millisecond, g.between(2*time.Millisecond, 3*time.Second)}, Close: Spread{0, g.between(time.Millisecond, 2*time.Second)},
		Network: Spread{100 * time.Microsecond, g.between(time.Millisecond, 50*time.Millisecond)},
		Sync:    Spread{50 * time.Microsecond, g.between(100*time.Microsecond, 10*time.Millisecond)},
	}
	if g.chance(0.3) {
		g.p.Reads = Spread{0, g.between(time.Microsecond, 5*time.Millisecond)}
	}
	if g.chance(0.2) {
		g.p.BuildFails = 0.05
	}
	g.p.Reexecute = g.chance(0.3)
	g.p.Early = s.Rand("early "+profile).IntN(2) == 0
	if g.chance(0.3) {
		g.p.Owed = 2 + g.IntN(8)
	}
	if g.chance(0.3) {
		g.p.Window = 100 + g.IntN(2000)
	}
	g.come = g.p.Length * 2 / 3
	g.clients(4+g.IntN(14), 120)
	g.calls(g.IntN(60))
	make(g)
	slices.SortStableFunc(g.p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return g.p, nil
}

// generator draws a plan.
type generator struct {
	*rand.Rand
	p    *Plan
	rest float64       // the chance that a client's next call is a while off
	come time.Duration // until when clients come
	// again draws what clients come back for: other draws do not depend on it. Nil: for
	// nothing.
	again *rand.Rand
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func (g *generator) between(a, b time.Duration) time.Duration { return (Spread{a, b}).draw(g.Rand) }

// clients adds n clients of at most ops calls each.
func (g *generator) clients(n, ops int) {
	for i := range n {
		c := ClientPlan{Name: fmt.Sprintf("c%d", i), Kind: Kinds[g.IntN(len(Kinds))], At: g.between(0, g.come)}
		if g.chance(0.4) {
			c.Kind = Official
		}
		c.Version = []string{"2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26"}[g.IntN(4)]
		if c.Kind == Deleter {
			c.Delete = g.between(time.Second, g.p.Length/2)
		}
		left := g.p.Length - c.At
		at := time.Duration(0)
		for range 1 + g.IntN(ops) {
			// Calls come in bursts, with rests that outlast the idle time-out between.
			if g.chance(g.rest) {
				at += g.between(0, 3*g.p.Idle)
			} else {
				at += g.between(0, time.Second)
			}
			if at >= left {
				break
			}
			op := Op{At: at, Tool: g.tool(), Takes: g.between(0, 5*time.Second)}
			if op.Tool == "greedy" {
				op.Bytes = int64(g.IntN(4 << 20))
			}
			if g.chance(0.1) {
				op.Leave = g.between(time.Millisecond, op.Takes+10*time.Millisecond)
			}
			if g.again != nil && g.again.IntN(8) == 0 {
				op.Again = (Spread{time.Millisecond, g.p.kept()}).draw(g.again)
			}
			c.Ops = append(c.Ops, op)
		}
		g.p.Clients = append(g.p.Clients, c)
	}
}

func (g *generator) tool() string {
	switch n := g.IntN(100); {
	case n < 25:
		return "echo"
	case n < 60:
		return "incr"
	case n < 73:
		return "slow"
	case n < 88:
		return "stream"
	case n < 92:
		return "ask"
	case n < 95:
		return "greedy"
	case n < 96:
		return "spin"
	case n < 98:
		return "die"
	default:
		return "never"
	}
}

// calls adds n calls of objects that are no sessions.
func (g *generator) calls(n int) {
	for range n {
		c := CallPlan{At: g.between(0, g.p.Length), Do: Calls[g.IntN(len(Calls)-1)], N: g.IntN(3), Takes: g.between(0, time.Minute)}
		switch {
		case g.chance(0.5):
			c.Do = "add"
		case g.chance(0.02):
			c.Do = "hold-on"
		}
		g.p.Calls = append(g.p.Calls, c)
	}
}

// faults adds n faults of a kind.
func (g *generator) faults(kind string, n int) {
	for range n {
		f := Fault{At: g.between(0, g.p.Length), Kind: kind, N: g.IntN(16)}
		switch kind {
		case "reset-session", "reset-isolate":
			f.Cause = g.cause()
		case "strike":
			g.strikes(1)
			continue
		case "deploy":
			f.Takes = g.between(100*time.Millisecond, 5*time.Second)
		case "stall":
			f.Takes = g.between(25*time.Second, 45*time.Second)
		case "clock":
			f.Takes = g.between(time.Second, 10*time.Minute)
			if g.chance(0.5) {
				f.Takes = g.between(0, 2*time.Second)
			}
		default:
			f.Takes = g.between(100*time.Millisecond, 20*time.Second)
		}
		g.p.Faults = append(g.p.Faults, f)
	}
}

func (g *generator) cause() actor.Cause {
	causes := actor.Causes()
	return causes[g.IntN(len(causes))]
}

func (g *generator) strikes(n int) {
	for range n {
		f := Fault{At: g.between(0, g.p.Length), Kind: "strike", N: g.IntN(16), Point: actor.Points()[g.IntN(len(actor.Points()))], Cause: g.cause()}
		switch {
		case g.chance(0.1):
			f.Scope = actor.WholeProcess
			f.Cause = actor.NoCause
		case g.chance(0.3):
			f.Scope = actor.WholeIsolate
		}
		g.p.Faults = append(g.p.Faults, f)
	}
}
