package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

func (a *api) reset(w http.ResponseWriter, r *http.Request) (any, error) {
	ask, err := read[Reset](w, r)
	if err != nil {
		return nil, err
	}
	cause, err := causeOf(ask.Cause)
	if err != nil {
		return nil, err
	}
	var reason error
	if ask.Reason != "" {
		reason = errors.New(ask.Reason)
	}
	done := &WasReset{Target: ask.Target, Cause: cause.String()}
	if n := ask.Isolate; n != nil && ask.Session == "" && ask.Class == "" && ask.Name == "" {
		if err := a.checkIsolate(*n); err != nil {
			return nil, err
		}
		a.o.Logger.Warn("a reset was asked for", "isolate", *n, "cause", cause.String(), "reason", ask.Reason)
		done.Objects, err = a.o.Host.ResetIsolate(*n, cause, reason)
		return done, err
	}
	id, err := a.object(r.Context(), ask.Target)
	if err != nil {
		return nil, err
	}
	a.o.Logger.Warn("a reset was asked for", "object", id.String(), "cause", cause.String(), "reason", ask.Reason)
	if done.Epoch = a.o.Host.Reset(id, cause, reason); done.Epoch == 0 {
		return nil, notFound("it is in memory from its next request on; a strike waits for that: kalpa chaos arm",
			"nothing to reset: %s is at rest", describe(id))
	}
	n := a.o.Host.IsolateOf(id)
	done.Isolate, done.Objects = &n, 1
	return done, nil
}

// object is the one object that a target names.
func (a *api) object(ctx context.Context, t Target) (storage.ID, error) {
	const hint = "name one target: --session ID, --class CLASS with --name NAME, or --isolate NUMBER"
	bad := func(text string) (storage.ID, error) {
		return storage.ID{}, &Error{Status: http.StatusBadRequest, Text: text, Hint: hint}
	}
	switch {
	case t.Isolate != nil:
		return bad("isolate: names a target, and something else does too")
	case t.Session != "" && (t.Class != "" || t.Name != ""):
		return bad("session: names a target, and something else does too")
	case t.Session != "":
		return session.ObjectOf(t.Session), a.checkSession(ctx, t.Session)
	case t.Class == "" && t.Name == "":
		return bad("no target is named")
	case t.Class == "":
		return bad("class: is missing, and name is given")
	case t.Name == "":
		return bad("name: is missing, and class is given")
	}
	id := storage.ID{Class: t.Class, Name: t.Name}
	if err := a.checkClass(t.Class); err != nil {
		return id, err
	}
	if err := id.Validate(); err != nil {
		return id, wrong("name", "", "%v", err)
	}
	return id, nil
}

func (a *api) checkIsolate(n int) error {
	if last := a.o.Host.Isolates() - 1; n < 0 || n > last {
		return wrong("isolate", "kalpa isolates list shows them", "there is no isolate %d; this host has 0 to %d", n, last)
	}
	return nil
}

func (a *api) checkClass(class string) error {
	known := a.o.Host.Classes()
	if slices.Contains(known, class) {
		return nil
	}
	return wrong("class", "one of "+strings.Join(known, ", "), "%q is no class of this host", class)
}

func (a *api) checkSession(ctx context.Context, id string) error {
	_, err := a.o.Sessions.Look(ctx, id)
	if errors.Is(err, session.ErrUnknown) {
		return notFound("kalpa sessions list shows them; the id is what the client sends as Mcp-Session-Id", "session: there is no session %q", id)
	}
	return err
}

// describe names an object in the words in which it was asked for.
func describe(id storage.ID) string {
	if id.Class == session.Class {
		return "session " + id.Name
	}
	return id.String()
}

// causeOf finds a cause by its name; without one it is that of a deliberate reset.
func causeOf(name string) (actor.Cause, error) {
	if name == "" {
		return actor.Aborted, nil
	}
	c, err := actor.ParseCause(name)
	if err != nil {
		return c, wrong("cause", "one of "+join(actor.Causes()), "%q is not a cause of resets", name)
	}
	return c, nil
}

func join[T interface{ String() string }](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	return strings.Join(names, ", ")
}
