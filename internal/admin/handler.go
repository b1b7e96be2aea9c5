package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Options are what the listener serves. All are required but Token.
type Options struct {
	Host     *actor.Host
	Sessions *session.Service
	// Logger takes what was done, for others who run the same host.
	Logger *slog.Logger
	// Health answers GET /healthz, for anybody; Metrics GET /metrics.
	Health, Metrics http.Handler
	// Token is what requests must bear. Empty: none; then only a loopback address or
	// a unix socket may be served.
	Token string
}

// New makes the handler of the admin listener.
func New(o Options) http.Handler {
	a := &api{o}
	mux := http.NewServeMux()
	mux.Handle("/healthz", methods{http.MethodGet: o.Health})
	mux.Handle("/metrics", methods{http.MethodGet: o.Metrics})
	mux.Handle("/v1/reset", methods{http.MethodPost: a.json(a.reset)})
	mux.Handle("/v1/chaos", methods{http.MethodPost: a.json(a.arm), http.MethodGet: a.json(a.strikes), http.MethodDelete: a.json(a.disarmAll)})
	mux.Handle("/v1/chaos/{number}", methods{http.MethodDelete: a.json(a.disarm)})
	mux.Handle("/v1/isolates", methods{http.MethodGet: a.json(a.isolates)})
	mux.Handle("/v1/sessions", methods{http.MethodGet: a.json(a.sessions)})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, notFound("docs/chaos.md lists what there is", "there is nothing at %s", r.URL.Path))
	})
	return guard(o.Token, mux)
}

type api struct{ o Options }

// methods are the handlers of one path.
type methods map[string]http.Handler

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	h, ok := m[method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
		w.Header().Set("Allow", allowed)
		write(w, &Error{Status: http.StatusMethodNotAllowed, Text: fmt.Sprintf("%s takes no %s", r.URL.Path, r.Method), Hint: "it takes " + allowed})
		return
	}
	h.ServeHTTP(w, r)
}

// json is a handler that answers with a value, or with an *Error.
func (a *api) json(serve func(http.ResponseWriter, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := serve(w, r)
		if err == nil {
			write(w, v)
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			a.o.Logger.Error("the admin API could not answer", "method", r.Method, "path", r.URL.Path, "error", err)
			e = &Error{Status: http.StatusInternalServerError, Text: err.Error()}
		}
		write(w, e)
	})
}

// write answers with a value or an *Error.
func write(w http.ResponseWriter, v any) {
	status := http.StatusOK
	if e, bad := v.(*Error); bad {
		status = e.Status
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone; the types are this package's
}
