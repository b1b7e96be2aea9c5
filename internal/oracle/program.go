package oracle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Program is what happens to some objects, in the order in which it happens.
type Program struct {
	// Backend is which storage the real runtime has under the objects: "" for its
	// present one, on disk, or "kv" for the older, in memory, which has limits.
	Backend string
	Objects []Object
	Steps   []Step
}

// Object says what an object does by itself: when it is constructed, when its
// alarm comes, when something comes in on one of its sockets.
type Object struct {
	Name string `json:"name"`
	// Kind is "" for an object that is found by its name, "unique" for one that has
	// none.
	Kind string `json:"kind"`
	// Handlers are ops by event, "alarm", or by its nth time, "alarm 2".
	Handlers map[string][]Op `json:"handlers"`
}

// Op is one thing that an object does.
type Op struct {
	Name string         `json:"name"`
	Args []string       `json:"args"`
	Opts map[string]any `json:"opts,omitempty"`
	Body []Op           `json:"body,omitempty"`
	// Text is the op as the trace shows it.
	Text string `json:"text"`
	// Detached: the code goes on without waiting for it (~). Told: its end is traced
	// (~~). Rethrow: what it fails with ends the event (!).
	Detached bool `json:"detached,omitempty"`
	Told     bool `json:"told,omitempty"`
	Rethrow  bool `json:"rethrow,omitempty"`
	// Pairs: a put of many keys in one call.
	Pairs bool `json:"pairs,omitempty"`
}

// Step is one thing that the driver does.
type Step struct {
	Verb string // a key of steps
	Args []string
	Ops  []Op // of call and send
	Line int
}

// steps are the driver's verbs, with the number of their arguments.
var steps = map[string][2]int{
	"call":    {2, 2}, // label, object: send it and wait for its outcome
	"send":    {2, 2}, // label, object: send it; neighbours are sent together
	"end":     {1, 1}, // label: wait for its outcome
	"reached": {1, 2}, // point, how many wait there
	"release": {1, 1}, // point
	"alarm":   {2, 2}, // object, how many of its alarms have ended
	"saw":     {2, 2}, // object, how a line of its trace begins: wait for it
	"pass":    {1, 1}, // a time
	"restart": {0, 0}, // as by kill -9
	"connect": {2, 2}, // socket, object
	"frame":   {2, 2}, // socket, text
	"bytes":   {2, 2}, // socket, text
	"receive": {1, 1}, // socket
	"close":   {2, 3}, // socket, code, reason
	"closed":  {1, 1}, // socket: wait until the object has closed it
	"event":   {3, 3}, // object, event, how many of them have begun
}

// handlers are the events for which an object may have ops.
var handlers = map[string]bool{"constructor": true, "alarm": true, "connect": true, "message": true, "close": true, "error": true}

// line is one of a program's, with what is indented below it.
type line struct {
	n     int
	words []string
	text  string
	below []line
}

// Parse reads a program.
func Parse(text string) (*Program, error) {
	lines, err := nest(text)
	if err != nil {
		return nil, err
	}
	p := &Program{}
	for _, l := range lines {
		if err := p.add(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.n, err)
		}
	}
	return p, nil
}

func (p *Program) add(l line) error {
	verb, args := l.words[0], l.words[1:]
	if verb == "object" {
		o, err := object(args, l.below)
		p.Objects = append(p.Objects, o)
		return err
	}
	if verb == "backend" && len(args) == 1 && args[0] == "kv" {
		p.Backend = args[0]
		return nil
	}
	arity, known := steps[verb]
	switch {
	case !known:
		return fmt.Errorf("there is no step %q", verb)
	case len(args) < arity[0] || len(args) > arity[1]:
		return fmt.Errorf("%s takes %d to %d arguments, not %d", verb, arity[0], arity[1], len(args))
	case (verb == "call" || verb == "send") != (len(l.below) > 0):
		return errors.New("call and send have ops below them, and no other step has")
	}
	ops, err := parseOps(l.below)
	p.Steps = append(p.Steps, Step{verb, args, ops, l.n})
	return err
}

func object(args []string, below []line) (Object, error) {
	if len(args) == 0 || len(args) > 2 {
		return Object{}, errors.New("object takes a name and perhaps a kind")
	}
	o := Object{Name: args[0], Handlers: map[string][]Op{}}
	if len(args) == 2 {
		o.Kind = args[1]
	}
	for _, l := range below {
		if event := l.words[0]; !handlers[event] {
			return o, fmt.Errorf("line %d: there is no handler %q", l.n, event)
		}
		ops, err := parseOps(l.below)
		if err != nil {
			return o, err
		}
		o.Handlers[l.text] = ops
	}
	return o, nil
}

