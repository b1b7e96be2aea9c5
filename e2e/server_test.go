package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What real servers do on stdout besides MCP is no reason to fail.
func TestOddServersAreHosted(t *testing.T) {
	t.Parallel()
	t.Run("a banner", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{command: fake("-banner")})
		c := h.session()
		if got := c.post(call("1", "echo", `{"text":"hi"}`)).result().Text(); got != "hi" {
			t.Errorf("echo: %q", got)
		}
		if !strings.Contains(h.stderr.String(), "ready to serve") {
			t.Errorf("the banner is not in the log:\n%s", h.stderr)
		}
	})
	t.Run("notifications before initialize is answered", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{command: fake("-early")})
		c := h.session()
		if got := c.post(call("1", "echo", `{"text":"hi"}`)).result().Text(); got != "hi" {
			t.Errorf("echo: %q", got)
		}
		// They are kept for the first stream that may carry them.
		x := c.get("")
		var got []string
		for range 2 {
			f, ok := x.within(5 * time.Second)
			if !ok {
				break
			}
			got = append(got, parse(t, f.data).Method)
		}
		if fmt.Sprint(got) != "[notifications/message notifications/tools/list_changed]" {
			t.Errorf("the GET stream brings %v", got)
		}
	})
	t.Run("a request of its own while nobody listens", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{command: fake("-roots")})
		c := h.session()
		f, ok := c.get("").within(5 * time.Second)
		if m := parse(t, f.data); !ok || m.Method != "roots/list" || m.ID == nil {
			t.Errorf("the GET stream brings %q", f.data)
		}
	})
	t.Run("a line of 10 MB", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{command: fake()})
		c := h.session()
		const size = 10 << 20
		if got := c.post(call("1", "big", fmt.Sprintf(`{"bytes":%d}`, size))).result().Text(); got != strings.Repeat("x", size) {
			t.Errorf("%d bytes came, want %d", len(got), size)
		}
		text := strings.Repeat("y", size)
		if got := c.post(call("2", "echo", fmt.Sprintf(`{"text":%q}`, text))).result().Text(); got != text {
			t.Errorf("%d bytes came back, want %d", len(got), size)
		}
	})
	t.Run("a small environment", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{
			command: fake(), env: []string{"E2E_SECRET=hidden", "E2E_PASSED=on"},
			flags: []string{"--env", "E2E_PASSED", "--env", "E2E_SET=here"},
		})
		c := h.session()
		for name, want := range map[string]string{"E2E_SECRET": "", "E2E_PASSED": "on", "E2E_SET": "here"} {
			if got := c.post(call("1", "env", fmt.Sprintf(`{"name":%q}`, name))).result().Text(); got != want {
				t.Errorf("%s is %q in the server, want %q", name, got, want)
			}
		}
	})
}

// A server that dies in mid-call answers what it owed, with its last words, and the
// next request starts another that knows what the first was told.
func TestServerThatDiesInMidCallIsReplaced(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	c.post(request("1", "resources/subscribe", `{"uri":"fake://a"}`)).result()
	waiting := c.post(call(`"other"`, "wait", `{"ms":60000}`))
	start := time.Now()
	for _, x := range []*exchange{c.post(call(`"dies"`, "die", `{}`)), waiting} {
		m := x.answer()
		if m.Error == nil || m.Error.Code != -32010 {
			t.Fatalf("%s: no lost execution: %s %+v", m.ID, m.Result, m.Error)
		}
		if all := m.Error.Message + string(m.Error.Data); !strings.Contains(all, "these are my last words") {
			t.Errorf("%s: the last words are not in the error: %s", m.ID, all)
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the errors took %v", took)
	}
	if got := c.post(call("2", "echo", `{"text":"again"}`)).result().Text(); got != "again" {
		t.Errorf("the next call: %q", got)
	}
	if starts, told := log.starts(), len(log.entries("resources/subscribe")); starts != 2 || told != 2 {
		t.Errorf("%d servers were started and told of the subscription %d times, want 2 and 2", starts, told)
	}
}

// What the server asks of the client in a call goes on the stream of that call, and
// the answer comes in a POST of its own.
func TestServersAskTheClientInMidCall(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{command: fake()})
	c := h.session()
	for _, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list"} {
		x := c.post(call("1", "ask", fmt.Sprintf(`{"method":%q}`, method)))
		f, ok := x.next()
		if !ok {
			t.Fatalf("%s: the stream ends without a request", method)
		}
		ask := parse(t, f.data)
		if ask.Method != method || ask.ID == nil {
			t.Fatalf("%s: the stream brings %s", method, f.data)
		}
		c.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":%q}}`, ask.ID, method))
		c.tell(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":"the second is dropped"}}`, ask.ID))
		if got := x.result().Text(); !strings.Contains(got, fmt.Sprintf(`"for":%q`, method)) {
			t.Errorf("%s: the server got %s", method, got)
		}
	}
}
