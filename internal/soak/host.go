package soak

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
)

// Host is a process that runs kalpa serve, and the next one on the same data and port.
type Host struct {
	Program string
	Args    []string // of serve, besides --listen and --data
	Env     []string // NAME=VALUE, besides those of this process
	Data    string

	port   int
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is reaped
	stderr Tail
	urls   []string // of the hosted servers, by name
	admin  *admin.Client
}

// ErrEnded is of a host that has ended before it listened.
var ErrEnded = errors.New("ended before it listened")

// Start runs the host until it says that it listens.
func (h *Host) Start(ctx context.Context) error {
	for range 5 { // the port may be taken between the look and the start
		if h.port == 0 {
			var err error
			if h.port, err = FreePort(ctx); err != nil {
				return err
			}
		}
		err := h.start(ctx)
		if !errors.Is(err, ErrEnded) {
			return err
		}
		h.port = 0
	}
	return fmt.Errorf("%s does not start; its stderr: %s", h.Program, h.Stderr())
}

// Restart starts the host again, on the same data and port.
func (h *Host) Restart(ctx context.Context) error { return h.start(ctx) }

func (h *Host) start(ctx context.Context) error {
	args := append([]string{"serve", "--listen", fmt.Sprintf("127.0.0.1:%d", h.port), "--data", h.Data, "--admin", "127.0.0.1:0"}, h.Args...)
	cmd := exec.Command(h.Program, args...) //nolint:gosec,noctx // it is this program, and lives longer than a context
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.Stderr = &h.stderr
	// A pipe of our own: Wait does not close it, and must not wait for a child that has
	// inherited it.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = w
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		return errors.Join(err, r.Close())
	}
	h.cmd, h.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) { // ends with the process
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its state
	}(h.ended)
	listening := make(chan error, 1)
	go func() { listening <- h.announced(r) }() // ends with what the process prints
	select {
	case err := <-listening:
		if err != nil {
			<-h.ended
		}
		return err
	case <-time.After(30 * time.Second):
		h.Kill()
		return fmt.Errorf("%s does not listen after 30 s; its stderr: %s", h.Program, h.Stderr())
	case <-ctx.Done():
		h.Kill()
		return ctx.Err()
	}
}

// announced reads what a host prints, until it has said where it listens. The rest is
// read until it ends, by a goroutine of its own.
func (h *Host) announced(r io.ReadCloser) error {
	var api *admin.Client
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch line, found := strings.CutPrefix(lines.Text(), "  admin "); {
		case found:
			var err error
			if api, err = admin.NewClient(strings.TrimSuffix(strings.TrimSpace(line), "/healthz"), ""); err != nil {
				return errors.Join(err, r.Close())
			}
		case strings.HasPrefix(line, "  client "): // the last line of all
			var c struct {
				Servers map[string]struct{ URL string } `json:"mcpServers"`
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "  client ")), &c); err != nil {
				return errors.Join(err, r.Close())
			}
			var names []string
			for name := range c.Servers {
				names = append(names, name)
			}
			slices.Sort(names)
			h.urls = nil
			for _, name := range names {
				h.urls = append(h.urls, c.Servers[name].URL)
			}
			h.admin = api
			go func() {
				_, _ = io.Copy(io.Discard, r) // until the process ends
				_ = r.Close()
			}()
			return nil
		}
	}
	return errors.Join(ErrEnded, lines.Err(), r.Close())
}

// URLs are those of the hosted servers, sorted by name.
func (h *Host) URLs() []string { return h.urls }

// Admin talks to the host that runs.
func (h *Host) Admin() *admin.Client { return h.admin }

// Ended is closed when the process is gone.
func (h *Host) Ended() <-chan struct{} { return h.ended }

// Kill is kill -9.
func (h *Host) Kill() {
	if h.cmd != nil {
		_ = h.cmd.Process.Kill() // it may be gone already
		<-h.ended
	}
}

// Pause is SIGSTOP, and Continue SIGCONT.
func (h *Host) Pause() error { return h.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a paused host go on.
func (h *Host) Continue() error { return h.cmd.Process.Signal(syscall.SIGCONT) }

// Terminate sends SIGTERM, and waits. It returns the exit code.
func (h *Host) Terminate(limit time.Duration) (code int, err error) {
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-h.ended:
		return h.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		h.Kill()
		return 0, fmt.Errorf("it had not ended %v after SIGTERM", limit)
	}
}

// Stderr is the end of what the host has said.
func (h *Host) Stderr() string { return h.stderr.String() }

// FreePort finds a port that is free now. It lies outside the range from which the
// system takes ports for outgoing connections, so that it stays free while the host is
// down.
func FreePort(ctx context.Context) (int, error) {
	for range 100 {
		port := 18000 + rand.IntN(14000)
		var lc net.ListenConfig
		if l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 18000 and 32000")
}

// Tail keeps the end of what is written to it.
type Tail struct {
	Keep int // bytes; 0: 16 KiB

	mu sync.Mutex
	b  []byte
}

func (w *Tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	if over := len(w.b) - cmp.Or(w.Keep, 16<<10); over > 0 {
		w.b = append(w.b[:0], w.b[over:]...)
	}
	return len(p), nil
}

func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}