func parseOps(lines []line) ([]Op, error) {
	var ops []Op
	for _, l := range lines {
		op, err := parseOp(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.n, err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func parseOp(l line) (Op, error) {
	op := Op{Name: l.words[0], Text: l.text, Args: []string{}}
	if name, ok := strings.CutPrefix(op.Name, "~~"); ok {
		op.Name, op.Text, op.Detached, op.Told = name, l.text[2:], true, true
	} else if name, ok := strings.CutPrefix(op.Name, "~"); ok {
		op.Name, op.Text, op.Detached = name, l.text[1:], true
	} else if name, ok := strings.CutPrefix(op.Name, "!"); ok {
		op.Name, op.Text, op.Rethrow = name, l.text[1:], true
	}
	if op.Name == "putMany" {
		op.Name, op.Pairs = "put", true
	}
	for _, w := range l.words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && optional[k] {
			if op.Opts == nil {
				op.Opts = map[string]any{}
			}
			op.Opts[k] = option(v)
			continue
		}
		op.Args = append(op.Args, w)
	}
	if reason := op.Args; len(reason) > 1 && (op.Name == "throw" || op.Name == "abort") {
		op.Args = []string{strings.Join(reason, " ")}
	}
	var err error
	op.Body, err = parseOps(l.below)
	return op, err
}

// optional are the options of storage ops.
var optional = map[string]bool{
	"start": true, "startAfter": true, "end": true, "prefix": true, "reverse": true, "limit": true,
	"allowConcurrency": true, "allowUnconfirmed": true, "noCache": true,
}

func option(v string) any {
	if b, err := strconv.ParseBool(v); err == nil && len(v) > 1 {
		return b
	}
	if n, err := strconv.Atoi(v); err == nil {
		return n
	}
	return v
}

// nest reads lines and what is indented below them, by two spaces a level.
// Empty lines, and those that begin with #, are comments.
func nest(text string) ([]line, error) {
	top := line{}
	open := []*line{&top}
	for i, raw := range strings.Split(text, "\n") {
		s := strings.TrimLeft(raw, " ")
		depth := (len(raw) - len(s)) / 2
		if s == "" || s[0] == '#' {
			continue
		}
		if (len(raw)-len(s))%2 != 0 || depth >= len(open) {
			return nil, fmt.Errorf("line %d: indentation is two spaces a level", i+1)
		}
		words, err := split(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		parent := open[depth]
		parent.below = append(parent.below, line{n: i + 1, words: words, text: s})
		open = append(open[:depth+1], &parent.below[len(parent.below)-1])
	}
	return top.below, nil
}

// split finds the words of a line. A word may be a quoted Go string, wholly or
// after the = of an option, and either kind may be followed by {n}: n times.
func split(s string) ([]string, error) {
	var words []string
	for {
		s = strings.TrimLeft(s, " ")
		if s == "" {
			return words, nil
		}
		end := strings.IndexAny(s, " \"")
		before := s
		if end >= 0 {
			before = s[:end]
		}
		s = s[len(before):]
		if strings.HasPrefix(s, `"`) {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			s = s[len(q):]
			text, _ := strconv.Unquote(q)
			times, rest, _ := strings.Cut(s, " ")
			if text, err = repeat(text, times); err != nil {
				return nil, err
			}
			words, s = append(words, before+text), rest
			continue
		}
		key, value, found := strings.Cut(before, "=")
		if !found || !optional[key] {
			key, value = "", before
		} else {
			key += "="
		}
		if open := strings.LastIndexByte(value, '{'); open > 0 && strings.HasSuffix(value, "}") {
			text, err := repeat(value[:open], value[open:])
			if err != nil {
				return nil, err
			}
			value = text
		}
		words = append(words, key+value)
	}
}

func repeat(text, times string) (string, error) {
	if times == "" {
		return text, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(times, "{"), "}"))
	if err != nil || n < 0 || n > 16<<20 {
		return "", fmt.Errorf("%q is not {n}", times)
	}
	return strings.Repeat(text, n), nil
}

// duration reads a step's time.
func duration(s string) (time.Duration, error) { return time.ParseDuration(s) }
