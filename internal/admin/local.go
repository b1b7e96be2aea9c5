package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Local serves an API to this process alone, and returns its client: for a store that
// no host has open, so that what can be asked of a host can be asked of a store, by
// the same code. Close it before the API.
type Local struct {
	*Client
	server *http.Server
	pipes  *pipes
}

// NewLocal serves s. Nobody is asked for a token: only this process can ask.
func NewLocal(s *API) *Local {
	l := &Local{pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	l.server = &http.Server{Handler: s.a.routes()} //nolint:gosec // no time-outs: the client is this process
	go func() { _ = l.server.Serve(l.pipes) }()    // ends with Close
	l.Client = &Client{address: "the store", base: "http://kalpa", http: &http.Client{Transport: &http.Transport{DialContext: l.pipes.dial}}}
	return l
}

// Close ends the service.
func (l *Local) Close() error {
	l.http.CloseIdleConnections()
	return l.server.Close()
}

// pipes is a listener whose connections never leave the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "kalpa", Net: "unix"} }
