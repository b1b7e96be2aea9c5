package cmd

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/sim"
)

// simReport is what kalpa sim tells at the end.
type simReport struct {
	Profile  string `json:"profile"`
	First    uint64 `json:"first_seed"`
	Last     uint64 `json:"last_seed"`
	Seeds    int    `json:"seeds"` // that were run
	Commit   string `json:"commit"`
	Verified bool   `json:"verified"`

	Faults map[string]int `json:"faults"`
	Struck int            `json:"struck"`
	Starts int            `json:"host_starts"`
	Torn   int            `json:"torn_writes"`

	Requests int `json:"requests"`
	Answered int `json:"answered"`
	Lost     int `json:"lost"`
	Refused  int `json:"refused"`
	Open     int `json:"open"`

	Checks map[string]int `json:"checks"` // runs in which each did not hold
	Events uint64         `json:"events"`

	// Of a campaign of swarm: what has to happen now and then, and has.
	Seen  int      `json:"sometimes_seen,omitempty"`
	Never []string `json:"sometimes_never,omitempty"`

	Virtual time.Duration `json:"-"`
	Real    time.Duration `json:"-"`
	// The same, in seconds.
	VirtualSeconds float64 `json:"virtual_seconds"`
	RealSeconds    float64 `json:"real_seconds"`

	Trace    string         `json:"trace"`
	Failures []simFailure   `json:"failures,omitempty"`
	Diverged *simDivergence `json:"diverged,omitempty"`
}

// simFailure is a run in which something did not hold.
type simFailure struct {
	Seed      uint64   `json:"seed"`
	Invariant string   `json:"invariant"`
	Text      string   `json:"text"`
	Step      uint64   `json:"step"`
	At        float64  `json:"at_seconds"`
	Events    []string `json:"events"`
	keptPlan
	Replay string `json:"replay"`
	Shrink string `json:"shrink"`
}

// keptPlan is where the plan of a run is.
type keptPlan struct {
	Plan      string `json:"plan"`                 // the file; empty: it could not be written
	PlanError string `json:"plan_error,omitempty"` // and why
}

func (k keptPlan) String() string {
	if k.PlanError != "" {
		return "not written: " + k.PlanError
	}
	return k.Plan
}

