package gosdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
)

// Func returns the server that answers a session: a new one, or one that it has
// returned before. It is called from many goroutines. Its ctx ends when building
// takes too long; the Session may be kept as long as the server works for it.
type Func func(ctx context.Context, s mcp.Session) (*sdk.Server, error)

// DefaultMemory is what a runtime is charged with on its isolate's heap, in bytes. A
// session on a shared server keeps 6 kB (BenchmarkSessionMemory of package demo); the
// rest is for what its calls need while they run.
const DefaultMemory = 16 << 10

// Option changes how a plugin hosts its servers.
type Option func(*plugin)

// WithMemory sets what each runtime is charged with on its isolate's heap, in bytes
// ([DefaultMemory] without it): Go can't measure it, so say it when a session's
// server keeps much. A handler charges what it keeps beyond that with Session.Charge.
func WithMemory(bytes int64) Option { return func(p *plugin) { p.memory = bytes } }

// Plugin hosts the servers that f returns.
func Plugin(f Func, options ...Option) mcp.Plugin {
	p := &plugin{f: f, memory: DefaultMemory}
	for _, o := range options {
		o(p)
	}
	return p
}

type plugin struct {
	f      Func
	memory int64
}

// Build implements [mcp.Plugin].
func (p *plugin) Build(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
	release, err := s.Charge(p.memory)
	if err != nil {
		return nil, err
	}
	server, err := p.server(ctx, s)
	if err != nil {
		release()
		return nil, err
	}
	r, err := connect(ctx, server, s)
	if err != nil {
		release()
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return r, nil
}

// server calls f and survives its panic.
func (p *plugin) server(ctx context.Context, s mcp.Session) (server *sdk.Server, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.Logger().Error("building a server panicked", "panic", v, "stack", string(debug.Stack()))
			server, err = nil, errors.New("building the server panicked")
		}
	}()
	server, err = p.f(ctx, s)
	if err == nil && server == nil {
		err = errors.New("the plugin returned no server")
	}
	return server, err
}

type sessionKey struct{}

// SessionFrom returns the session that a handler's context belongs to, nil when ctx
// is not a handler's.
func SessionFrom(ctx context.Context) mcp.Session {
	if r := runtimeFrom(ctx); r != nil {
		return r.session
	}
	return nil
}

func runtimeFrom(ctx context.Context) *runtime {
	r, _ := ctx.Value(sessionKey{}).(*runtime)
	return r
}
