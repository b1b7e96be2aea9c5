package gosdk

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// runtime is one session's connection to a server. It is the [mcp.Runtime] toward
// the host and the [sdk.Connection] toward the SDK, and owns one goroutine, the
// SDK's reader.
type runtime struct {
	session mcp.Session
	server  *sdk.ServerSession
	direct  bool // tool calls go in as toolCall, and initialize as carrier
	begun   bool // there was an initialize
	// init is the initialize that is on its way to the middleware.
	init *sdk.InitializeParams

	// ctx carries the runtime, so that all contexts of its handlers do, and ends
	// with the connection; its cause says why.
	ctx context.Context
	end context.CancelCauseFunc
	in  chan jsonrpc.Message

	closing atomic.Bool   // the host has called Close
	idle    chan struct{} // closed when the SDK has ended the connection: no handler runs
	ended   sync.Once
}

// errEnded is why a connection ends that neither the host nor a failed send has ended.
var errEnded = errors.New("the server closed its connection")

// connect connects a server to a session. values outlives its own cancellation.
func connect(values context.Context, server *sdk.Server, s mcp.Session) (*runtime, error) {
	r := &runtime{session: s, direct: prepare(server), in: make(chan jsonrpc.Message), idle: make(chan struct{})}
	r.ctx, r.end = context.WithCancelCause(context.WithValue(context.WithoutCancel(values), sessionKey{}, r))
	ss, err := server.Connect(r.ctx, transport{r}, nil)
	if err != nil {
		r.end(err)
		return nil, err
	}
	r.server = ss
	return r, nil
}

// Deliver implements [mcp.Runtime].
func (r *runtime) Deliver(ctx context.Context, m wire.Message) error {
	msg, err := r.decode(m)
	if err != nil {
		return err
	}
	select {
	case r.in <- msg:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [mcp.Runtime]. When ctx ends before the handlers have returned,
// they are abandoned, and ctx's error is returned.
func (r *runtime) Close(ctx context.Context) error {
	r.closing.Store(true)
	// The reader ends on this, and with it the SDK cancels the handlers and the
	// calls that wait for the client.
	r.end(mcp.ErrReset)
	select {
	case <-r.idle:
		_ = r.server.Close() // stops its keep-alive; there is nothing left to wait for
		return nil
	default:
	}
	select {
	case <-r.idle:
		_ = r.server.Close()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transport hands a runtime to [sdk.Server.Connect].
type transport struct{ r *runtime }

func (t transport) Connect(context.Context) (sdk.Connection, error) { return (*connection)(t.r), nil }

// connection is a runtime as the SDK sees it.
type connection runtime

// SessionID implements [sdk.Connection]: it is what ServerSession.ID returns.
func (c *connection) SessionID() string { return c.session.ID() }

// Read implements [sdk.Connection].
func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.ctx.Done():
		if !c.closing.Load() {
			c.session.Exited(context.Cause(c.ctx))
		}
		return nil, io.EOF
	}
}

// Write implements [sdk.Connection].
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	msg, err := encode(m)
	if err != nil {
		return err
	}
	return (*runtime)(c).send(ctx, msg)
}

// Close implements [sdk.Connection]. The SDK calls it when the connection is to end
// and no handler runs any more.
func (c *connection) Close() error {
	c.ended.Do(func() {
		c.end(errEnded)
		close(c.idle)
	})
	return nil
}

// send passes a message on to the client. A message that can't be sent ends the
// connection, unless it is for the reason that its own context has ended.
func (r *runtime) send(ctx context.Context, m wire.Message) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	about := aboutFrom(ctx)
	if ctx.Done() == nil {
		ctx = r.ctx // a response, or nobody waits
	} else {
		bound, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		ctx = bound
	}
	err := r.session.Send(ctx, m, about)
	if err != nil && ctx.Err() == nil {
		r.end(err)
	}
	return err
}
