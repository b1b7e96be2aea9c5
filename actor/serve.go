package actor

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/storage"
)

// ObjectsPath is where [Host.Handler] has the objects.
const ObjectsPath = "/objects/"

// Serve has hosts serve the class's objects over HTTP, to whoever reaches
// [Host.Handler]: see [Stub.ServeHTTP]. It returns the class, and panics if its *T is
// no [http.Handler].
func (c *Class[T]) Serve() *Class[T] {
	if _, ok := any((*T)(nil)).(http.Handler); !ok {
		panic(fmt.Sprintf("actor: class %q can't be served: *%T has no method ServeHTTP", c.name, *new(T)))
	}
	c.served = true
	return c
}

// Served are the names of the classes that Handler serves, sorted.
func (h *Host) Served() []string { return slices.Sorted(maps.Keys(h.served)) }

// Handler serves /objects/CLASS/NAME/... for the classes that ask for it with
// [Class.Serve]. Objects see the path below their own, which begins with a slash;
// class and name are path segments, a slash in one of them is %2F.
//
// It lets everybody in: who may call what is up to the handler that it is put
// behind, and to the objects.
func (h *Host) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, below, err := addressed(r.URL)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		case !h.served[id.Class]:
			http.Error(w, fmt.Sprintf("There is no class %.100q here: a program registers it, and asks for its objects to be served.", id.Class), http.StatusNotFound)
			return
		}
		h.Stub(id).pass(w, r, below)
	})
}

// addressed takes an address apart: class and name, and the address as the object
// sees it.
func addressed(u *url.URL) (id storage.ID, below *url.URL, err error) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), ObjectsPath)
	class, rest, _ := strings.Cut(rest, "/")
	name, rest, _ := strings.Cut(rest, "/")
	if !ok || class == "" || name == "" {
		return id, nil, fmt.Errorf("An object's address is %sCLASS/NAME/.", ObjectsPath) //nolint:revive,staticcheck // a sentence for people
	}
	at := *u
	at.RawPath = "/" + rest
	for _, part := range []struct {
		into *string
		raw  string
	}{{&id.Class, class}, {&id.Name, name}, {&at.Path, at.RawPath}} {
		if *part.into, err = url.PathUnescape(part.raw); err != nil {
			return id, nil, err
		}
	}
	if err := id.Validate(); err != nil {
		return id, nil, fmt.Errorf("That is not the name of an object: %w", err) //nolint:staticcheck // as above
	}
	return id, &at, nil
}

// Stub returns a stub for another object of the host; see [Host.Stub].
func (s *State) Stub(id storage.ID) Stub { return s.inc.h.Stub(id) }
