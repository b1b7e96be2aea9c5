package session

import (
	"bytes"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"weak"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// A session that rests keeps nothing of requests that were answered and delivered: there
// are many of them in memory.
func TestASessionAtRestKeepsNothingOfWhatItHasAnswered(t *testing.T) {
	b := newBench(t)
	b.do(&Flushed{Socket: b.sockets1(t), Event: b.last("init")})
	b.post("note", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	var rows []weak.Pointer[owed]
	var streams []weak.Pointer[stream]
	for i := range 3 {
		name := fmt.Sprint("s", i)
		sock := b.call(name, fmt.Sprint(i+1))
		rows, streams = append(rows, weak.Make(b.live[0])), append(streams, weak.Make(b.streams["p"+name]))
		b.answer(b.rt.gen, b.rt.next, `{}`)
		b.do(&Flushed{Socket: sock, Event: b.last(name)})
	}
	b.do(tidy{})
	b.out = out{}
	if n := len(b.streams) + len(b.sockets) + len(b.live) + len(b.behind) + len(b.rt.rows) + len(b.rt.own); n != 0 {
		t.Fatalf("%d things are left", n)
	}
	if b.streams != nil || b.sockets != nil || b.live != nil || b.behind != nil || b.rt.rows != nil || b.rt.own != nil || b.asks != nil || b.subs != nil {
		t.Error("what holds nothing is kept")
	}
	goruntime.GC()
	for i := range rows {
		if rows[i].Value() != nil {
			t.Errorf("the row of call %d is still in memory", i)
		}
		if streams[i].Value() != nil {
			t.Errorf("the stream of call %d is still in memory", i)
		}
	}
	// And it goes on from there.
	sock := b.call("again", "9")
	b.answer(b.rt.gen, b.rt.next, `{"again":true}`)
	if b.has(pushes(sock, `"again":true`)) < 0 {
		t.Errorf("a call after that: %v", b.out.effects)
	}
	goruntime.KeepAlive(b)
}

// sockets1 is the one socket that is open.
func (b *bench) sockets1(t *testing.T) *Socket {
	t.Helper()
	for sock := range b.sockets {
		return sock
	}
	t.Fatal("no socket is open")
	return nil
}

// last is the last event of a POST's stream.
func (b *bench) last(name string) string { return b.streams["p"+name].last.String() }

func TestWhatManySaySameIsKeptOnce(t *testing.T) {
	var s said
	body := []byte(`{"id":1,"params":{"clientInfo":{"name":"c"}}}`)
	part := body[17 : len(body)-1]
	first := s.same(part)
	if !bytes.Equal(first, part) || &first[0] == &part[0] {
		t.Errorf("%s: kept as a part of what it came in", first)
	}
	if second := s.same(bytes.Clone(part)); &second[0] != &first[0] {
		t.Error("it is kept twice")
	}
	for i := range 3 * len(s.last) {
		other := []byte(fmt.Sprint("other ", i))
		if got := s.same(other); !bytes.Equal(got, other) {
			t.Errorf("%s for %s", got, other)
		}
	}
	large := []byte(strings.Repeat("x", maxSaid+1))
	if got := s.same(large); &got[0] != &large[0] {
		t.Error("something large is kept")
	}
	if s.same(nil) != nil || s.same(wire.Message{}.Bytes()) != nil {
		t.Error("nothing is something")
	}
}
