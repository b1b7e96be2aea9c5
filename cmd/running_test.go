package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/auth"
)

// running is a kalpa of its own process, as it is shipped.
type running struct {
	t        *testing.T
	dir      string
	args     []string
	env      []string
	url      string // of its first server
	base     string
	cmd      *exec.Cmd
	out, log *record
	client   *http.Client
}

// record is what a process writes, for who reads it meanwhile.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// host starts one in a folder of its own that has these files.
func host(t *testing.T, files map[string]string, args ...string) *running {
	t.Helper()
	h := &running{t: t, dir: t.TempDir(), args: args, client: &http.Client{Timeout: time.Minute}}
	for name, text := range files {
		h.write(name, text)
	}
	return h.start()
}

func (h *running) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *running) start() *running {
	h.t.Helper()
	path, err := exec.LookPath("kalpa")
	if err != nil {
		h.t.Fatal(err)
	}
	h.out, h.log = &record{}, &record{}
	h.cmd = exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", "data", "--log-level", "debug"}, h.args...)...)
	h.cmd.Dir, h.cmd.Stdout, h.cmd.Stderr = h.dir, h.out, h.log
	h.cmd.Env = append(os.Environ(), h.env...)
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(h.kill)
	h.within("it listens", func() bool { return strings.Contains(h.out.String(), "\n  client ") })
	line, _, _ := strings.Cut(h.out.String(), "\n")
	h.url = strings.TrimPrefix(line, "kalpa is listening on ")
	h.base = h.url[:strings.Index(h.url, "/mcp")]
	return h
}

func (h *running) kill() {
	if h.cmd != nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		h.cmd = nil
	}
}

func (h *running) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

func (h *running) within(what string, is func() bool) {
	h.t.Helper()
	for end := time.Now().Add(60 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s: not within a minute; its log:\n%s", what, h.log)
		}
	}
}

// reload sends SIGHUP, and waits until it has been heeded.
func (h *running) reload() {
	h.t.Helper()
	heeded := func() int {
		return strings.Count(h.log.String(), "configuration reloaded") + strings.Count(h.log.String(), "configuration is not taken over")
	}
	before := heeded()
	h.signal(syscall.SIGHUP)
	h.within("the reload", func() bool { return heeded() > before })
}

// resident is the memory that the process has, in bytes.
func (h *running) resident() int64 {
	h.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.cmd.Process.Pid))
	if err != nil {
		h.t.Skip("there is no /proc here")
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(b), &size, &pages)
	return pages * int64(os.Getpagesize())
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	increment  = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"incr","arguments":{}}}`
)

// send sends a message with headers, of which Host counts too.
func (h *running) send(method, url, body string, headers ...string) answer {
	h.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer{w.StatusCode, w.Header, string(text)}
}

func (h *running) post(body string, headers ...string) answer {
	h.t.Helper()
	return h.send(http.MethodPost, h.url, body, headers...)
}

// abandon sends a request and leaves when its stream is there.
func (h *running) abandon(session, body string) {
	h.t.Helper()
	ctx, leave := context.WithCancel(h.t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", session)
	w, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = w.Body.Close() }()
	if w.StatusCode != http.StatusOK {
		h.t.Fatalf("a request to abandon: %s", w.Status)
	}
}

// admin is where its admin listener is.
func (h *running) admin() string {
	h.t.Helper()
	_, after, ok := strings.Cut(h.out.String(), "\n  console   ")
	if !ok {
		h.t.Fatalf("no admin listener: %s", h.out)
	}
	line, _, _ := strings.Cut(after, "/\n")
	return line
}

// session opens one.
func (h *running) session(headers ...string) string {
	h.t.Helper()
	a := h.post(initialize, headers...)
	if a.status != http.StatusOK || a.header.Get("Mcp-Session-Id") == "" {
		h.t.Fatalf("initialize: %+v", a)
	}
	return a.header.Get("Mcp-Session-Id")
}

// works tells whether a well-behaved client is served.
func (h *running) works(session string, headers ...string) {
	h.t.Helper()
	if a := h.post(increment, append(headers, "Mcp-Session-Id", session)...); a.status != http.StatusOK || !strings.Contains(a.body, `"result"`) {
		h.t.Errorf("a client that does no harm: %+v", a)
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// tokens are the tokens of some callers, and the file that knows them.
func tokens(t *testing.T, names ...string) (file string, all map[string]string) {
	t.Helper()
	all = map[string]string{}
	for _, name := range names {
		token, line, err := auth.NewToken(name)
		if err != nil {
			t.Fatal(err)
		}
		file += line + "\n"
		all[name] = token
	}
	return file, all
}
