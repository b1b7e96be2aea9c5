package actor

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

// Point is a moment in the life of an execution at which a reset can be provoked.
type Point uint8

const (
	NoPoint Point = iota
	// BeforeCommit: a request has been admitted, and its row in the ledger is not
	// yet written.
	BeforeCommit
	// AfterCommit: the row is durable, and nobody has been told.
	AfterCommit
	// AfterDelivery: the request has been passed on to the runtime.
	AfterDelivery
	// BetweenEvents: an event of the execution has been stored and sent, and it is
	// not the last.
	BetweenEvents
	// AfterResult: the result is durable, and has not been sent.
	AfterResult
	// BeforeFlush: the front has the result, and has not written it.
	BeforeFlush
)

var points = [...]string{
	BeforeCommit: "before-commit", AfterCommit: "after-commit", AfterDelivery: "after-delivery",
	BetweenEvents: "between-events", AfterResult: "after-result", BeforeFlush: "before-flush",
}

var pointSentences = [...]string{
	BeforeCommit:  "The request has been admitted; nothing of it is stored.",
	AfterCommit:   "The request is stored and owed; nobody has been told.",
	AfterDelivery: "The request has been passed on to the server.",
	BetweenEvents: "An event of the execution has been stored and sent, and it is not the last.",
	AfterResult:   "The result is stored, and has not been sent.",
	BeforeFlush:   "The front has the result, and has not written it to the client.",
}

// Points are all of them, in the order in which an execution passes them.
func Points() []Point {
	return []Point{BeforeCommit, AfterCommit, AfterDelivery, BetweenEvents, AfterResult, BeforeFlush}
}

func (p Point) String() string { return points[p] }

// Sentence says for people where the point is.
func (p Point) Sentence() string { return pointSentences[p] }

// ParsePoint finds a point by its name.
func ParsePoint(name string) (Point, error) {
	if i := slices.Index(points[:], name); i > 0 {
		return Point(i), nil
	}
	return NoPoint, fmt.Errorf("%q is not a point; the points are %q", name, points[1:])
}

// Scope is how much a strike takes down.
type Scope uint8

const (
	// OneObject: the object that has come to the point.
	OneObject Scope = iota
	// WholeIsolate: all objects that share its heap.
	WholeIsolate
	// WholeProcess: the process ends at once, as by kill -9. Options.Kill does it.
	WholeProcess
)

var scopes = [...]string{OneObject: "object", WholeIsolate: "isolate", WholeProcess: "process"}

// Scopes are all of them, the least first.
func Scopes() []Scope { return []Scope{OneObject, WholeIsolate, WholeProcess} }

func (s Scope) String() string { return scopes[s] }

// ParseScope finds a scope by its name.
func ParseScope(name string) (Scope, error) {
	if i := slices.Index(scopes[:], name); i >= 0 {
		return Scope(i), nil
	}
	return 0, fmt.Errorf("%q is not a scope; the scopes are %q", name, scopes)
}

// Strike is a reset that waits for an object to come to a point. The zero value
// of a filter means any.
type Strike struct {
	Point  Point
	Class  string
	Name   string
	Method string // of the request, "tools/call"
	Tool   string // that it calls
	// Isolate is the isolate the object lives in; nil for any.
	Isolate *int

	Scope Scope
	Cause Cause // not for WholeProcess
	// Probability of each chance, over 0 to 1; 0 means 1.
	Probability float64
	// Skip lets so many chances pass first.
	Skip int
	// Times is how often it strikes before it is forgotten; 0 means once, negative
	// without end.
	Times int
	// Hold is how long the object stands still at the point before it is struck:
	// nothing leaves it. At most MaxHold.
	Hold time.Duration
}

// MaxHold bounds Strike.Hold: longer, and the watchdog would come first.
const MaxHold = 25 * time.Second

// Moment is an object's coming to a point.
type Moment struct {
	Point        Point
	ID           storage.ID
	Method, Tool string
}

// Armed is a strike that waits.
type Armed struct {
	Strike
	Number int   // by which it is taken back
	Struck int64 // how often it has struck
}

// Random draws numbers of at least 0 and less than 1.
type Random interface{ Float64() float64 }

// Chaos provokes resets on purpose. Without strikes a point costs one atomic load.
type Chaos struct {
	h      *Host
	random Random
	armed  atomic.Int64

	mu      sync.Mutex
	strikes []*Armed
	last    int
}

// Chaos is the host's.
func (h *Host) Chaos() *Chaos { return &h.chaos }

