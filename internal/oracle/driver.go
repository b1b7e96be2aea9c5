package oracle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// World is something that programs run on.
type World interface {
	// Start makes the objects known, before anything is sent to them.
	Start(ctx context.Context, p *Program, points *Points) error
	// Send sends events, those of one object in their order. outcome is called once
	// for each that ends.
	Send(ctx context.Context, events []Event, outcome func(label, outcome string)) error
	// Pass lets time go by.
	Pass(ctx context.Context, d time.Duration) error
	// Nudge lets a little time go by, while the driver waits.
	Nudge()
	// Restart ends the process as kill -9 does, and starts it again.
	Restart(ctx context.Context) error
	// Connect opens a socket to an object.
	Connect(ctx context.Context, socket, object string) (Socket, error)
	// Trace is what the objects did, so far.
	Trace(ctx context.Context) ([]TraceLine, error)
	// Stop ends it.
	Stop() error
}

// Event is sent to an object.
type Event struct {
	Label  string `json:"label"`
	Object string `json:"object"`
	Ops    []Op   `json:"ops"`
}

// Socket is a client's end of a WebSocket.
type Socket interface {
	Send(ctx context.Context, text string, binary bool) error
	// Receive waits for a frame, or for the close, which it describes.
	Receive(ctx context.Context) (string, error)
	Close(ctx context.Context, code int, reason string) error
}

// TraceLine is something that an object did.
type TraceLine struct {
	Object string `json:"object"`
	Line   string `json:"line"`
}

// Patience is how long the driver waits for what a program says will come.
const Patience = 45 * time.Second

// Run runs a program and tells what was seen.
func Run(ctx context.Context, w World, p *Program) (transcript string, err error) {
	d := &driver{w: w, points: NewPoints(), outcomes: map[string]string{}, sockets: map[string]Socket{}, changed: make(chan struct{}, 1)}
	if err := w.Start(ctx, p, d.points); err != nil {
		return "", err
	}
	defer func() {
		d.points.Close()
		if e := w.Stop(); err == nil {
			err = e
		}
	}()
	for i := 0; i < len(p.Steps); i++ {
		n := 1
		for p.Steps[i].Verb == "send" && i+n < len(p.Steps) && p.Steps[i+n].Verb == "send" {
			n++
		}
		if err := d.step(ctx, p.Steps[i:i+n]); err != nil {
			trace, _ := w.Trace(ctx)
			return "", fmt.Errorf("line %d: %s: %w\nso far:\n%s", p.Steps[i].Line, p.Steps[i].Verb, err, d.format(trace))
		}
		i += n - 1
	}
	trace, err := w.Trace(ctx)
	if err != nil {
		return "", err
	}
	return d.format(trace), nil
}

type driver struct {
	w       World
	points  *Points
	changed chan struct{}
	sockets map[string]Socket
	client  []string // what clients saw, in the order of the program

	mu       sync.Mutex
	outcomes map[string]string
}

func (d *driver) step(ctx context.Context, s []Step) error {
	args := s[0].Args
	switch s[0].Verb {
	case "call", "send":
		var events []Event
		for _, e := range s {
			events = append(events, Event{e.Args[0], e.Args[1], e.Ops})
		}
		if err := d.w.Send(ctx, events, d.outcome); err != nil || s[0].Verb == "send" {
			return err
		}
		return d.end(ctx, args[0])
	case "end":
		return d.end(ctx, args[0])
	case "reached":
		n := 1
		if len(args) > 1 {
			n, _ = strconv.Atoi(args[1])
		}
		return d.until(ctx, soon, func() (bool, error) { return d.points.Reached(args[0]) >= n, nil })
	case "release":
		d.points.Release(args[0])
		return nil
	case "alarm":
		return d.count(ctx, "alarm", args[0], args[1])
	case "event":
		return d.count(ctx, args[1], args[0], args[2])
	case "saw":
		return d.until(ctx, soon, func() (bool, error) {
			trace, err := d.w.Trace(ctx)
			return slices.ContainsFunc(trace, func(t TraceLine) bool { return t.Object == args[0] && strings.HasPrefix(t.Line, args[1]) }), err
		})
	case "pass":
		t, err := duration(args[0])
		if err != nil {
			return err
		}
		return d.w.Pass(ctx, t)
	case "restart":
		return d.w.Restart(ctx)
	default:
		return d.socket(ctx, s[0].Verb, args)
	}
}

func (d *driver) socket(ctx context.Context, verb string, args []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	name := args[0]
	if verb == "connect" {
		if d.sockets[name], err = d.w.Connect(ctx, name, args[1]); err != nil {
			d.client = append(d.client, fmt.Sprintf("%s not connected: %v", name, err))
			return nil
		}
		d.client = append(d.client, name+" connected")
		return nil
	}
	s := d.sockets[name]
	if s == nil {
		return fmt.Errorf("there is no socket %q", name)
	}
	switch verb {
	case "frame", "bytes":
		return s.Send(ctx, args[1], verb == "bytes")
	case "receive", "closed":
		got, err := s.Receive(ctx)
		d.client = append(d.client, name+" "+got)
		return err
	default: // close
		code, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return s.Close(ctx, code, strings.Join(args[2:], " "))
	}
}

// ended is how many events of a kind an object has handled.
func ended(trace []TraceLine, event, object string) (n int) {
	for _, t := range trace {
		words := strings.Fields(t.Line)
		if t.Object == object && len(words) > 2 && words[0] == event && (words[2] == "ended" || words[2] == "failed") {
			n++
		}
	}
	return n
}

func (d *driver) count(ctx context.Context, event, object, least string) error {
	n, err := strconv.Atoi(least)
	if err != nil {
		return err
	}
	return d.until(ctx, soon, func() (bool, error) {
		trace, err := d.w.Trace(ctx)
		return ended(trace, event, object) >= n, err
	})
}

func (d *driver) outcome(label, outcome string) {
	d.mu.Lock()
	d.outcomes[label] = outcome
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *driver) end(ctx context.Context, label string) error {
	var outcome string
	err := d.until(ctx, time.Second, func() (is bool, _ error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		outcome, is = d.outcomes[label]
		return is, nil
	})
	d.client = append(d.client, label+" "+outcome)
	return err
}

// soon is how long the driver waits before it helps time along.
const soon = 5 * time.Millisecond

// until waits for a condition. After a while the world is told that time should
// pass: a program waits for an alarm at once, and for a reply only if time has to
// pass for it.
func (d *driver) until(ctx context.Context, after time.Duration, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	begun := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 5*time.Millisecond) {
		switch ok, err := is(); {
		case err != nil:
			return err
		case ok:
			return nil
		}
		if time.Since(begun) > after {
			d.w.Nudge()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not come: %w", ctx.Err())
		case <-d.changed:
		case <-d.points.Changed():
		case <-time.After(pause):
		}
	}
}

// format groups the trace by object: what two objects do at once has no order.
func (d *driver) format(trace []TraceLine) string {
	by := map[string][]string{}
	for _, t := range trace {
		by[t.Object] = append(by[t.Object], t.Line)
	}
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	var s strings.Builder
	for _, name := range names {
		fmt.Fprintf(&s, "object %s\n", name)
		for _, l := range by[name] {
			fmt.Fprintf(&s, "  %s\n", l)
		}
	}
	s.WriteString("clients\n")
	for _, l := range d.client {
		fmt.Fprintf(&s, "  %s\n", l)
	}
	return s.String()
}
