package stdio

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// launcher starts children in such a way that they end with the host. There is
// one for each system: see link_linux.go and launch_unix.go.
type launcher interface {
	// launch starts a command on the child's ends of three pipes, which it closes.
	// When ctx ends first, nothing is left of the child.
	launch(ctx context.Context, c command, ends [3]*os.File) (*process, error)
	// alive says whether launch can still work.
	alive() bool
	// close ends all children. It returns when they are gone.
	close(ctx context.Context) error
}

// process is a child and all that it has started.
type process struct {
	pid int
	// signal sends to the child's process group, as long as the child lives.
	signal func(syscall.Signal)
	// kill ends the child and all that it has started, however long that takes.
	kill func()
	// exited is closed when the child itself has ended; status is set then.
	exited chan struct{}
	status status
	// gone is closed when nothing of it is left; after exited.
	gone chan struct{}
	// onUsage is told what the child and what it has started take, now and then, where
	// that can be known.
	onUsage atomic.Pointer[func(usage)]
}

// status is how a child ended.
type status struct {
	code   int            // -1 when a signal ended it
	signal syscall.Signal // 0 when it exited
	lost   string         // why nobody knows
	memory string         // that the system has killed it for memory; else empty
}

func statusOf(ws syscall.WaitStatus) status {
	if ws.Signaled() {
		return status{code: -1, signal: ws.Signal()}
	}
	return status{code: ws.ExitStatus()}
}

// launcherOptions are what launchers are told apart by.
type launcherOptions struct {
	runDir   string
	noCgroup bool
}

// launchers holds the one launcher for each set of options, for as long as a
// plugin uses it.
var launchers struct {
	sync.Mutex
	shared map[launcherOptions]*sharedLauncher
}

// sharedLauncher starts a launcher when one is needed, and another one when that
// has died.
type sharedLauncher struct {
	options launcherOptions
	users   int // guarded by launchers

	mu  sync.Mutex
	cur launcher
}

func acquireLauncher(o launcherOptions) *sharedLauncher {
	launchers.Lock()
	defer launchers.Unlock()
	s := launchers.shared[o]
	if s == nil {
		s = &sharedLauncher{options: o}
		if launchers.shared == nil {
			launchers.shared = map[launcherOptions]*sharedLauncher{}
		}
		launchers.shared[o] = s
	}
	s.users++
	return s
}

func (s *sharedLauncher) get(log *slog.Logger) (launcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != nil && s.cur.alive() {
		return s.cur, nil
	}
	l, err := newLauncher(s.options, log)
	if err != nil {
		return nil, err
	}
	s.cur = l
	return l, nil
}

// release gives the launcher back; the last user waits for its end.
func (s *sharedLauncher) release(ctx context.Context) error {
	launchers.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(launchers.shared, s.options)
	}
	launchers.Unlock()
	if !last {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		return nil
	}
	return s.cur.close(ctx)
}