// Validate says what is wrong with a strike.
func (s *Strike) Validate() error {
	switch {
	case s.Point == NoPoint || int(s.Point) >= len(points):
		return fmt.Errorf("a strike needs a point: one of %q", points[1:])
	case s.Probability < 0 || s.Probability > 1 || s.Probability != s.Probability:
		return fmt.Errorf("the probability %v is not between 0 and 1", s.Probability)
	case s.Hold < 0 || s.Hold > MaxHold:
		return fmt.Errorf("an object can be held from 0 to %v, not %v", MaxHold, s.Hold)
	case s.Skip < 0:
		return fmt.Errorf("%d chances can't be skipped", s.Skip)
	case s.Scope != WholeProcess && !s.Cause.Reset():
		return errors.New("a strike needs the cause of a reset")
	}
	return nil
}

// Arm sets a strike, and returns the number by which it is taken back.
func (c *Chaos) Arm(s Strike) (int, error) {
	if err := s.Validate(); err != nil {
		return 0, err
	}
	switch {
	case s.Scope == WholeProcess && c.h.o.Kill == nil:
		return 0, errors.New("this host can't end its process: Options.Kill is not set")
	case s.Isolate != nil && (*s.Isolate < 0 || *s.Isolate >= len(c.h.isolates)):
		return 0, c.h.noIsolate(*s.Isolate)
	}
	if s.Probability == 0 {
		s.Probability = 1
	}
	if s.Times == 0 {
		s.Times = 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.strikes = append(c.strikes, &Armed{Strike: s, Number: c.last})
	c.armed.Store(int64(len(c.strikes)))
	return c.last, nil
}

// Disarm takes a strike back, and reports whether it was still there.
func (c *Chaos) Disarm(number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.strikes)
	c.strikes = slices.DeleteFunc(c.strikes, func(a *Armed) bool { return a.Number == number })
	c.armed.Store(int64(len(c.strikes)))
	return len(c.strikes) < n
}

// Armed lists the strikes that wait, oldest first.
func (c *Chaos) Armed() []Armed {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Armed, len(c.strikes))
	for i, a := range c.strikes {
		all[i] = *a
	}
	return all
}

// Waits tells whether any strike is armed.
func (c *Chaos) Waits() bool { return c.armed.Load() > 0 }

// At tells that an object has come to a point, and strikes it if that is due. When
// it returns, a reset has happened.
func (c *Chaos) At(m Moment) {
	if !c.Waits() {
		return
	}
	if s := c.due(m); s != nil {
		c.strike(m, s)
	}
}

// due finds the strike whose turn it is.
func (c *Chaos) due(m Moment) *Strike {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.strikes {
		if !a.wants(m, c.h) {
			continue
		}
		if a.Skip > 0 {
			a.Skip--
			continue
		}
		if a.Probability < 1 && c.random.Float64() >= a.Probability {
			continue
		}
		a.Struck++
		if a.Times > 0 && a.Struck >= int64(a.Times) {
			c.strikes = slices.Delete(c.strikes, i, i+1)
			c.armed.Store(int64(len(c.strikes)))
		}
		s := a.Strike
		return &s
	}
	return nil
}

func (s *Strike) wants(m Moment, h *Host) bool {
	fits := func(want, is string) bool { return want == "" || want == is }
	return s.Point == m.Point && fits(s.Class, m.ID.Class) && fits(s.Name, m.ID.Name) && fits(s.Method, m.Method) && fits(s.Tool, m.Tool) &&
		(s.Isolate == nil || *s.Isolate == h.IsolateOf(m.ID))
}

func (c *Chaos) strike(m Moment, s *Strike) {
	inc := c.h.dir.incarnation(m.ID)
	// Who was reset while it was held is not struck any more, nor is who came after it.
	still := func() {
		if c.h.dir.incarnation(m.ID) == inc {
			c.hit(m, s)
		}
	}
	switch {
	case s.Hold == 0:
		c.hit(m, s)
	case m.Point == BeforeCommit || m.Point == BeforeFlush || inc == nil:
		// On a goroutine that nobody else waits for.
		over := c.h.o.Runner.Signal()
		c.h.o.Clock.AfterFunc(s.Hold, over.Set)
		over.Wait()
		still()
	default:
		inc.gate.freeze()
		c.h.o.Clock.AfterFunc(s.Hold, still)
	}
}

func (c *Chaos) hit(m Moment, s *Strike) {
	h := c.h
	h.meters.strike(s)
	h.log.Warn("chaos strikes", "point", m.Point.String(), "object", m.ID.String(), "scope", s.Scope.String(), "cause", s.Cause.String(), "method", m.Method, "tool", m.Tool)
	switch s.Scope {
	case OneObject:
		h.Reset(m.ID, s.Cause, nil)
	case WholeIsolate:
		h.isolateOf(m.ID).reset(s.Cause, nil)
	case WholeProcess:
		h.o.Kill()
	}
}
