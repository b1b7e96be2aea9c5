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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/auth"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/conn"
	"github.com/kalpahost/kalpa/internal/console"
	"github.com/kalpahost/kalpa/internal/guard"
	"github.com/kalpahost/kalpa/internal/limit"
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
	// live is the configuration that counts now; c is that of the start.
	live atomic.Pointer[config.Config]
	// level is that of the log lines.
	level *slog.LevelVar
	mux   *http.ServeMux
	door  *door
	// fronts by server, and children: the plugins that run commands. What a reload no
	// longer has is kept for the sessions that there are.
	fronts   map[string]*front.Front
	children map[string]*child
	counting context.CancelFunc // ends the count of sessions
	counted  chan struct{}      // closed when it has ended

	run      string     // the folder for the record of living children
	changing sync.Mutex // held while fronts and children change

	listener    net.Listener
	connections *limit.Listener
	certificate *certificate // nil: no TLS
	server      *http.Server
	admin       net.Listener // nil: none
	health      *http.Server
	api         atomic.Pointer[admin.API] // nil: none, or not yet
	phase       atomic.Int32              // a phase

	failed chan error // a listener that broke
}

// open brings a host up: it listens when open returns. On an error nothing is left
// running.
func open(c *config.Config, logger *slog.Logger, level *slog.LevelVar) (*host, error) {
	h := &host{
		c: c, log: logger, level: level, failed: make(chan error, 2), mux: http.NewServeMux(), door: newDoor(logger),
		fronts: map[string]*front.Front{}, children: map[string]*child{},
	}
	h.live.Store(c)
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
	h.connections = limit.NewListener(conn.NewListener(h.listener), h.mostConnections(c.MaxConnections))
	who, err := authenticator(c.Auth)
	if err != nil {
		return err
	}
	h.door.configure(c, who)
	if c.TLS.Cert != "" {
		pair, seen, err := loadCertificate(c.TLS)
		if err != nil {
			return err
		}
		h.certificate = &certificate{log: logger}
		h.certificate.use(c.TLS, pair, seen)
	}
	token := ""
	if c.Admin != "" {
		if token, err = adminToken(c.AdminTokenFile); err != nil {
			return err
		}
		if h.admin, err = listenAdmin(c.Admin); err != nil {
			return err
		}
		h.health = h.serve(h.admin, h.serveAdmin(admin.Early(admin.Options{Health: http.HandlerFunc(h.healthz), Ready: http.HandlerFunc(h.readyz), Token: token})))
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
	h.phase.Store(int32(isStarting))
	if h.actors, err = actor.NewHost(actor.Options{
		Store: h.store, Isolates: c.Isolates, HeapLimit: heapOf(c), SoftLimit: softOf(c), Logger: logger, MeterProvider: h.telemetry.MeterProvider(), Kill: kill, Seams: out.Alarm, Version: codeVersion(),
		TracerProvider: h.telemetry.Traced(),
		Web:            actor.Web{OriginChecked: true}, // by guard
	}); err != nil {
		return err
	}
	for _, class := range registered() {
		class.Register(h.actors)
	}
	if h.run, err = filepath.Abs(runFolder(c.Data)); err != nil {
		return err
	}
	if killed, err := stdio.Sweep(h.run, h.log); err != nil {
		h.log.Warn("what an earlier host left running could not be ended", "error", err)
	} else if killed > 0 {
		h.log.Warn("ended what an earlier host had left running", "processes", killed)
	}
	servers := h.servers(c)
	h.sessions, err = session.NewService(h.actors, session.Options{
		Servers: servers, Logger: logger,
		TracerProvider: h.telemetry.Traced(), MeterProvider: h.telemetry.MeterProvider(),
		Seams: out.Session,
	})
	if err != nil {
		return err
	}
	for _, s := range c.Servers {
		if err := h.mount(c, s); err != nil {
			return &usageError{err: err}
		}
	}
	if len(h.actors.Served()) > 0 {
		objects := h.door.before(h.actors.Handler())
		h.mux.HandleFunc(actor.ObjectsPath, func(w http.ResponseWriter, r *http.Request) {
			now := h.config()
			guard.Rules{Hosts: now.AllowHosts, Origins: now.AllowOrigins}.Handler(objects).ServeHTTP(w, r)
		})
	}
	h.mux.HandleFunc(auth.MetadataPath, h.metadata)
	h.mux.HandleFunc(auth.MetadataPath+"/", h.metadata)
	h.mux.HandleFunc("/", h.nothing)
	if err := h.actors.Start(); err != nil {
		return err
	}
	var counting context.Context
	counting, h.counting = context.WithCancel(context.Background())
	h.counted = make(chan struct{})
	go func() { // ends with h.counting
		defer close(h.counted)
		h.sessions.Census(counting)
	}()
	h.server = h.serve(h.connections, h.mux)
	h.phase.Store(int32(isServing))
	if h.admin != nil {
		h.api.Store(admin.New(admin.Options{
			Host: h.actors, Sessions: h.sessions, Store: h.store, Logger: logger, About: h.about(),
			Health: http.HandlerFunc(h.healthz), Ready: http.HandlerFunc(h.readyz), Metrics: h.telemetry.Handler(),
			Draining: func() bool { return phase(h.phase.Load()) == isDraining }, Token: token, Servers: h.fares, Console: console.Handler(),
		}))
	}
	return nil
}

// runFolder keeps the record of living children.
func runFolder(data string) string { return filepath.Join(data, "run") }

// kill is kill -9: nothing is written, closed or answered any more.
func kill() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// servers turns the configured servers into those that sessions can run.
func (h *host) servers(c *config.Config) []session.Server {
	var servers []session.Server
	for _, s := range c.Servers {
		server := serverOf(s)
		var ok bool
		if server.Plugin, ok = mcp.Lookup(s.Plugin); !ok {
			server.Plugin = h.child(s)
		}
		servers = append(servers, server)
	}
	return servers
}

// child is the plugin that runs a server's command, made or changed to what the
// configuration says.
func (h *host) child(s config.Server) *stdio.Plugin {
	known := h.children[s.Name]
	if known != nil && same(known.as, s) {
		return known.Plugin
	}
	o := started(s)
	o.RunDir, o.Logger = h.run, h.log.With("server", s.Name)
	if known == nil {
		known = &child{Plugin: stdio.New(o)}
		h.children[s.Name] = known
	} else if err := known.Configure(o); err != nil {
		h.log.Error("a server can't be changed", "server", s.Name, "error", err)
	}
	known.as = s
	// Not the end of the host: the others may be fine, sessions can be reached without a
	// runtime, and what is missing may be installed while we run.
	if err := known.Check(); err != nil {
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
	return known.Plugin
}

// started is how a server that is a command is started.
func started(s config.Server) stdio.Config {
	return stdio.Config{
		Command: s.Command, Args: s.Args, Env: s.Env, Inherit: s.Inherit, Dir: s.Dir, MaxLine: int(s.MaxMessage), CrashLimit: s.CrashLimit,
		Limits: stdio.Limits{Memory: s.MaxMemory, CPU: max(s.MaxCPU, 0), Processes: s.MaxProcesses, Files: s.MaxFiles},
	}
}

// child is a server that is a command.
type child struct {
	*stdio.Plugin
	as config.Server // what it was configured with last
}

// limitsOf is what the front of a server keeps.
func (h *host) limitsOf(c *config.Config, s config.Server) front.Options {
	return front.Options{
		Sessions: h.sessions, Server: s.Name, AllowedHosts: c.AllowHosts, AllowedOrigins: c.AllowOrigins,
		MaxBody: s.MaxMessage, MaxBodies: max(maxBodies, s.MaxMessage), MaxStreams: s.MaxStreams, JSON: s.Response == "json",
	}
}

// maxBodies bounds the bodies of one server's requests, in bytes.
const maxBodies = 512 << 20

// mount serves a server at its paths, or changes what its front keeps.
func (h *host) mount(c *config.Config, s config.Server) error {
	o := h.limitsOf(c, s)
	if f := h.fronts[s.Name]; f != nil {
		return f.Configure(front.Limits{AllowedHosts: o.AllowedHosts, AllowedOrigins: o.AllowedOrigins, MaxBody: o.MaxBody, MaxStreams: o.MaxStreams, JSON: o.JSON})
	}
	o.Logger, o.At, o.Principal = h.log, h.sessions.At, h.door.principal(h.path(s.Name))
	o.TracerProvider, o.MeterProvider = h.telemetry.Traced(), h.telemetry.MeterProvider()
	f, err := front.New(o)
	if err != nil {
		return err
	}
	h.fronts[s.Name] = f
	for _, path := range h.paths(s.Name) {
		h.mux.Handle(path, f)
	}
	return nil
}

// metadata says where callers get tokens from.
func (h *host) metadata(w http.ResponseWriter, r *http.Request) {
	a := h.door.auth.Load()
	if a == nil {
		http.Error(w, "This host asks for no credentials.", http.StatusNotFound)
		return
	}
	c := h.config()
	if why := (guard.Rules{Hosts: c.AllowHosts}).Host(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	a.Metadata(func(path string) bool {
		return slices.ContainsFunc(c.Servers, func(s config.Server) bool { return slices.Contains(h.paths(s.Name), path) })
	}).ServeHTTP(w, r)
}

// config is the configuration that counts now.
func (h *host) config() *config.Config { return h.live.Load() }

// heapOf is the budget of one isolate, in bytes; 0: the actor's default.
func heapOf(c *config.Config) int64 {
	if c.Heap > 0 {
		return c.Heap
	}
	return max(machineMemory()/4*3/int64(c.Isolates), 128<<20)
}

// softOf is where an isolate begins to reclaim, in bytes; 0: the actor's default,
// negative: it does not.
func softOf(c *config.Config) int64 {
	if c.Reclaim {
		return 0
	}
	return -1
}

// Files that are not for connections: the store's, and the pipes of children.
const otherFiles = 1024

// mostConnections is what the system has room for of the connections that are wanted.
func (h *host) mostConnections(wanted int) int {
	most := wanted
	if n := grantedFiles(); n < uint64(wanted)+otherFiles {
		most = int(max(n-min(n/2, otherFiles), 16))
		h.log.Warn("the system grants this process too few open files for max_connections", "open_files", n, "max_connections", wanted, "now", most)
	}
	return most
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
	serve := s.Serve
	if l == net.Listener(h.connections) {
		s.ConnState = h.connections.ConnState
		if h.certificate != nil {
			s.TLSConfig = h.certificate.config()
			serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
	}
	go func() { // ends with Shutdown or Close
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.failed <- fmt.Errorf("listening on %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// nothing answers at paths where no server is.
func (h *host) nothing(w http.ResponseWriter, _ *http.Request) {
	where := "There is no MCP server at this path: the one that is hosted is at /mcp."
	switch {
	case len(h.config().Servers) == 0:
		where = "There is nothing at this path."
	case !h.c.Single:
		where = "There is no MCP server at this path: those that are hosted are at /mcp/NAME."
	}
	if len(h.actors.Served()) > 0 {
		where += " Objects are at " + actor.ObjectsPath + "CLASS/NAME/."
	}
	http.Error(w, where, http.StatusNotFound)
}

func (h *host) closeAPI() {
	if h.health != nil {
		_ = h.health.Close()
	}
	if api := h.api.Load(); api != nil {
		api.Close()
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
	for _, s := range h.config().Servers {
		a.Servers = append(a.Servers, h.hosted(s))
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
	h.phase.Store(int32(isDraining))
	h.counting()
	<-h.counted
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
	if h.counting != nil {
		h.counting()
		<-h.counted
	}
	if h.store != nil {
		_ = h.store.Close()
	}
	if h.telemetry != nil {
		h.telemetry.Shutdown(context.Background())
	}
}
