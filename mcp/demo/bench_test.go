package demo_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/demo"
	"github.com/kalpahost/kalpa/mcp/gosdk/gosdktest"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// sink is a session whose messages go to a channel.
type sink struct {
	sent  chan wire.Message
	state gosdktest.State
}

func (s *sink) ID() string               { return "bench" }
func (s *sink) Server() string           { return "demo" }
func (s *sink) Principal() mcp.Principal { return mcp.Principal{} }
func (s *sink) Epoch() uint64            { return 1 }
func (s *sink) Handshake() mcp.Handshake { return mcp.Handshake{ProtocolVersion: "2025-11-25"} }
func (s *sink) State() mcp.State         { return &s.state }
func (s *sink) Logger() *slog.Logger     { return slog.New(slog.DiscardHandler) }
func (s *sink) Exited(error)             {}

func (s *sink) Charge(int64) (func(), error) { return func() {}, nil }

func (s *sink) Send(_ context.Context, m wire.Message, _ wire.ID) error {
	s.sent <- m
	return nil
}

func open(b testing.TB, p mcp.Plugin) (*sink, mcp.Runtime) {
	b.Helper()
	s := &sink{sent: make(chan wire.Message, 1)}
	r, err := p.Build(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	deliver(b, r, wire.NewRequest("1", "initialize", []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)))
	<-s.sent
	deliver(b, r, wire.NewNotification("notifications/initialized", nil))
	return s, r
}

func deliver(b testing.TB, r mcp.Runtime, m wire.Message) {
	b.Helper()
	if err := r.Deliver(b.Context(), m); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAdd(b *testing.B) {
	s, r := open(b, demo.Plugin())
	defer r.Close(b.Context())
	m := wire.NewRequest("7", "tools/call", []byte(`{"name":"add","arguments":{"a":1,"b":2},"_meta":{"progressToken":7}}`))
	b.ReportAllocs()
	for b.Loop() {
		deliver(b, r, m)
		<-s.sent
	}
}

// BenchmarkSessionMemory reports what a session on the shared server keeps, heap and
// stack, after its handshake and a call.
func BenchmarkSessionMemory(b *testing.B) {
	const sessions = 2000
	p := demo.Plugin()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]mcp.Runtime, sessions)
		for i := range kept {
			var s *sink
			s, kept[i] = open(b, p)
			deliver(b, kept[i], wire.NewRequest("2", "tools/call", []byte(fmt.Sprintf(`{"name":"add","arguments":{"a":1,"b":%d}}`, i))))
			<-s.sent
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/sessions, "B/session")
		for _, r := range kept {
			if err := r.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
