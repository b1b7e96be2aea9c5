package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/internal/auth"
)

// target is the kalpa that is attacked.
type target struct {
	dir    string
	cmd    *exec.Cmd
	url    string // of its server
	host   string // HOST:PORT
	tokens map[string]string
	http   *http.Client
}

// start builds kalpa, and starts it with callers of its own.
func start(ctx context.Context, program string) (*target, error) {
	dir, err := os.MkdirTemp("", "kalpa-hostile-")
	if err != nil {
		return nil, err
	}
	t := &target{dir: dir, tokens: map[string]string{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}}
	var file strings.Builder
	for _, name := range []string{"good", "evil"} {
		token, line, err := auth.NewToken(name)
		if err != nil {
			return nil, err
		}
		t.tokens[name] = token
		file.WriteString(line + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte(file.String()), 0o600); err != nil {
		return nil, err
	}
	if program == "" {
		program = filepath.Join(dir, "kalpa")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/kalpa")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, err
		}
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	t.cmd = exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--data", "data", "--log-level", "debug",
		"--auth-tokens-file", "tokens", "--max-connections", "2000")
	t.cmd.Dir = dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	t.cmd.Stderr = log
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "kalpa is listening on "); ok {
			t.url = at
			t.host = strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/mcp")
		}
		if strings.HasPrefix(lines.Text(), "  client") {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return t, nil
		}
	}
	t.stop()
	return nil, errors.New("kalpa did not start")
}

func (t *target) stop() {
	_ = t.cmd.Process.Kill()
	_ = t.cmd.Wait()
	_ = os.RemoveAll(t.dir)
}

// resident is the memory of the process, in bytes; 0 where that can't be known.
func (t *target) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}}`
	increment  = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"incr","arguments":{}}}`
)

// post sends a message and reads the answer to its end.
func (t *target) post(ctx context.Context, body string, headers ...string) (status int, header http.Header, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := t.http.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(w.Body)
	return w.StatusCode, w.Header, string(text), err
}

func (t *target) session(ctx context.Context, token string) (string, error) {
	status, header, answer, err := t.post(ctx, initialize, "Authorization", "Bearer "+token)
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("no session: %d %s %w", status, answer, err)
	}
	return header.Get("Mcp-Session-Id"), nil
}

// client does no harm.
type client struct {
	target         *target
	token, session string
}

// measure calls a tool at a rate. A call is late from when it was due, so that one that
// is held up counts for those behind it.
func (c *client) measure(ctx context.Context, length time.Duration, rate int) latency {
	var mu sync.Mutex
	var all []time.Duration
	failed := 0
	var calls sync.WaitGroup
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		if due.Sub(began) >= length || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(due))
		calls.Go(func() {
			status, _, answer, err := c.target.post(ctx, increment, "Authorization", "Bearer "+c.token, "Mcp-Session-Id", c.session)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, took); err != nil || status != http.StatusOK || !strings.Contains(answer, `"result"`) {
				failed++
			}
		})
	}
	calls.Wait()
	return latencyOf(all, failed)
}
