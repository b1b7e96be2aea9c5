package front

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// DeadlineMargin is how much longer than the session's own ceiling a front waits
// for an answer, before it answers in the session's place. It covers the way in
// (OpeningLimit) and, should the session be reset at the last moment, the way to its
// next incarnation (AttachWait and AttachLimit).
const DeadlineMargin = time.Minute

// Options says what a [Front] serves and within which bounds. The zero value of
// every field but Sessions and Server stands for the default that its comment
// names.
type Options struct {
	// Sessions are the sessions behind the front. Required.
	Sessions session.Sessions
	// Server is the name under which the server is hosted. Required.
	Server string

	// AllowedHosts are the values of the Host header that are served, with or
	// without a port (without: any port); "*" allows all. On a connection to a
	// loopback address the loopback names are served in any case, and nothing else by
	// default; on other connections everything is served by default, and only the
	// list when there is one.
	AllowedHosts []string
	// AllowedOrigins are the Origin headers that are served besides the server's own
	// host ("https://app.example", "null"); "*" allows all. On a connection to a
	// loopback address, loopback origins are served as well.
	AllowedOrigins []string
	// Principal authenticates a request, before its body is read. Nil: every caller is
	// the anonymous principal.
	Principal func(*http.Request) (mcp.Principal, *Refusal)

	// JSON answers a request by one JSON document when its answer is the first that is
	// said about it, within KeepAlive; else, as without it, by a stream.
	JSON bool

	// MaxBody bounds the body of one POST, in bytes. Default 16 MiB.
	MaxBody int64
	// MaxBodies bounds the bodies that are held at once: those being read and those of
	// exchanges that are not over. Bodies larger than 64 KiB have three quarters of it, or
	// MaxBody if that is more, so that small ones find room. Default 512 MiB.
	MaxBodies int64
	// MaxBatch bounds the messages in one batch. Default 100.
	MaxBatch int
	// MaxStreams bounds the exchanges that are open at once: POSTs with requests, and
	// GETs. Default 10,000.
	MaxStreams int
	// Pending bounds what one stream holds for a client that reads slowly, in bytes;
	// beyond it the stream is parked. Default 8 MiB.
	Pending int

	// KeepAlive is the longest silence on a stream before a comment is written.
	// Default and maximum 25 s.
	KeepAlive time.Duration
	// Hold is how long the head of a POST's stream waits for what is said on it, be it an
	// event id, so that a quick answer goes out in one piece. Default 50 ms; negative: it
	// does not wait.
	Hold time.Duration
	// StreamAge is how long a GET stream lives before it is parked and the client has
	// to resume it. Default 30 min.
	StreamAge time.Duration
	// Retry is what the front tells clients to wait before they resume a stream that
	// the front has parked. Default 1 s.
	Retry time.Duration
	// OpeningLimit is how long a session may take to say what becomes of a request.
	// Default 15 s.
	OpeningLimit time.Duration
	// AttachLimit is how long, after the reset of a session, its next incarnation may
	// take to adopt an exchange. Default 750 ms.
	AttachLimit time.Duration
	// MaxAttaching bounds the exchanges that look for a next incarnation at once; the
	// others wait for their turn. Default 256.
	MaxAttaching int
	// AttachWait is how long an exchange may wait for its turn to attach. Default 15 s.
	AttachWait time.Duration
	// BodyLimit is how long a client may take to send a body. Default 30 s.
	BodyLimit time.Duration
	// WriteLimit is how long a write of at most 64 KiB may block on a client that does
	// not read, before the exchange is cut. Default 30 s.
	WriteLimit time.Duration

	// At is told that an answer is about to be written, for resets that are provoked on
	// purpose; request is what it answers, zero on a GET stream. Nil: nobody is.
	At func(p actor.Point, session string, request wire.Message)

	// Clock is the time that all of these but BodyLimit and WriteLimit run on; those
	// two belong to the network. Nil: the system's.
	Clock clock.Clock
	// Runner is how handlers wait. Nil: as Go does.
	Runner run.Runner
	// Text mints the ids of sessions and streams: 26 random characters, 130 bits.
	// Nil: [rand.Text].
	Text func() string
	// TracerProvider takes the spans of requests. Nil: OpenTelemetry's global one. That of
	// the noop package makes none, at no cost.
	TracerProvider trace.TracerProvider
	// MeterProvider takes the figures of [Front.Stats], for as long as it lives. Nil:
	// nobody does.
	MeterProvider metric.MeterProvider
	// Logger takes what an operator wants to know. Nil: [slog.Default].
	Logger *slog.Logger
}

// MaxKeepAlive is the longest silence that the proxies in front of real
// deployments tolerate, with some room.
const MaxKeepAlive = 25 * time.Second

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	set(&o.MaxBody, 16<<20)
	set(&o.MaxBodies, 512<<20)
	set(&o.MaxBatch, 100)
	set(&o.MaxStreams, 10_000)
	set(&o.Pending, session.DefaultPending)
	set(&o.KeepAlive, MaxKeepAlive)
	set(&o.Hold, 50*time.Millisecond)
	set(&o.StreamAge, 30*time.Minute)
	set(&o.Retry, time.Second)
	set(&o.OpeningLimit, 15*time.Second)
	set(&o.AttachLimit, 750*time.Millisecond)
	set(&o.MaxAttaching, 256)
	set(&o.AttachWait, 15*time.Second)
	set(&o.BodyLimit, 30*time.Second)
	set(&o.WriteLimit, 30*time.Second)
	if o.Clock == nil {
		o.Clock = clock.Real
	}
	if o.Runner == nil {
		o.Runner = run.Real
	}
	if o.Text == nil {
		o.Text = rand.Text
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports all that is wrong with the options at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if o.Sessions == nil {
		bad("Sessions is missing")
	}
	if o.Server == "" {
		bad("Server is missing: the name under which the server is hosted")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"MaxBody", o.MaxBody}, {"MaxBodies", o.MaxBodies}, {"MaxBatch", int64(o.MaxBatch)},
		{"MaxStreams", int64(o.MaxStreams)}, {"Pending", int64(o.Pending)},
		{"KeepAlive", int64(o.KeepAlive)}, {"StreamAge", int64(o.StreamAge)}, {"Retry", int64(o.Retry)},
		{"OpeningLimit", int64(o.OpeningLimit)}, {"AttachLimit", int64(o.AttachLimit)},
		{"MaxAttaching", int64(o.MaxAttaching)}, {"AttachWait", int64(o.AttachWait)},
		{"BodyLimit", int64(o.BodyLimit)}, {"WriteLimit", int64(o.WriteLimit)},
	} {
		if n.value < 0 {
			bad("%s is negative", n.name)
		}
	}
	if o.KeepAlive > MaxKeepAlive {
		bad("KeepAlive is %v, more than %v: proxies would cut quiet streams", o.KeepAlive, MaxKeepAlive)
	}
	if o.MaxBodies < o.MaxBody {
		bad("MaxBodies (%d) is less than MaxBody (%d): no body of that size could ever be read", o.MaxBodies, o.MaxBody)
	}
	for _, h := range o.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/ \t") {
			bad("AllowedHosts: %q is not a host name or address, with or without a port", h)
		}
	}
	for _, s := range o.AllowedOrigins {
		if s == "*" || s == "null" {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			bad("AllowedOrigins: %q is not an origin such as https://app.example", s)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("front: %w", errors.Join(errs...))
}
