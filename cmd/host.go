package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/guard"
	"github.com/kalpahost/kalpa/internal/telemetry"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/front"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/stdio"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// Limits of the HTTP side that belong to no server in particular. There is none
// for writing: a stream is one response, and the front bounds its silence.
const (
	readHeaderTimeout = 10 * time.Second
	idleConnection    = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// lastWords is how long the end waits for runtimes that should be gone.
const lastWords = 250 * time.Millisecond

// host is everything that serve runs, from the listener to the store.
type host struct {
	c   *config.Config
	log *slog.Logger
	// telemetry is where spans and metrics go.
	telemetry *telemetry.Telemetry
	store     *pebble.Store
	actors    *actor.Host
	sessions  *session.Service
	fronts    []*front.Front
	// children are the plugins that run commands.
	children []*stdio.Plugin

	listener net.Listener
	server   *http.Server
	admin    net.Listener // nil: none
	health   *http.Server
	api      *admin.API // nil: none
	draining atomic.Bool

	failed chan error // a listener that broke
}

// open brings a host up: it listens when open returns. On an error nothing is left
// running.
func open(c *config.Config, logger *slog.Logger) (*host, error) {
	h := &host{c: c, log: logger, failed: make(chan error, 2)}
	if err := h.start(); err != nil {
		h.abandon()
		return nil, err
	}
	return h, nil
}

func (h *host) start() (err error) {
	c, logger := h.c, h.log
	out, err := takenOut()
	if err != nil {
		return err
	}
	// The address first: clients that connect while the store is being opened wait
	// instead of being refused.
	if h.listener, err = listen(c.Listen, "--listen"); err != nil {
		return err
	}
	token := ""
	if c.Admin != "" {
		if token, err = adminToken(c.AdminTokenFile); err != nil {
			return err
		}
		if h.admin, err = listenAdmin(c.Admin); err != nil {
			return err
		}
	}
	if err = h.observe(); err != nil {
		return err
	}
	durability, err := storage.ParseDurability(c.Durability)
	if err != nil {
		return err
	}
	if h.store, err = pebble.Open(pebble.Options{Dir: c.Data, Durability: durability, Logger: logger, MeterProvider: h.telemetry.MeterProvider(), Contact: h.contact(), Committer: storage.CommitterOptions{Seams: out.Storage, Kill: kill}}); err != nil {
		return err
	}
	if h.actors, err = actor.NewHost(actor.Options{
		Store: h.store, Logger: logger, MeterProvider: h.telemetry.MeterProvider(), Kill: kill, Seams: out.Alarm,
		TracerProvider: h.telemetry.Traced(),
		Web:            actor.Web{OriginChecked: true}, // by guard
	}); err != nil {
		return err
	}
	for _, class := range registered() {
		class.Register(h.actors)
	}
	servers, err := h.servers(filepath.Join(c.Data, "run"))
	if err != nil {
		return err
	}
	h.sessions, err = session.NewService(h.actors, session.Options{
		Servers: servers, Logger: logger,
		TracerProvider: h.telemetry.TracerProvider(), MeterProvider: h.telemetry.MeterProvider(),
		Seams: out.Session,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, s := range servers {
		f, err := front.New(front.Options{
			Sessions: h.sessions, Server: s.Name, Logger: logger, At: h.sessions.At,
			AllowedHosts: c.AllowHosts, AllowedOrigins: c.AllowOrigins,
			TracerProvider: h.telemetry.TracerProvider(), MeterProvider: h.telemetry.MeterProvider(),
		})
		if err != nil {
			return &usageError{err: err}
		}
		h.fronts = append(h.fronts, f)
		for _, path := range h.paths(s.Name) {
			mux.Handle(path, f)
		}
	}
	if len(h.actors.Served()) > 0 {
		mux.Handle(actor.ObjectsPath, guard.Rules{Hosts: c.AllowHosts, Origins: c.AllowOrigins}.Handler(h.actors.Handler()))
	}
	mux.HandleFunc("/", h.nothing)
	if err := h.actors.Start(); err != nil {
		return err
	}
	h.server = h.serve(h.listener, mux)
	if h.admin != nil {
		h.api = admin.New(admin.Options{
			Host: h.actors, Sessions: h.sessions, Store: h.store, Logger: logger, About: h.about(),
			Health: http.HandlerFunc(h.healthz), Ready: http.HandlerFunc(h.readyz), Metrics: h.telemetry.Handler(),
			Draining: h.draining.Load, Token: token,
		})
		h.health = h.serve(h.admin, h.api)
	}
	return nil
}

// kill is kill -9: nothing is written, closed or answered any more.
func kill() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// servers turns the configured servers into those that sessions can run. run is
// the folder for the record of living children.
func (h *host) servers(run string) ([]session.Server, error) {
	run, err := filepath.Abs(run)
	if err != nil {
		return nil, err
	}
	if killed, err := stdio.Sweep(run, h.log); err != nil {
		h.log.Warn("what an earlier host left running could not be ended", "error", err)
	} else if killed > 0 {
		h.log.Warn("ended what an earlier host had left running", "processes", killed)
	}
	var servers []session.Server
	for _, s := range h.c.Servers {
		plugin, ok := mcp.Lookup(s.Plugin)
		if !ok {
			child := stdio.New(stdio.Config{
				Command: s.Command, Args: s.Args, Env: s.Env, Inherit: s.Inherit, Dir: s.Dir,
				RunDir: run, Logger: h.log.With("server", s.Name),
			})
			// Not the end of the host: the others may be fine, sessions can be reached
			// without a runtime, and what is missing may be installed while we run.
			if err := child.Check(); err != nil {
				attrs := []any{"server", s.Name, "error", err}
				if strings.ContainsAny(s.Command, " \t") {
					attrs = append(attrs, "hint", "the command is one word and no shell splits it: its arguments are words of their own after --, and args in a file")
				}
				h.log.Error("a server can't be started as things are", attrs...)
			}
			for _, name := range s.Inherit {
				if _, set := os.LookupEnv(name); !set && !strings.HasSuffix(name, "*") {
					h.log.Warn("a variable that is passed on to a server is not set here", "server", s.Name, "variable", name)
				}
			}
			h.children = append(h.children, child)
			plugin = child
		}
		servers = append(servers, session.Server{Name: s.Name, Plugin: plugin, Reexecute: session.Reexecute(s.Reexecute), Policy: session.Policy(s.Policy)})
	}
	return servers, nil
}

func listen(address, flag string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &hinted{fmt.Errorf("can't listen on %s: the address is in use", address), "another program has it, perhaps another kalpa: end that one, or choose another port with " + flag}
	case errors.Is(err, syscall.EACCES):
		return nil, &hinted{fmt.Errorf("can't listen on %s: not permitted", address), "ports below 1024 need a privilege: choose a higher one with " + flag}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, &hinted{fmt.Errorf("can't listen on %s: this machine does not have that address", address), "127.0.0.1 is this machine alone, 0.0.0.0 all its addresses"}
	case err != nil:
		return nil, fmt.Errorf("can't listen on %s: %w", address, err)
	}
	return l, nil
}

func (h *host) serve(l net.Listener, handler http.Handler) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleConnection,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	go func() { // ends with Shutdown or Close
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.failed <- fmt.Errorf("listening on %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// nothing answers at paths where no server is.
func (h *host) nothing(w http.ResponseWriter, _ *http.Request) {
	where := "There is no MCP server at this path: the one that is hosted is at /mcp."
	switch {
	case len(h.c.Servers) == 0:
		where = "There is nothing at this path."
	case !h.c.Single:
		where = "There is no MCP server at this path: those that are hosted are at /mcp/NAME."
	}
	if len(h.actors.Served()) > 0 {
		where += " Objects are at " + actor.ObjectsPath + "CLASS/NAME/."
	}
	http.Error(w, where, http.StatusNotFound)
}

func (h *host) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if h.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "draining")
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz is healthz for who asks whether to send requests: there is nothing in between,
// since the listener is served when the host is up.
func (h *host) readyz(w http.ResponseWriter, r *http.Request) { h.healthz(w, r) }

func (h *host) closeAPI() {
	if h.health != nil {
		_ = h.health.Close()
	}
	if h.api != nil {
		h.api.Close()
	}
}

// contact is how commands on this machine reach the host; empty: they can't.
func (h *host) contact() string {
	if h.admin == nil {
		return ""
	}
	if address, tcp := h.admin.Addr().(*net.TCPAddr); tcp {
		return reachable(address)
	}
	path, err := filepath.Abs(h.admin.Addr().String())
	if err != nil {
		return ""
	}
	return config.UnixSocket + path
}

// about is what the admin API says of the host.
func (h *host) about() admin.About {
	a := admin.About{Version: version(), PID: os.Getpid(), Data: h.store.Dir(), Durability: h.c.Durability}
	for _, s := range h.c.Servers {
		a.Servers = append(a.Servers, admin.Hosted{Name: s.Name, URL: h.url(s.Name), Runs: runs(s)})
	}
	return a
}

// reachable is the host and port under which this machine reaches a listener.
func reachable(address *net.TCPAddr) string {
	if address.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", address.Port)
	}
	return address.String()
}

// drain ends a host in order: nobody new comes in, open streams are parked, the
// runtimes are closed and what they owed is stored as lost, and the store is
// closed. What is not done within the time is cut off, which loses nothing that
// was acknowledged; an error means that the store could not be closed.
func (h *host) drain(limit time.Duration) error {
	h.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()

	// Streams park at once, but a client that does not read can hold its handler up:
	// half of the time is for them, at most.
	streams, cancelStreams := context.WithTimeout(ctx, limit/2)
	defer cancelStreams()
	var ending sync.WaitGroup
	for _, f := range h.fronts {
		ending.Go(func() { h.late("streams", f.Shutdown(streams)) })
	}
	ending.Go(func() {
		if h.server.Shutdown(streams) != nil {
			h.late("connections", h.server.Close())
		}
	})
	ending.Wait()

	h.late("sessions", h.actors.Shutdown(ctx))
	for _, p := range h.children {
		h.late("servers", p.Close(ctx))
	}
	// Runtimes that were cut off end by themselves; their spans should tell of it.
	gone, cancelGone := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancelGone()
	h.late("runtimes", h.sessions.Wait(gone))
	h.closeAPI()
	closed := make(chan error, 1)
	go func() { closed <- h.store.Close() }()
	h.telemetry.Shutdown(context.WithoutCancel(ctx)) // bounded by itself
	return <-closed
}

func (h *host) late(what string, err error) {
	if err != nil {
		h.log.Warn("cut off at the end of the drain time", "what", what, "error", err)
	}
}

// abandon gives back what a failed open has taken.
func (h *host) abandon() {
	h.closeAPI()
	for _, s := range []*http.Server{h.server, h.health} {
		if s != nil {
			_ = s.Close()
		}
	}
	for _, l := range []net.Listener{h.listener, h.admin} {
		if l != nil {
			_ = l.Close()
		}
	}
	if h.store != nil {
		_ = h.store.Close()
	}
	if h.telemetry != nil {
		h.telemetry.Shutdown(context.Background())
	}
}
