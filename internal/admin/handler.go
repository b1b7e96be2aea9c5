package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// Options are what the listener serves. Host, Sessions, Logger and Health are required.
type Options struct {
	Host     *actor.Host
	Sessions *session.Service
	// Store is the host's, for backups and figures. Nil: there are none.
	Store *pebble.Store
	// Logger takes what was done, for others who run the same host.
	Logger *slog.Logger
	// Health answers GET /healthz, and Ready GET /readyz, for anybody; Metrics GET
	// /metrics.
	Health, Ready, Metrics http.Handler
	// Draining tells whether the host is about to end.
	Draining func() bool
	// About is what the host is.
	About About
	// Servers tells how the servers fare. Nil: nobody knows, and their names are those of
	// About.
	Servers func() []Server
	// Console answers at ConsolePaths, to browsers that bear no token: it has no data, and
	// asks the API for them with a token that a person gives. Nil: there is none.
	Console http.Handler
	// Token is what requests must bear. Empty: none; then only a loopback address or
	// a unix socket may be served.
	Token string
	// Now tells the time. Nil: the system's.
	Now func() time.Time
}

// API is the handler of the admin listener. Close it when the host has ended.
type API struct {
	http.Handler
	a    *api
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// New makes the handler, and hears of what happens on the host from then on.
func New(o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.About.Servers == nil {
		o.About.Servers = []Hosted{}
	}
	a := &api{o: o, now: o.Now, started: o.Now()}
	a.feed, a.figures.began = newFeed(o.Now), a.started
	a.feed.isolateOf = func(id string) int { return o.Host.IsolateOf(session.ObjectOf(id)) }
	a.watch()
	s := &API{a: a, quit: make(chan struct{})}
	s.done.Go(func() { a.sampling(s.quit) })
	s.Handler = guard(o.Token, a.routes())
	return s
}

// Close lets those go who follow the events, and stops to take samples.
func (s *API) Close() {
	s.once.Do(func() { close(s.quit) })
	s.a.feed.end()
	s.done.Wait()
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, h http.Handler) {
		if h != nil {
			mux.Handle(path, methods{http.MethodGet: h})
		}
	}
	get("/healthz", a.o.Health)
	get("/readyz", a.o.Ready)
	get("/metrics", a.o.Metrics)
	get("/v1/overview", a.json(a.overview))
	get("/v1/events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.feed.serve(w, r); err != nil {
			a.fail(w, r, err)
		}
	}))
	get("/v1/servers", a.json(a.servers))
	get("/v1/activity", a.json(a.activity))
	get("/v1/isolates", a.json(a.isolates))
	get("/v1/sessions", a.json(a.sessions))
	mux.Handle("/v1/sessions/{id}", methods{http.MethodGet: a.json(a.session), http.MethodDelete: a.json(a.endSession)})
	mux.Handle("/v1/sessions/{id}/dispose", methods{http.MethodPost: a.json(a.dispose)})
	get("/v1/classes", a.json(a.classes))
	get("/v1/objects", a.json(a.objects))
	mux.Handle("/v1/object", methods{http.MethodGet: a.json(a.objectDetail), http.MethodDelete: a.json(a.remove)})
	get("/v1/object/export", http.HandlerFunc(a.export))
	mux.Handle("/v1/object/import", methods{http.MethodPost: a.json(a.importObject)})
	get("/v1/alarms", a.json(a.alarms))
	get("/v1/backup", http.HandlerFunc(a.backup))
	mux.Handle("/v1/reset", methods{http.MethodPost: a.json(a.reset)})
	mux.Handle("/v1/chaos", methods{http.MethodPost: a.json(a.arm), http.MethodGet: a.json(a.strikes), http.MethodDelete: a.json(a.disarmAll)})
	mux.Handle("/v1/chaos/{number}", methods{http.MethodDelete: a.json(a.disarm)})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	// Not pprof.Cmdline: what is behind serve -- may hold secrets.
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	for _, path := range ConsolePaths {
		get(path, a.o.Console)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, notFound("docs/operating.md lists what there is", "there is nothing at %s", r.URL.Path))
	})
	return mux
}

type api struct {
	o       Options
	now     func() time.Time
	started time.Time
	feed    *feed
	figures figures
	diary   diary
	// backingUp is held by the one backup that is under way.
	backingUp sync.Mutex
}

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
		if err != nil {
			a.fail(w, r, err)
			return
		}
		write(w, v)
	})
}

// fail answers with an error.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		if r.Context().Err() == nil { // else who asked has left, as the console does when it wants something else
			a.o.Logger.Error("the admin API could not answer", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		e = &Error{Status: http.StatusInternalServerError, Text: err.Error()}
	}
	write(w, e)
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
