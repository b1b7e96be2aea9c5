package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/soak"
)

// Programs under test: what go build is told.
const (
	kalpa      = "./cmd/kalpa"
	kalpaSeams = "-tags seams ./cmd/kalpa" // takes out what KALPA_SEAMS names
	everything = "./examples/everything"
)

// host is a kalpa process, and the next one on the same data and port.
type host struct {
	t       testing.TB
	program string
	args    []string
	env     []string
	dir     string // working folder

	data    string
	port    int
	url     string // of the MCP endpoint
	metrics string // where Prometheus would look, with --admin

	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is reaped
	stderr *soak.Tail
}

// hosting says what a host is to run. The zero value is `kalpa serve`.
type hosting struct {
	program string   // kalpa when empty
	path    string   // of a program that is there already, in place of program
	flags   []string // of serve, besides --listen and --data
	command []string // after --
	env     []string // of the host, NAME=VALUE
	dir     string   // working folder; the test's own when empty
	data    string   // a fresh folder when empty
}

// serve starts a host and waits until it listens. It is killed when the test ends.
func serve(t testing.TB, o hosting) *host {
	t.Helper()
	h := newHost(t, o)
	for range 5 { // the port may be taken between the look and the start
		h.port = freePort(t)
		if h.start() == nil {
			return h
		}
	}
	t.Fatalf("kalpa does not start; its stderr:\n%s", h.stderr)
	return nil
}

func newHost(t testing.TB, o hosting) *host {
	t.Helper()
	if o.program == "" {
		o.program = kalpa
	}
	h := &host{t: t, program: o.path, env: o.env, dir: o.dir, data: o.data, stderr: newTail()}
	if h.program == "" {
		h.program = program(t, o.program)
	}
	if h.data == "" {
		h.data = filepath.Join(t.TempDir(), "data")
	}
	h.args = append(h.args, o.flags...)
	if len(o.command) > 0 {
		h.args = append(append(h.args, "--"), o.command...)
	}
	t.Cleanup(func() {
		if h.cmd != nil {
			h.kill()
		}
		if t.Failed() {
			t.Logf("stderr of kalpa:\n%s", h.stderr)
		}
	})
	return h
}

// start runs the host until it says that it listens.
func (h *host) start() error {
	args := append([]string{"serve", "--listen", h.address(), "--data", h.data}, h.args...)
	h.cmd = exec.Command(h.program, args...)
	h.cmd.Dir = h.dir
	h.cmd.Env = append(os.Environ(), h.env...)
	h.cmd.Stderr = h.stderr
	// A pipe of our own: Wait does not close it, and must not wait for a child that
	// has inherited it.
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	h.cmd.Stdout = w
	h.cmd.WaitDelay = 5 * time.Second
	err = h.cmd.Start()
	w.Close()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd, ended := h.cmd, make(chan struct{})
	h.ended = ended
	go func() { // ends with the process
		defer close(ended)
		_ = cmd.Wait()
	}()
	type addresses struct{ url, metrics string }
	listening := make(chan addresses, 1)
	go func() { // ends with the process, too
		defer r.Close()
		defer close(listening)
		var at addresses
		for lines := bufio.NewScanner(r); lines.Scan(); {
			word := strings.Fields(lines.Text())
			switch {
			case strings.HasPrefix(lines.Text(), "kalpa is listening on ") && at.url == "":
				at.url = word[len(word)-1]
			case strings.HasPrefix(lines.Text(), "  admin "):
				at.metrics = strings.TrimSuffix(word[1], "healthz") + "metrics"
			case strings.HasPrefix(lines.Text(), "  client "): // the last line of all
				select {
				case listening <- at:
				default:
				}
			}
		}
	}()
	select {
	case at, ok := <-listening:
		if !ok {
			<-ended
			return errors.New("ended before it listened")
		}
		h.url, h.metrics = at.url, at.metrics
		return nil
	case <-time.After(20 * time.Second):
		h.kill()
		h.t.Fatalf("kalpa does not listen after 20 s; its stderr:\n%s", h.stderr)
		return nil
	}
}

// address is where the host listens.
func (h *host) address() string { return fmt.Sprintf("127.0.0.1:%d", h.port) }

// restart starts the host again on the same data and port.
func (h *host) restart() {
	h.t.Helper()
	if err := h.start(); err != nil {
		h.t.Fatalf("kalpa does not start again: %v; its stderr:\n%s", err, h.stderr)
	}
}

// kill is kill -9.
func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	<-h.ended
}

// crash kills the host and starts it again.
func (h *host) crash() {
	h.t.Helper()
	h.kill()
	h.restart()
}

// terminate sends SIGTERM and returns how long the host took to end, and its exit
// code.
func (h *host) terminate() (time.Duration, int) {
	h.t.Helper()
	start := time.Now()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		h.t.Fatalf("kalpa has not ended 20 s after SIGTERM; its stderr:\n%s", h.stderr)
	}
	return time.Since(start), h.cmd.ProcessState.ExitCode()
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := soak.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// newTail keeps the end of what a process says.
func newTail() *soak.Tail { return &soak.Tail{Keep: 64 << 10} }

// eventually waits until a condition holds.
func eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", limit, what)
		}
	}
}
