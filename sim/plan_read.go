package sim

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

// ReadPlan reads what Write wrote. An error names the line.
func ReadPlan(r io.Reader) (*Plan, error) {
	pr := planReader{plan: &Plan{}, lines: map[string]int{}}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		pr.line++
		words := strings.Fields(in.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := pr.read(words); err != nil {
			return nil, fmt.Errorf("line %d: %w", pr.line, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", pr.line+1, err)
	}
	if !pr.headed {
		return nil, errNoHead
	}
	return pr.plan, pr.place(pr.plan.validate())
}

var errNoHead = fmt.Errorf("a plan begins with %q", planHead)

// planReader knows on which line what it has read stands.
type planReader struct {
	plan   *Plan
	line   int
	headed bool
	lines  map[string]int // by key, of world and host, and by the place of a mistake
}

// place adds the line to what validate has found.
func (pr *planReader) place(err error) error {
	m, ok := errors.AsType[*mistake](err)
	switch {
	case !ok:
		return err
	case pr.lines[m.where] == 0:
		return fmt.Errorf("%w; no line gives it", m.err)
	}
	return fmt.Errorf("line %d: %w", pr.lines[m.where], m.err)
}

func (pr *planReader) read(words []string) error {
	p := pr.plan
	if !pr.headed {
		if strings.Join(words, " ") != planHead {
			return errNoHead
		}
		pr.headed = true
		return nil
	}
	item := func(where string, v any, words []string) error {
		pr.lines[where] = pr.line
		return readFields(v, words, map[string]int{}, pr.line)
	}
	switch head := words[0]; head {
	case "world", "host":
		return readFields(p, words[1:], pr.lines, pr.line)
	case "client":
		p.Clients = append(p.Clients, ClientPlan{})
		n := len(p.Clients)
		return item(clientPlace(n-1), &p.Clients[n-1], words[1:])
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
		n := len(c.Ops)
		return item(opPlace(i, n-1), &c.Ops[n-1], words[2:])
	case "call":
		p.Calls = append(p.Calls, CallPlan{})
		n := len(p.Calls)
		return item(callPlace(n-1), &p.Calls[n-1], words[1:])
	case "fault":
		p.Faults = append(p.Faults, Fault{})
		n := len(p.Faults)
		return item(faultPlace(n-1), &p.Faults[n-1], words[1:])
	default:
		return fmt.Errorf("%q begins no line of a plan; world, host, client, op, call and fault do", head)
	}
}

// readFields sets the fields of a struct, each once: given are the lines of those that
// have been set.
func readFields(v any, words []string, given map[string]int, line int) error {
	rv := reflect.ValueOf(v).Elem()
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		key = strings.ToLower(key)
		f := rv.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
		if !ok || !f.IsValid() || f.Kind() == reflect.Slice {
			return fmt.Errorf("%q: want key=value with a key that this line has", word)
		}
		if was := given[key]; was != 0 {
			return fmt.Errorf("%s: it is given already, on line %d", key, was)
		}
		given[key] = line
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
		low, high, ok := strings.Cut(s, "..")
		if !ok {
			return nil, fmt.Errorf("%q is no range; write 1ms..20ms", s)
		}
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
