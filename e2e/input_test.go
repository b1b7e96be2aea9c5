package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every bad request gets a status and a JSON-RPC error that says what is wrong, at
// once, and the session goes on as if it had never come.
func TestBadRequestsGetAClearError(t *testing.T) {
	t.Parallel()
	h := serve(t, hosting{})
	c := h.session()
	good := call("1", "add", `{"a":2,"b":3}`)

	for _, bad := range []struct {
		name   string
		method string // POST when empty
		body   string
		header map[string]string // an empty value takes a header away
		status int
		code   int
		says   string // a part of the error's message
	}{
		{name: "JSON that is cut", body: `{"jsonrpc":"2.0","id":1,"meth`, status: 400, code: -32700},
		{name: "no JSON", body: "hello", status: 400, code: -32700},
		{name: "an empty body", body: "", status: 400, code: -32700},
		{name: "two documents", body: good + good, status: 400, code: -32700},
		{name: "bytes that are no UTF-8", body: `{"jsonrpc":"2.0","id":1,"method":"` + "\xff\xfe" + `"}`, status: 400},
		{name: "JSON too deep", body: strings.Repeat(`[`, 100_000), status: 400},
		{name: "no message", body: `{"hello":"world"}`, status: 400, code: -32600},
		{name: "a number", body: `17`, status: 400, code: -32600},
		{name: "another JSON-RPC", body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, status: 400, code: -32600},
		{name: "a method that is no string", body: `{"jsonrpc":"2.0","id":1,"method":7}`, status: 400, code: -32600},
		{name: "an id that is null", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400, code: -32600},
		{name: "an id that is an object", body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`, status: 400, code: -32600},
		{name: "a batch in a revision without", body: "[" + good + "]", status: 400, code: -32600, says: "batch"},
		{name: "a body beyond the limit", body: `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 17<<20) + `"}`, header: map[string]string{"Expect": "100-continue"}, status: 413, code: -32600},
		{name: "an unknown session", body: good, header: map[string]string{"Mcp-Session-Id": "0123456789abcdef0123456789abcdef"}, status: 404},
		{name: "an unknown session, GET", method: "GET", header: map[string]string{"Mcp-Session-Id": "nobody"}, status: 404},
		{name: "an unknown session, DELETE", method: "DELETE", header: map[string]string{"Mcp-Session-Id": "nobody"}, status: 404},
		{name: "a session id that is a path", body: good, header: map[string]string{"Mcp-Session-Id": "../../etc/passwd"}, status: 404},
		{name: "no session", body: good, header: map[string]string{"Mcp-Session-Id": ""}, status: 400, says: "Mcp-Session-Id"},
		{name: "no session, GET", method: "GET", header: map[string]string{"Mcp-Session-Id": ""}, status: 400, says: "Mcp-Session-Id"},
		{name: "no session, DELETE", method: "DELETE", header: map[string]string{"Mcp-Session-Id": ""}, status: 400, says: "Mcp-Session-Id"},
		{name: "an unknown revision", body: good, header: map[string]string{"MCP-Protocol-Version": "1999-01-01"}, status: 400, says: "1999-01-01"},
		{name: "an Accept without streams", body: good, header: map[string]string{"Accept": "application/json"}, status: 406, says: "text/event-stream"},
		{name: "an Accept of something else", body: good, header: map[string]string{"Accept": "text/html"}, status: 406},
		{name: "an Accept of something else, GET", method: "GET", header: map[string]string{"Accept": "text/html"}, status: 406},
		{name: "another content type", body: good, header: map[string]string{"Content-Type": "text/plain"}, status: 415},
		{name: "no content type", body: good, header: map[string]string{"Content-Type": ""}, status: 415},
		{name: "another host", body: good, header: map[string]string{"Host": "evil.example"}, status: 403, says: "evil.example"},
		{name: "another host, GET", method: "GET", header: map[string]string{"Host": "evil.example"}, status: 403},
		{name: "another origin", body: good, header: map[string]string{"Origin": "https://evil.example"}, status: 403, says: "evil.example"},
		{name: "another origin, DELETE", method: "DELETE", header: map[string]string{"Origin": "https://evil.example"}, status: 403},
		{name: "another method", method: "PUT", body: good, status: 405},
		{name: "an event id of someone else", method: "GET", header: map[string]string{"Last-Event-ID": "17"}, status: 400, says: "Last-Event-ID"},
		{name: "a second initialize", body: initializeRequest(vNov), status: 200, code: -32600},
		{name: "an unknown tool", body: call("1", "no-such-tool", `{}`), status: 200, code: -32602},
		{name: "an unknown method", body: request("1", "no/such/method", `{}`), status: 200, code: -32601},
	} {
		t.Run(bad.name, func(t *testing.T) {
			c := &client{t: t, url: c.url, session: c.session, version: c.version, http: c.http}
			if bad.method == "" {
				bad.method = http.MethodPost
			}
			start := time.Now()
			x := c.do(bad.method, bad.body, bad.header)
			var m message
			for _, f := range x.all() {
				if f.data != "" {
					m = parse(t, f.data)
				}
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the answer took %v", took)
			}
			if x.status != bad.status {
				t.Errorf("status %d, want %d", x.status, bad.status)
			}
			switch {
			case m.Error == nil:
				t.Fatal("the body is no JSON-RPC error")
			case m.Error.Message == "":
				t.Error("the error has no message")
			case bad.code != 0 && m.Error.Code != bad.code:
				t.Errorf("code %d, want %d: %s", m.Error.Code, bad.code, m.Error.Message)
			case !strings.Contains(m.Error.Message, bad.says):
				t.Errorf("the message does not say %q: %s", bad.says, m.Error.Message)
			}
		})
	}
	if got := c.post(good).result().Text(); got != "5" {
		t.Errorf("a good call after all of that: %q", got)
	}
}

