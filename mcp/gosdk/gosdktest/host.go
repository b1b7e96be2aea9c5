package gosdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Patience is how long a Host waits for anything before it fails the test.
const Patience = 10 * time.Second

// Options says how the host, the session and its client are. The zero Options are
// good for most tests.
type Options struct {
	ID              string         // of the session; "test"
	ProtocolVersion string         // "2025-11-25"
	Capabilities    map[string]any // of the client
	State           *State         // of the session; an empty one
	Budget          int64          // bytes that can be charged; 0 is no limit
	Logger          *slog.Logger   // discards
	// Answer is the client: it answers the runtime's requests, or not (the zero
	// Message).
	Answer func(wire.Message) wire.Message
	// Send is asked before a message is accepted; its error is the runtime's.
	Send func(ctx context.Context, m wire.Message, about wire.ID) error
}

// Host is a session with a runtime, and its client. Its methods may be called from
// several goroutines.
type Host struct {
	Runtime mcp.Runtime

	t       testing.TB
	o       Options
	mu      sync.Mutex
	next    int
	sent    []Sent
	more    chan struct{} // closed when sent grows
	charged int64
	exited  chan error
}

// Start builds a runtime, sends it the handshake, and closes it when the test ends.
func Start(t testing.TB, p mcp.Plugin, o Options) *Host {
	t.Helper()
	h, err := Build(t, p, o)
	if err != nil {
		t.Fatalf("building the runtime: %v", err)
	}
	t.Cleanup(h.Close)
	if m := h.Do("initialize", h.initialize()); m.IsError() {
		t.Fatalf("initialize: %s", m)
	}
	h.Deliver(wire.NewNotification("notifications/initialized", nil))
	return h
}

// Build builds a runtime and does no more.
func Build(t testing.TB, p mcp.Plugin, o Options) (*Host, error) {
	t.Helper()
	if o.ID == "" {
		o.ID = "test"
	}
	if o.ProtocolVersion == "" {
		o.ProtocolVersion = "2025-11-25"
	}
	if o.Capabilities == nil {
		o.Capabilities = map[string]any{}
	}
	if o.State == nil {
		o.State = new(State)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{t: t, o: o, more: make(chan struct{}), exited: make(chan error, 1)}
	var err error
	h.Runtime, err = p.Build(t.Context(), &session{h})
	return h, err
}

// Close closes the runtime and fails the test when that takes too long.
func (h *Host) Close() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := h.Runtime.Close(ctx); err != nil {
		h.t.Errorf("closing the runtime: %v", err)
	}
}

// Deliver hands over a message.
func (h *Host) Deliver(m wire.Message) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := h.Runtime.Deliver(ctx, m); err != nil && !errors.Is(err, mcp.ErrReset) {
		h.t.Errorf("delivering %s: %v", m, err)
	}
}

// Go sends a request and returns its id. params are marshalled, unless nil.
func (h *Host) Go(method string, params any) wire.ID {
	h.t.Helper()
	id := h.nextID()
	h.Deliver(wire.NewRequest(id, method, marshal(params)))
	return id
}

func (h *Host) nextID() wire.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return wire.ID(strconv.Itoa(h.next))
}

// Do sends a request and returns the answer.
func (h *Host) Do(method string, params any) wire.Message {
	h.t.Helper()
	return h.Answer(h.Go(method, params))
}

// Notify sends a notification.
func (h *Host) Notify(method string, params any) {
	h.t.Helper()
	h.Deliver(wire.NewNotification(method, marshal(params)))
}

// GoCall calls a tool and returns the request's id. The request carries a progress
// token, which is "p" and the id.
func (h *Host) GoCall(tool string, arguments any) wire.ID {
	h.t.Helper()
	id := h.nextID()
	h.Deliver(wire.NewRequest(id, "tools/call", marshal(map[string]any{
		"name": tool, "arguments": arguments, "_meta": map[string]any{"progressToken": "p" + string(id)},
	})))
	return id
}

// Call calls a tool and returns its result; an error response fails the test.
func (h *Host) Call(tool string, arguments any) Result {
	h.t.Helper()
	return h.Result(h.GoCall(tool, arguments))
}

// Result waits for a tool's result; an error response fails the test.
func (h *Host) Result(id wire.ID) Result {
	h.t.Helper()
	m := h.Answer(id)
	if m.IsError() {
		h.t.Fatalf("request %s: %s", id, m.Error())
	}
	var r Result
	if err := json.Unmarshal(m.Result(), &r); err != nil {
		h.t.Fatalf("request %s: %v in %s", id, err, m)
	}
	return r
}

// Answer waits for the response to a request.
func (h *Host) Answer(id wire.ID) wire.Message {
	h.t.Helper()
	return h.Wait(fmt.Sprintf("the response to %s", id), func(s Sent) bool {
		return s.Kind() == wire.Response && s.ID() == id
	}).Message
}

// Wait waits for a message that is wanted, among all that were sent; what names it.
func (h *Host) Wait(what string, wanted func(Sent) bool) Sent {
	h.t.Helper()
	timeout := time.After(Patience)
	for from := 0; ; {
		h.mu.Lock()
		sent, more := h.sent, h.more
		h.mu.Unlock()
		for _, s := range sent[from:] {
			if wanted(s) {
				return s
			}
		}
		from = len(sent)
		select {
		case <-more:
		case <-timeout:
			h.t.Fatalf("no %s after %v; sent so far: %v", what, Patience, sent)
		}
	}
}

// Sent returns all messages that were sent so far.
func (h *Host) Sent() []Sent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.sent)
}

// Charged is what the runtime has charged and not released, in bytes.
func (h *Host) Charged() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.charged
}

// Exited receives the error with which the runtime has ended by itself.
func (h *Host) Exited() <-chan error { return h.exited }

// Result is a tool's result.
type Result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

// Text is the text of the first content, "" when there is none.
func (r Result) Text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

func (r Result) String() string {
	if r.IsError {
		return "error: " + r.Text()
	}
	return r.Text()
}

func marshal(params any) []byte {
	if params == nil {
		return nil
	}
	b, err := json.Marshal(params)
	if err != nil {
		panic(err)
	}
	return b
}
