package sim

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// Plan is all that a run is told: who does what, and what goes wrong, when. It is
// made of a seed, or read from a file; the run draws no more than delays and the
// order of what happens at once.
type Plan struct {
	Seed    uint64
	Profile string
	Length  time.Duration // of the phase in which things go wrong

	// The host.
	Isolates  int
	Heap      int64 // bytes
	Evict     time.Duration
	Idle      time.Duration
	Approval  time.Duration
	Paused    time.Duration
	Running   time.Duration
	Retention time.Duration
	Lifetime  time.Duration
	Reexecute bool // lost calls of tools that allow it are run again
	Early     bool // calls of tools that change nothing begin while they are being stored
	Owed      int  // how many requests of a session may wait; 0: as many as by default

	// The world around it.
	Build, Close  Spread // of runtimes
	Network, Sync Spread // latencies
	Reads         Spread
	BuildFails    float64
	Window        int // bytes that a response may be ahead of its client; 0: plenty

	Clients []ClientPlan
	Calls   []CallPlan
	Faults  []Fault
}

// Spread is a range of durations.
type Spread struct{ Min, Max time.Duration }

func (s Spread) draw(r *rand.Rand) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(r.Int64N(int64(s.Max-s.Min)))
}

func (s Spread) String() string { return s.Min.String() + ".." + s.Max.String() }

// ClientPlan is one client.
type ClientPlan struct {
	Name    string
	Kind    Kind
	Version string        // the protocol revision that it asks for
	At      time.Duration // when it comes
	Delete  time.Duration // when it ends its session, after it was opened; 0 for never
	Ops     []Op
}

// Op is a call of a tool, at a time after the session was opened.
type Op struct {
	At    time.Duration
	Tool  string
	Takes time.Duration
	Bytes int64
	Leave time.Duration // after which the connection is cut; 0 for never
	Again time.Duration // after its answer, when its client resumes from what it has; 0 for never
}

// Fault is something that goes wrong.
type Fault struct {
	At    time.Duration
	Kind  string
	N     int           // which one: a client, an isolate
	Takes time.Duration // how long it lasts, or how far it goes
	Cause actor.Cause
	Point actor.Point
	Scope actor.Scope
}

// patience is how long a client waits for a piece of a response: longer than the
// host may take.
func (p *Plan) patience() time.Duration { return p.Running + 3*time.Minute }

const planHead = "kalpa plan 1"

// Write writes the plan as text, a line for each thing.
func (p *Plan) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, planHead)
	line := func(head string, v any, only ...string) {
		fmt.Fprint(b, head)
		writeFields(b, v, only)
		fmt.Fprintln(b)
	}
	line("world", p, "Seed", "Profile", "Length", "Build", "Close", "Network", "Sync", "Reads", "BuildFails", "Window")
	line("host", p, "Isolates", "Heap", "Evict", "Idle", "Approval", "Paused", "Running", "Retention", "Lifetime", "Reexecute", "Early", "Owed")
	for i := range p.Clients {
		c := &p.Clients[i]
		line("client", c)
		for j := range c.Ops {
			line("op client="+c.Name, &c.Ops[j])
		}
	}
	for i := range p.Calls {
		line("call", &p.Calls[i])
	}
	for i := range p.Faults {
		line("fault", &p.Faults[i])
	}
	return b.Flush()
}

// writeFields writes the fields of a struct as key=value, those that are zero left out.
func writeFields(w io.Writer, v any, only []string) {
	rv := reflect.ValueOf(v).Elem()
	for i := range rv.NumField() {
		f, t := rv.Field(i), rv.Type().Field(i)
		if t.Type.Kind() == reflect.Slice || f.IsZero() || len(only) > 0 && !slices.Contains(only, t.Name) {
			continue
		}
		fmt.Fprintf(w, " %s=%v", strings.ToLower(t.Name), f.Interface())
	}
}
