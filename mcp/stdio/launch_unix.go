//go:build unix && !linux

package stdio

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// groups starts children straight from the host, each in its own session and
// process group. There is no supervisor: when the host is killed, a child ends
// only by reading the end of its stdin.
type groups struct {
	mu     sync.Mutex
	closed bool
	live   map[*process]struct{}
}

func newLauncher(launcherOptions, *slog.Logger) (launcher, error) {
	return &groups{live: map[*process]struct{}{}}, nil
}

func (g *groups) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed
}

func (g *groups) launch(_ context.Context, c command, ends [3]*os.File) (*process, error) {
	defer closeAll(ends)
	cmd := &exec.Cmd{
		Path: c.path, Args: c.args, Env: c.env, Dir: c.dir,
		Stdin: ends[0], Stdout: ends[1], Stderr: ends[2],
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if err := cmd.Start(); err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return nil, errno
		}
		return nil, err
	}
	pid := cmd.Process.Pid
	p := &process{ // its usage is not known here
		pid:    pid,
		signal: func(s syscall.Signal) { syscall.Kill(-pid, s) },
		kill:   func() { syscall.Kill(-pid, syscall.SIGKILL) },
		exited: make(chan struct{}),
		gone:   make(chan struct{}),
	}
	g.live[p] = struct{}{}
	go g.wait(p, cmd)
	return p, nil
}

func (g *groups) wait(p *process, cmd *exec.Cmd) {
	cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.status = statusOf(ws)
	}
	close(p.exited)
	// While the group has members, its number is given to nobody else.
	for pause := time.Millisecond; syscall.Kill(-p.pid, syscall.SIGKILL) == nil; pause = min(2*pause, 100*time.Millisecond) {
		time.Sleep(pause)
	}
	close(p.gone)
	g.mu.Lock()
	delete(g.live, p)
	g.mu.Unlock()
}

func (g *groups) close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	left := make([]*process, 0, len(g.live))
	for p := range g.live {
		left = append(left, p)
	}
	g.mu.Unlock()
	for _, p := range left {
		p.kill()
		select {
		case <-p.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
