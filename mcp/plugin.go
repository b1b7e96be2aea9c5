package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// Plugin builds the runtimes of a server's sessions: one runtime a session, when
// the session needs one. It is called from many goroutines.
type Plugin interface {
	// Build makes a runtime that answers the session's messages. It returns when
	// the runtime can take messages, or with an error that a client may see. The
	// session then sends the recorded handshake itself: initialize comes through
	// Deliver like any other request. ctx ends when the build takes too long or the
	// session goes; it does not bound the runtime's life.
	Build(ctx context.Context, s Session) (Runtime, error)
}

// PluginFunc is a function as a Plugin.
type PluginFunc func(ctx context.Context, s Session) (Runtime, error)

func (f PluginFunc) Build(ctx context.Context, s Session) (Runtime, error) { return f(ctx, s) }

// Runtime is an MCP server at work for one session.
type Runtime interface {
	// Deliver hands over one message of the client's. It returns when the message is
	// accepted, not when it is answered, and may block while the runtime is busy
	// taking others: the session calls it from one goroutine, in order. Requests
	// carry ids and progress tokens of the host's, unique in this runtime.
	Deliver(ctx context.Context, m wire.Message) error
	// Close ends the runtime and frees all that it holds; it returns when that is
	// done (a child process: reaped, with its group). It may be called more than
	// once, and after Exited.
	Close(ctx context.Context) error
}

// Session is what a runtime sees of the session it works for. Its methods may be
// called from any goroutine, until Close has returned.
type Session interface {
	// ID is the session's id, as in the Mcp-Session-Id header.
	ID() string
	// Server is the name under which the server is hosted.
	Server() string
	// Principal is who opened the session.
	Principal() Principal
	// Epoch is the incarnation's number; it grows with every activation.
	Epoch() uint64
	// Handshake is what the client said when it opened the session.
	Handshake() Handshake
	// Send passes a message on to the client. about is the id of the delivered
	// request that it belongs to (a progress report, a request of the runtime's in
	// the middle of a tool call), empty when that is not known. Send blocks while
	// too much is waiting, and fails with ErrReset when the session has gone on
	// without this runtime.
	Send(ctx context.Context, m wire.Message, about wire.ID) error
	// Exited reports that the runtime has ended by itself. What it owes is answered
	// with an error; the next request builds anew. The error's text may reach the
	// client.
	Exited(err error)
	// Charge accounts for memory that the runtime keeps, in bytes, on the isolate's
	// heap. release gives it back; what is still charged when the runtime has been
	// closed is given back then. What does not fit waits while the isolate reclaims
	// runtimes that nobody needs, and resets the isolate where that can't help. It fails
	// with ErrReset when the session has gone on without this runtime.
	Charge(bytes int64) (release func(), err error)
	// State is the session's durable key-value space.
	State() State
	// Logger logs with the session's attributes.
	Logger() *slog.Logger
}

// StreamCloser is what a Session may also be: CloseStream ends the HTTP response
// that carries the stream of a delivered request, before the answer; the client
// comes back for it after retry. It does nothing where the client's protocol
// revision knows no way to come back.
type StreamCloser interface {
	CloseStream(ctx context.Context, about wire.ID, retry time.Duration) error
}

// State is a durable key-value space that outlives runtimes, resets and restarts
// and ends with the session. A change is durable before anything that the
// runtime sends after it reaches the client.
type State interface {
	// Get returns nil for a key that is not there.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error
	// Update replaces a value by what f makes of it, atomically (nil in: not there;
	// nil out: delete). f must be quick and must not call the State.
	Update(ctx context.Context, key string, f func(old []byte) ([]byte, error)) error
}

// Principal is the caller that a session belongs to.
type Principal struct {
	// Subject identifies the caller; empty where the host asks for no credentials.
	Subject string `json:"subject,omitempty"`
}

// Handshake is the recorded opening of a session.
type Handshake struct {
	// ProtocolVersion is what the two sides agreed on; empty before initialize has
	// been answered.
	ProtocolVersion string
	// Initialize is the params of the client's initialize, as raw JSON.
	Initialize json.RawMessage
}

var registry struct {
	sync.Mutex
	plugins map[string]Plugin
}

// Register makes a plugin known under a name that a configuration can use. It
// panics when the name is taken; call it from main or init.
func Register(name string, p Plugin) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.plugins[name]; taken || name == "" || p == nil {
		panic(fmt.Sprintf("mcp: plugin %q can't be registered: the name is empty or taken, or the plugin is nil", name))
	}
	if registry.plugins == nil {
		registry.plugins = map[string]Plugin{}
	}
	registry.plugins[name] = p
}

// Lookup finds a registered plugin.
func Lookup(name string) (Plugin, bool) {
	registry.Lock()
	defer registry.Unlock()
	p, ok := registry.plugins[name]
	return p, ok
}

// Registered lists the names of the registered plugins, sorted.
func Registered() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.plugins))
}
