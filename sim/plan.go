package sim

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
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
	line("host", p, "Isolates", "Heap", "Evict", "Idle", "Approval", "Paused", "Running", "Retention", "Lifetime", "Reexecute", "Owed")
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

// ReadPlan reads what Write wrote. An error names the line.
func ReadPlan(r io.Reader) (*Plan, error) {
	p := &Plan{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		words := strings.Fields(in.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := p.readLine(n, words); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return p, p.validate()
}

func (p *Plan) readLine(n int, words []string) error {
	if n == 1 {
		if strings.Join(words, " ") != planHead {
			return fmt.Errorf("a plan begins with %q", planHead)
		}
		return nil
	}
	switch head := words[0]; head {
	case "world", "host":
		return readFields(p, words[1:])
	case "client":
		p.Clients = append(p.Clients, ClientPlan{})
		return readFields(&p.Clients[len(p.Clients)-1], words[1:])
	case "op":
		if len(words) < 2 {
			return errors.New("an op needs its client: op client=NAME")
		}
		name, ok := strings.CutPrefix(words[1], "client=")
		i := slices.IndexFunc(p.Clients, func(c ClientPlan) bool { return c.Name == name })
		if !ok || i < 0 {
			return fmt.Errorf("%s: there is no such client above", words[1])
		}
		c := &p.Clients[i]
		c.Ops = append(c.Ops, Op{})
		return readFields(&c.Ops[len(c.Ops)-1], words[2:])
	case "call":
		p.Calls = append(p.Calls, CallPlan{})
		return readFields(&p.Calls[len(p.Calls)-1], words[1:])
	case "fault":
		p.Faults = append(p.Faults, Fault{})
		return readFields(&p.Faults[len(p.Faults)-1], words[1:])
	default:
		return fmt.Errorf("%q begins no line of a plan; world, host, client, op, call and fault do", head)
	}
}

func readFields(v any, words []string) error {
	rv := reflect.ValueOf(v).Elem()
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		f := rv.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
		if !ok || !f.IsValid() || f.Kind() == reflect.Slice {
			return fmt.Errorf("%q: want key=value with a key that this line has", word)
		}
		parsed, err := parseField(f.Interface(), value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		f.Set(reflect.ValueOf(parsed).Convert(f.Type()))
	}
	return nil
}

func parseField(was any, s string) (any, error) {
	switch was.(type) {
	case time.Duration:
		return time.ParseDuration(s)
	case Spread:
		low, high, _ := strings.Cut(s, "..")
		lo, err1 := time.ParseDuration(low)
		hi, err2 := time.ParseDuration(high)
		return Spread{lo, hi}, cmp.Or(err1, err2)
	case uint64:
		return strconv.ParseUint(s, 0, 64)
	case int64:
		return strconv.ParseInt(s, 10, 64)
	case int:
		return strconv.Atoi(s)
	case bool:
		return strconv.ParseBool(s)
	case float64:
		return strconv.ParseFloat(s, 64)
	case actor.Cause:
		return actor.ParseCause(s)
	case actor.Point:
		return actor.ParsePoint(s)
	case actor.Scope:
		return actor.ParseScope(s)
	default: // strings, and those of this package
		return s, nil
	}
}

func (p *Plan) validate() error {
	switch {
	case p.Length <= 0 || p.Length > 30*24*time.Hour:
		return fmt.Errorf("length=%v: want more than 0 and at most 30 days", p.Length)
	case p.Isolates < 1 || p.Isolates > 64:
		return fmt.Errorf("isolates=%d: want 1 to 64", p.Isolates)
	case p.Owed < 0 || p.Window < 0:
		return fmt.Errorf("owed=%d window=%d: want 0 or more", p.Owed, p.Window)
	case p.Running <= 0 || p.Idle <= 0 || p.Approval <= 0 || p.Paused <= 0 || p.Retention <= 0 || p.Lifetime <= 0:
		return fmt.Errorf("a time of the host's is missing: idle, approval, paused, running, retention and lifetime")
	}
	for i, f := range p.Faults {
		if faults[f.Kind] == nil {
			return fmt.Errorf("fault %d: %q is no fault; there are %s", i+1, f.Kind, strings.Join(sortedKeys(faults), ", "))
		}
	}
	for _, c := range p.Calls {
		if !slices.Contains(Calls, c.Do) {
			return fmt.Errorf("%q is no call; there are %v", c.Do, Calls)
		}
	}
	for _, c := range p.Clients {
		if !slices.Contains(Kinds, c.Kind) {
			return fmt.Errorf("client %s: %q is no kind; there are %v", c.Name, c.Kind, Kinds)
		}
		for _, o := range c.Ops {
			if !slices.Contains(Tools, o.Tool) {
				return fmt.Errorf("client %s: %q is no tool; there are %v", c.Name, o.Tool, Tools)
			}
		}
	}
	return nil
}