// simDivergence is a seed whose two runs were not the same.
type simDivergence struct {
	Seed uint64 `json:"seed"`
	Step uint64 `json:"step"`
	keptPlan
	Replay string `json:"replay"`
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// take takes over what a campaign came to.
func (r *simReport) take(t *sim.Total, traces map[uint64]uint64) {
	r.Seeds, r.Faults, r.Struck, r.Starts, r.Torn = t.Seeds, t.Faults, t.Struck, t.Boots, t.Torn
	r.Requests, r.Answered, r.Lost, r.Refused, r.Open = t.Requests, t.Answered, t.Lost, t.Refused, t.Open
	r.Events, r.Virtual, r.Real = t.Steps, t.Virtual, t.Real
	r.VirtualSeconds, r.RealSeconds = seconds(t.Virtual), seconds(t.Real)
	r.Checks = map[string]int{}
	for _, name := range sim.Invariants {
		r.Checks[name] = 0
	}
	for _, f := range t.Failed {
		r.Checks[f.Violation.Invariant]++
	}
	if r.Profile == "swarm" && r.Seeds > 1 {
		r.Never = sim.Missing(t.Covered)
		r.Seen = len(sim.Sometimes()) - len(r.Never)
	}
	// Seeds end in any order; the trace of all is that of the traces by seed.
	h := fnv.New64a()
	for _, seed := range slices.Sorted(maps.Keys(traces)) {
		if len(traces) == 1 {
			r.Trace = fmt.Sprintf("%016x", traces[seed])
			return
		}
		_ = binary.Write(h, binary.BigEndian, traces[seed]) // a hash takes all
	}
	r.Trace = fmt.Sprintf("%016x", h.Sum64())
}

// lacks: so many seeds have to have seen all that happens now and then. Fewer of them
// show less, and are not wrong.
func (r *simReport) lacks() bool { return r.Seeds >= sim.Whole && len(r.Never) > 0 }

// text is the report for people.
func (r *simReport) text(w io.Writer) {
	seeds := fmt.Sprintf("seed=%d", r.First)
	if r.Last > r.First {
		seeds = fmt.Sprintf("seeds=%d-%d", r.First, r.Last)
	}
	verify := "off"
	if r.Verified {
		verify = "on"
	}
	line := func(head, format string, a ...any) { fmt.Fprintf(w, "%-10s %s\n", head, fmt.Sprintf(format, a...)) }
	line("kalpa sim", "%s commit=%s profile=%s verify=%s", seeds, r.Commit, r.Profile, verify)
	line("faults", "%s", r.faults())
	line("host", "starts %s · writes torn by crashes %s", grouped(r.Starts), grouped(r.Torn))
	line("work", "requests %s = answered %s + lost %s + refused %s + open %s", grouped(r.Requests), grouped(r.Answered), grouped(r.Lost), grouped(r.Refused), grouped(r.Open))
	var checks []string
	for _, name := range sim.Invariants {
		checks = append(checks, fmt.Sprintf("%s %d", name, r.Checks[name]))
	}
	line("checks", "%s", strings.Join(checks, " · "))
	if total := r.Seen + len(r.Never); total > 0 {
		line("sometimes", "%d of %d have happened", r.Seen, total)
	}
	line("speed", "%s, %s events in %v", virtually(r.Virtual), grouped(int(r.Events)), r.Real.Round(100*time.Millisecond)) //nolint:gosec // no run has that many
	switch {
	case r.Diverged != nil:
		line("DIVERGED", "seed %d: two runs differ from step %d on", r.Diverged.Seed, r.Diverged.Step)
		line("plan", "%s", r.Diverged.keptPlan)
		line("replay", "%s", r.Diverged.Replay)
	case len(r.Failures) > 0:
		r.failures(w, line)
	case r.lacks():
		line("FAIL", "in %s seeds never: %s", grouped(r.Seeds), strings.Join(r.Never, ", "))
	case r.Verified:
		line("PASS", "trace=%s (2 runs identical)", r.Trace)
	default:
		line("PASS", "trace=%s", r.Trace)
	}
}

func (r *simReport) failures(w io.Writer, line func(head, format string, a ...any)) {
	f := r.Failures[0]
	line("FAIL", "%s at step %d, %v: %s", f.Invariant, f.Step, time.Duration(f.At*float64(time.Second)), f.Text)
	if len(r.Failures) > 1 {
		var others []string
		for _, o := range r.Failures[1:] {
			others = append(others, fmt.Sprintf("%d (%s)", o.Seed, o.Invariant))
		}
		line("", "seed %d; as well: %s", f.Seed, strings.Join(others, ", "))
	} else if r.Last > r.First {
		line("", "seed %d", f.Seed)
	}
	fmt.Fprintln(w, "\nThe last events:")
	for _, e := range f.Events {
		fmt.Fprintln(w, "  "+e)
	}
	fmt.Fprintln(w)
	line("plan", "%s", f.keptPlan)
	line("replay", "%s", f.Replay)
	line("shrink", "%s", f.Shrink)
}

// faults are those of the plans, most often first.
func (r *simReport) faults() string {
	kinds := slices.Sorted(maps.Keys(r.Faults))
	slices.SortStableFunc(kinds, func(a, b string) int { return r.Faults[b] - r.Faults[a] })
	var parts []string
	for _, k := range kinds {
		part := k + " " + grouped(r.Faults[k])
		if k == "strike" {
			part += fmt.Sprintf(" (hit %s)", grouped(r.Struck))
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " · ")
}

// virtually is a virtual time, in the largest unit of which there are some.
func virtually(d time.Duration) string {
	if h := d.Hours(); h >= 48 {
		return fmt.Sprintf("%.1f virtual days", h/24)
	}
	return fmt.Sprintf("%.1f virtual hours", d.Hours())
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