// A command that can't serve is an error to the client that asks, at once and with
// the server's last words. The host lives on, and so do the other sessions.
func TestServerThatCannotStartIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name    string
		command []string
		says    []string
	}{
		{"a command that does not exist", []string{"no-such-command-anywhere", "--flag"}, []string{"no-such-command-anywhere"}},
		{"a file that can't be executed", []string{"./doc.go"}, []string{"doc.go"}},
		{"a server that ends in initialize", fake("-refuse"), []string{"status 7", "the API key is missing"}},
		{"a server that closes stdout and stays", fake("-mute"), nil},
		{"a program that is no server", []string{"/bin/sh", "-c", "echo usage: me FILE >&2; exit 64"}, []string{"status 64", "usage: me FILE"}},
		{"a program that a signal ends", []string{"/bin/sh", "-c", "kill -SEGV $$"}, []string{"signal"}},
	} {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, hosting{command: broken.command})
			for range 2 { // it is tried again for each client, and fails the same
				c := newClient(t, h.url)
				start := time.Now()
				x := c.post(initializeRequest(vNov))
				m := x.answer()
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("the error took %v", took)
				}
				if m.Error == nil {
					t.Fatalf("no error, but %s", m.Result)
				}
				if string(m.ID) != "0" {
					t.Errorf("the error is for id %s, want 0", m.ID)
				}
				all := m.Error.Message + string(m.Error.Data)
				for _, part := range broken.says {
					if !strings.Contains(all, part) {
						t.Errorf("the error does not say %q: %s", part, all)
					}
				}
				// A session that never began is none.
				if id := x.header.Get("Mcp-Session-Id"); id != "" {
					c.session, c.version = id, vNov
					if x := c.post(call("1", "echo", `{}`)); x.status != http.StatusNotFound {
						t.Errorf("a call in a session that never began: status %d: %s", x.status, x.body())
					}
				}
			}
		})
	}
}

// A data folder that the host can't use is said so, with its name, before anything
// is served, and nothing in it is changed.
func TestUnusableDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, data string, says ...string) {
		t.Helper()
		h := newHost(t, hosting{data: data})
		h.port = freePort(t)
		if h.start() == nil {
			t.Fatal("the host runs")
		}
		if code := h.cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		for _, part := range append(says, data) {
			if !strings.Contains(h.stderr.String(), part) {
				t.Errorf("stderr does not say %q:\n%s", part, h.stderr)
			}
		}
	}
	t.Run("another program's", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		letter := filepath.Join(dir, "letter.txt")
		if err := os.WriteFile(letter, []byte("Dear reader"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "not a kalpa store")
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("the folder has changed: %v %v", files, err)
		}
	})
	t.Run("in use", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{})
		c := h.session()
		refused(t, h.data, "in use")
		if got := c.post(call("1", "incr", `{}`)).result().Text(); got != "1" {
			t.Errorf("a call to the host that has the folder: %q", got)
		}
	})
	t.Run("of a newer format", func(t *testing.T) {
		t.Parallel()
		h := serve(t, hosting{})
		c := h.session()
		c.post(call("1", "incr", `{}`)).result()
		h.terminate()
		marker := filepath.Join(h.data, "kalpa-store")
		text, err := os.ReadFile(marker)
		if err != nil || !strings.Contains(string(text), "format 1") {
			t.Fatalf("no format in the marker of the folder: %v %q", err, text)
		}
		newer := strings.Replace(string(text), "format 1", "format 99", 1)
		if err := os.WriteFile(marker, []byte(newer), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, h.data, "format 99")
		if err := os.WriteFile(marker, text, 0o600); err != nil {
			t.Fatal(err)
		}
		h.restart()
		if got := c.post(call("2", "incr", `{}`)).result().Text(); got != "2" {
			t.Errorf("a call when the format is right again: %q", got)
		}
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, file)
	})
}
