package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp"
)

// Plugin runs one MCP server for each session that needs one. It is an
// [mcp.Plugin], made by [New].
type Plugin struct {
	mu       sync.Mutex
	config   Config
	wrong    error // what Validate said
	closed   bool
	launcher *sharedLauncher
	live     map[*Runtime]struct{}
	crashes  int       // in a row
	retryAt  time.Time // of the next start, in a crash loop
	exits    []Exit
	failed   error // the last start, if it did
}

// New makes a plugin. What is wrong with the configuration is told by Check, and
// by every Build.
func New(c Config) *Plugin {
	p := &Plugin{live: map[*Runtime]struct{}{}}
	p.config, p.wrong = c.ready()
	return p
}

// ready fills in what is zero, and says what is wrong.
func (c Config) ready() (Config, error) {
	c.setDefaults()
	wrong := c.Validate()
	if c.RunDir != "" && wrong == nil {
		c.RunDir, wrong = filepath.Abs(c.RunDir)
	}
	return c, wrong
}

// Configure changes what is started from now on; servers that run stay as they are. The
// RunDir can't be changed. A server that was in a crash loop may be tried at once.
func (p *Plugin) Configure(c Config) error {
	c, wrong := c.ready()
	p.mu.Lock()
	defer p.mu.Unlock()
	if wrong == nil && c.RunDir != p.config.RunDir {
		wrong = errors.New("stdio: the RunDir can't be changed")
	}
	if wrong != nil {
		return wrong
	}
	p.config, p.wrong, p.failed = c, nil, nil
	p.crashes, p.retryAt = 0, time.Time{}
	return nil
}

// current is the configuration for what is started now.
func (p *Plugin) current() (Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config, p.wrong
}

// Check says whether the server could be started now, without starting it.
func (p *Plugin) Check() error {
	config, wrong := p.current()
	if wrong != nil {
		return wrong
	}
	_, err := config.command()
	return err
}

// Build starts a server for s. Its errors are meant to be read by the client.
func (p *Plugin) Build(ctx context.Context, s mcp.Session) (mcp.Runtime, error) {
	config, wrong := p.current()
	if wrong != nil {
		return nil, wrong
	}
	c, err := config.command()
	if err != nil {
		return nil, err
	}
	if err := p.mayStart(time.Now()); err != nil {
		return nil, err
	}
	shared, err := p.acquire()
	if err != nil {
		return nil, err
	}
	l, err := shared.get(config.Logger)
	if err != nil {
		return nil, &StartError{config.Command, err, ""}
	}
	ours, theirs, err := pipes()
	if err != nil {
		return nil, explain(config.Command, err)
	}
	proc, err := l.launch(ctx, c, theirs)
	if err != nil {
		closeAll(ours)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		err = explain(config.Command, err)
		p.started(err)
		return nil, err
	}
	p.started(nil)
	r := newRuntime(p, config, s, proc, ours)
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.live[r] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, r.Close(ctx))
	}
	return r, nil
}

func (p *Plugin) acquire() (*sharedLauncher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if p.launcher == nil {
		p.launcher = acquireLauncher(launcherOptions{p.config.RunDir, p.config.noCgroup})
	}
	return p.launcher, nil
}

func (p *Plugin) forget(r *Runtime) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, r)
}

// Close closes the runtimes that are left, and the supervisor when no other
// plugin uses it. When ctx ends, all that is left is killed. Build fails from
// then on. A host that ends without Close leaves nothing behind either.
func (p *Plugin) Close(ctx context.Context) error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	left := make([]*Runtime, 0, len(p.live))
	for r := range p.live {
		left = append(left, r)
	}
	p.mu.Unlock()
	if already {
		return nil
	}
	errs := make([]error, len(left))
	var wg sync.WaitGroup
	for i, r := range left {
		wg.Go(func() { errs[i] = r.Close(ctx) })
	}
	wg.Wait()
	if p.launcher != nil {
		errs = append(errs, p.launcher.release(ctx))
	}
	return errors.Join(errs...)
}

// pipes makes the child's three, and says which ends are whose. The child's ends
// block, as programs expect; the host's don't.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		r, w, err := pipe(i > 0)
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return ours, theirs, fmt.Errorf("a pipe for the child's %s: %w", name, err)
		}
		if i == 0 {
			theirs[i], ours[i] = r, w
		} else {
			ours[i], theirs[i] = r, w
		}
	}
	return ours, theirs, nil
}

func closeAll(files [3]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
