package gosdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Sent is a message that a runtime has sent, and the request it said it belongs to.
type Sent struct {
	wire.Message
	About wire.ID
}

// session is the mcp.Session of a Host's runtime.
type session struct{ h *Host }

func (s *session) ID() string               { return s.h.o.ID }
func (s *session) Server() string           { return "test" }
func (s *session) Principal() mcp.Principal { return mcp.Principal{} }
func (s *session) Epoch() uint64            { return 1 }
func (s *session) State() mcp.State         { return s.h.o.State }
func (s *session) Logger() *slog.Logger     { return s.h.o.Logger }

func (s *session) Handshake() mcp.Handshake {
	return mcp.Handshake{ProtocolVersion: s.h.o.ProtocolVersion, Initialize: s.h.initialize()}
}

func (s *session) Send(ctx context.Context, m wire.Message, about wire.ID) error {
	if s.h.o.Send != nil {
		if err := s.h.o.Send(ctx, m, about); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// What the host would do: parse what goes over the wire.
	if _, err := wire.Parse(m.Bytes()); err != nil {
		s.h.t.Errorf("the runtime sent %s: %v", m, err)
	}
	s.h.mu.Lock()
	s.h.sent = append(s.h.sent, Sent{m, about})
	close(s.h.more)
	s.h.more = make(chan struct{})
	s.h.mu.Unlock()
	if m.Kind() == wire.Request && s.h.o.Answer != nil {
		if answer := s.h.o.Answer(m); !answer.IsZero() {
			go s.h.Deliver(answer)
		}
	}
	return nil
}

func (s *session) Exited(err error) { s.h.exited <- err }

func (s *session) Charge(bytes int64) (func(), error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.o.Budget > 0 && s.h.charged+bytes > s.h.o.Budget {
		return nil, fmt.Errorf("%d bytes do not fit: %d of %d are taken", bytes, s.h.charged, s.h.o.Budget)
	}
	s.h.charged += bytes
	return sync.OnceFunc(func() {
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		s.h.charged -= bytes
	}), nil
}

func (h *Host) initialize() json.RawMessage {
	b, err := json.Marshal(map[string]any{
		"protocolVersion": h.o.ProtocolVersion,
		"capabilities":    h.o.Capabilities,
		"clientInfo":      map[string]any{"name": "gosdktest", "version": "1"},
	})
	if err != nil {
		panic(err)
	}
	return b
}
