package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

func (a *api) arm(w http.ResponseWriter, r *http.Request) (any, error) {
	ask, err := read[Strike](w, r)
	if err != nil {
		return nil, err
	}
	s, err := a.strike(r.Context(), &ask)
	if err != nil {
		return nil, err
	}
	number, err := a.o.Host.Chaos().Arm(s)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Text: err.Error(), Err: err}
	}
	a.o.Logger.Warn("a strike was armed", "number", number, "point", s.Point.String(), "scope", s.Scope.String(), "cause", s.Cause.String())
	return armed(actor.Armed{Strike: s, Number: number}), nil
}

// strike checks a strike and puts it into the terms of package actor.
func (a *api) strike(ctx context.Context, ask *Strike) (s actor.Strike, err error) {
	s = actor.Strike{Class: ask.Class, Name: ask.Name, Isolate: ask.Isolate, Method: ask.Method, Tool: ask.Tool, Skip: ask.Skip, Times: 1, Probability: 1}
	if s.Point, err = actor.ParsePoint(ask.Point); err != nil {
		text := strconv.Quote(ask.Point) + " is not a point"
		if ask.Point == "" {
			text = "is missing"
		}
		return s, wrong("point", "one of "+join(actor.Points()), "%s", text)
	}
	if ask.Scope != "" {
		if s.Scope, err = actor.ParseScope(ask.Scope); err != nil {
			return s, wrong("scope", "one of "+join(actor.Scopes()), "%q is not a scope", ask.Scope)
		}
	}
	switch {
	case s.Scope != actor.WholeProcess:
		if s.Cause, err = causeOf(ask.Cause); err != nil {
			return s, err
		}
	case ask.Cause != "":
		return s, wrong("cause", "leave it out, or choose the scope object or isolate", "a process that ends at once, as by kill -9, has no cause")
	}
	if ask.Probability != nil {
		if s.Probability = *ask.Probability; s.Probability <= 0 || s.Probability > 1 {
			return s, wrong("probability", "more than 0, and 1 at most", "%v is not a chance", s.Probability)
		}
	}
	if s.Skip < 0 {
		return s, wrong("skip", "0 or more", "%d chances can't pass", s.Skip)
	}
	if ask.Times != nil {
		if s.Times = *ask.Times; s.Times == 0 || s.Times < -1 {
			return s, wrong("times", "1 or more, or -1: without end", "a strike can't happen %d times", s.Times)
		}
	}
	if ask.Hold != "" {
		if s.Hold, err = time.ParseDuration(ask.Hold); err != nil || s.Hold < 0 || s.Hold > actor.MaxHold {
			return s, wrong("hold", "such as 200ms; "+actor.MaxHold.String()+" at most", "%q is not a time to hold an object for", ask.Hold)
		}
	}
	if ask.Tool != "" && ask.Method != "" && ask.Method != "tools/call" {
		return s, wrong("method", "leave it out: a tool is called by tools/call", "%s calls no tool", ask.Method)
	}
	return s, a.filter(ctx, ask.Target, &s)
}

// filter checks the objects that a strike is for: what can't exist would never be
// struck, and nobody would be told.
func (a *api) filter(ctx context.Context, t Target, s *actor.Strike) error {
	if t.Session != "" {
		if t.Class != "" || t.Name != "" {
			return wrong("session", "give --session ID, or --class CLASS and --name NAME", "names an object, and something else does too")
		}
		s.Class, s.Name = session.Class, t.Session
		if err := a.checkSession(ctx, t.Session); err != nil {
			return err
		}
	}
	if t.Class != "" {
		if err := a.checkClass(t.Class); err != nil {
			return err
		}
	}
	if t.Isolate != nil {
		return a.checkIsolate(*t.Isolate)
	}
	return nil
}

func (a *api) strikes(http.ResponseWriter, *http.Request) (any, error) {
	all := Strikes{Strikes: []Armed{}}
	for _, s := range a.o.Host.Chaos().Armed() {
		all.Strikes = append(all.Strikes, armed(s))
	}
	return all, nil
}

// armed puts a strike into the terms of the API.
func armed(a actor.Armed) Armed {
	s := Strike{
		Point: a.Point.String(), Target: Target{Class: a.Class, Name: a.Name, Isolate: a.Isolate}, Method: a.Method, Tool: a.Tool,
		Scope: a.Scope.String(), Cause: a.Cause.String(), Probability: &a.Probability, Skip: a.Skip, Times: &a.Times,
	}
	if s.Class == session.Class && s.Name != "" {
		s.Session, s.Class, s.Name = s.Name, "", ""
	}
	if a.Hold > 0 {
		s.Hold = a.Hold.String()
	}
	return Armed{Number: a.Number, Struck: a.Struck, Strike: s}
}

func (a *api) disarm(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil {
		return nil, wrong("number", "kalpa chaos list shows them", "%q is not the number of a strike", r.PathValue("number"))
	}
	if !a.o.Host.Chaos().Disarm(n) {
		return nil, notFound("kalpa chaos list shows those that wait; one that has struck as often as it should is gone", "there is no strike %d", n)
	}
	return Disarmed{1}, nil
}

func (a *api) disarmAll(http.ResponseWriter, *http.Request) (any, error) {
	n := 0
	for _, s := range a.o.Host.Chaos().Armed() {
		if a.o.Host.Chaos().Disarm(s.Number) {
			n++
		}
	}
	return Disarmed{n}, nil
}
