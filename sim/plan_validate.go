package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// mistake is what is wrong with a plan, and where: a key of the world or the host, or
// one of the lines that there are many of.
type mistake struct {
	where string
	err   error
}

func (m *mistake) Error() string { return fmt.Sprintf("%s: %v", m.where, m.err) }

func (m *mistake) Unwrap() error { return m.err }

func clientPlace(i int) string { return fmt.Sprintf("client %d", i+1) }
func opPlace(i, j int) string  { return fmt.Sprintf("op %d of client %d", j+1, i+1) }
func callPlace(i int) string   { return fmt.Sprintf("call %d", i+1) }
func faultPlace(i int) string  { return fmt.Sprintf("fault %d", i+1) }

// validate looks for what can't be run, and what would not be what it says. An error
// is a *mistake.
func (p *Plan) validate() error {
	if key, err := amounts(p); err != nil {
		return &mistake{key, err}
	}
	switch {
	case p.Length == 0 || p.Length > 30*24*time.Hour:
		return &mistake{"length", fmt.Errorf("length=%v: want more than 0 and at most 30 days", p.Length)}
	case p.Isolates < 1 || p.Isolates > 64:
		return &mistake{"isolates", fmt.Errorf("isolates=%d: want 1 to 64", p.Isolates)}
	case !(p.BuildFails <= 1): // also what is no number
		return &mistake{"buildfails", fmt.Errorf("buildfails=%v: want a chance, 0 to 1", p.BuildFails)}
	}
	for _, d := range []struct {
		key  string
		time time.Duration
	}{{"idle", p.Idle}, {"approval", p.Approval}, {"paused", p.Paused}, {"running", p.Running}, {"retention", p.Retention}, {"lifetime", p.Lifetime}} {
		if d.time == 0 {
			return &mistake{d.key, fmt.Errorf("%s=0s: want more than 0", d.key)}
		}
	}
	for i := range p.Clients {
		if err := p.validateClient(i); err != nil {
			return err
		}
	}
	for i := range p.Calls {
		if err := p.Calls[i].validate(); err != nil {
			return &mistake{callPlace(i), err}
		}
	}
	for i := range p.Faults {
		if err := p.Faults[i].validate(); err != nil {
			return &mistake{faultPlace(i), err}
		}
	}
	return nil
}

func (p *Plan) validateClient(i int) error {
	c := &p.Clients[i]
	_, err := amounts(c)
	switch {
	case err != nil:
	case c.Name == "":
		err = fmt.Errorf("a client needs a name")
	case slices.ContainsFunc(p.Clients[:i], func(o ClientPlan) bool { return o.Name == c.Name }):
		err = fmt.Errorf("there are two clients %s", c.Name)
	case !slices.Contains(Kinds, c.Kind):
		err = fmt.Errorf("client %s: %q is no kind; there are %s", c.Name, c.Kind, list(Kinds))
	case !slices.Contains(session.Versions, c.Version):
		err = fmt.Errorf("client %s: %q is no revision of the protocol; there are %s", c.Name, c.Version, list(session.Versions))
	}
	if err != nil {
		return &mistake{clientPlace(i), err}
	}
	for j := range c.Ops {
		o := &c.Ops[j]
		_, err := amounts(o)
		if err == nil && !slices.Contains(Tools, o.Tool) {
			err = fmt.Errorf("client %s: %q is no tool; there are %s", c.Name, o.Tool, list(Tools))
		}
		if err != nil {
			return &mistake{opPlace(i, j), err}
		}
	}
	return nil
}

func (c *CallPlan) validate() error {
	if _, err := amounts(c); err != nil {
		return err
	}
	if !slices.Contains(Calls, c.Do) {
		return fmt.Errorf("%q is no call; there are %s", c.Do, list(Calls))
	}
	return nil
}

func (f *Fault) validate() error {
	if _, err := amounts(f); err != nil {
		return err
	}
	if faults[f.Kind] == nil {
		return fmt.Errorf("%q is no fault; there are %s", f.Kind, list(sortedKeys(faults)))
	}
	switch f.Kind {
	case "strike":
		s := f.strike()
		return s.Validate()
	case "reset-session", "reset-isolate":
		if !f.Cause.Reset() {
			return fmt.Errorf("%s needs a cause; there are %s", f.Kind, list(actor.Causes()))
		}
	}
	return nil
}

// strike is the fault as the host takes it.
func (f *Fault) strike() actor.Strike {
	return actor.Strike{Point: f.Point, Scope: f.Scope, Cause: f.Cause, Skip: f.N % 5}
}

// longest is how long anything in a plan may take: sums of it are still durations.
const longest = 365 * 24 * time.Hour

// amounts looks at all that is counted or measured in a line: none of it is negative.
// The key is that of the first that is wrong.
func amounts(v any) (key string, err error) {
	rv := reflect.ValueOf(v).Elem()
	for i := range rv.NumField() {
		key := strings.ToLower(rv.Type().Field(i).Name)
		switch x := rv.Field(i).Interface().(type) {
		case time.Duration:
			if x < 0 || x > longest {
				return key, fmt.Errorf("%s=%v: want 0 to %v", key, x, longest)
			}
		case Spread:
			if x.Min < 0 || x.Max < x.Min || x.Max > longest {
				return key, fmt.Errorf("%s=%v: want a range that begins at 0 or later, and ends no sooner", key, x)
			}
		case int:
			if x < 0 {
				return key, fmt.Errorf("%s=%d: want 0 or more", key, x)
			}
		case int64:
			if x < 0 {
				return key, fmt.Errorf("%s=%d: want 0 or more", key, x)
			}
		case float64:
			if x < 0 {
				return key, fmt.Errorf("%s=%v: want 0 or more", key, x)
			}
		}
	}
	return "", nil
}

// list is how names are told.
func list[T any](names []T) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ", ")
}
