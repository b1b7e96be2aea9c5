package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Each revision that has sessions, as a client of that time speaks it.
func TestEveryRevisionIsServed(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]hosting{"a child process": {command: fake()}, "the demo": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, o)
			for _, v := range []string{v2024, vMar, vJun, vNov} {
				t.Run(v, func(t *testing.T) {
					c := newClient(t, h.url)
					m := c.connect(v)
					if got := decode[struct{ ProtocolVersion string }](t, m.Result).ProtocolVersion; got != v {
						t.Fatalf("the host agrees on %s, want %s", got, v)
					}
					// The header came with 2025-06-18; without it, what was agreed on holds.
					for _, header := range []string{"", v} {
						c.version = header
						frames := c.post(call("1", "echo", `{"text":"hi"}`)).all()
						if got := answers(t, frames); len(got) != 1 || got[0].Text() != "hi" {
							t.Errorf("echo: %q", raws(frames))
						}
						primed := frames[0].primes()
						for _, f := range frames[1:] {
							if f.data == "" && !f.comment {
								t.Errorf("an event without data within a stream: %q", f.raw)
							}
						}
						if primed != (v == vNov) {
							t.Errorf("the stream begins with %q: an event without data is for %s and nobody else", frames[0].raw, vNov)
						}
					}
					x := c.get("")
					c.post(call("2", "echo", `{"text":"hi"}`)).result()
					x.close()

					c.version = v
					batch := c.post(fmt.Sprintf("[%s,%s,%s]", call("3", "echo", `{"text":"three"}`), notification("notifications/roots/list_changed"), call(`"4"`, "echo", `{"text":"four"}`)))
					if v != vMar {
						if batch.status != http.StatusBadRequest {
							t.Errorf("a batch: status %d: %s", batch.status, batch.body())
						}
						return
					}
					got := map[string]string{}
					frames := batch.all()
					for _, m := range answers(t, frames) {
						got[string(m.ID)] = m.Text()
					}
					if len(got) != 2 || got["3"] != "three" || got[`"4"`] != "four" {
						t.Errorf("a batch brings %q", raws(frames))
					}
					c.tell("[" + notification("notifications/roots/list_changed") + "]")
				})
			}
		})
	}
}

// A client of a time to come is offered the newest revision that is served.
func TestUnknownRevisionIsNegotiated(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{})
	c := newClient(t, h.url)
	m := c.post(initializeRequest("2031-01-01")).result()
	if got := decode[struct{ ProtocolVersion string }](t, m.Result).ProtocolVersion; got != vNov {
		t.Errorf("the host agrees on %s, want %s", got, vNov)
	}
	// One of the era without sessions is told so in its own way, and falls back.
	x := c.do(http.MethodPost, request(`"p"`, "server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`),
		map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"})
	body := x.body()
	m = parse(t, body)
	if x.status != http.StatusBadRequest || m.Error == nil || m.Error.Code != -32022 || !strings.Contains(body, vNov) {
		t.Errorf("a probe of the modern era: status %d: %s", x.status, body)
	}
}
