package stdio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Runtime is a server at work: an [mcp.Runtime].
type Runtime struct {
	plugin  *Plugin
	config  Config // as it was when the server was started
	began   time.Time
	session mcp.Session
	log     *slog.Logger
	proc    *process

	stdin          *inlet
	stdout, stderr *outlet
	tail           tail
	readers        sync.WaitGroup

	// sending ends when the session no longer wants what the child says.
	sending  context.Context
	stopSend context.CancelFunc

	writing chan struct{} // held by the one who writes to stdin
	cut     bool          // a line was begun and not ended; guarded by writing
	line    []byte        // room for the next line; guarded by writing

	trouble  chan string   // what makes the child useless while it lives
	exceeded chan *excess  // what it has too much of
	closing  chan struct{} // closed by the first Close
	hurry    chan struct{} // closed when a Close has run out of patience
	done     chan struct{} // closed when the child has ended and that is reported

	// charged is what the isolate is charged for the child, and discharge gives it
	// back; they are measured's.
	charged   int64
	discharge func()

	mu      sync.Mutex
	closed  bool
	hurried bool
	spoken  bool  // it has said something
	usage   usage // what it was found to take
	ended   error // how the child ended
}

func newRuntime(p *Plugin, config Config, s mcp.Session, proc *process, ours [3]*os.File) *Runtime {
	r := &Runtime{
		plugin: p, config: config, began: time.Now(), session: s, proc: proc,
		log:    s.Logger().With("pid", proc.pid),
		stdin:  newInlet(ours[0]),
		stdout: &outlet{File: ours[1]}, stderr: &outlet{File: ours[2]},
		tail:    tail{max: config.StderrTail},
		writing: make(chan struct{}, 1),
		trouble: make(chan string, 1), exceeded: make(chan *excess, 1),
		closing: make(chan struct{}),
		hurry:   make(chan struct{}),
		done:    make(chan struct{}),
	}
	r.sending, r.stopSend = context.WithCancel(context.Background())
	r.log.Debug("server started", "command", config.Command)
	measured := r.measured
	proc.onUsage.Store(&measured)
	r.readers.Go(r.readStdout)
	r.readers.Go(r.readStderr)
	go r.watch()
	return r
}

// Pid is the process id of the server, which is also that of its process group
// and of its terminal session. It is the server's own until Close has returned or
// Exited was called.
func (r *Runtime) Pid() int { return r.proc.pid }

// Deliver writes a message to the server's stdin. It blocks while the pipe is
// full. When ctx ends in the middle of a line, the line is ended there, which
// makes it one that the server can't read and no message.
func (r *Runtime) Deliver(ctx context.Context, m wire.Message) error {
	select {
	case r.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.writing }()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	line := r.line[:0]
	if r.cut { // whatever was cut off, even if only its end, is no message now
		line = append(line, "!\n"...)
	}
	before := len(line)
	line = append(append(line, m.Bytes()...), '\n')
	if cap(line) <= keptLine {
		r.line = line
	}
	n, err := r.stdin.write(ctx, line)
	if n > 0 {
		r.cut = n != len(line) && n != before
	}
	switch {
	case n == len(line):
		return nil
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return context.Cause(ctx)
	case errors.Is(err, os.ErrClosed):
	default:
		r.failed("closed its stdin and did not exit, so it was killed")
	}
	if over := r.over(); over != nil {
		return over
	}
	// It has exited, or will be made to: how it ended, and its last words, say more
	// than a broken pipe.
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	if over := r.over(); over != nil {
		return over
	}
	return fmt.Errorf("the server %q does not read its stdin: %w", r.config.Command, err)
}

// over says why no message can be delivered any more.
func (r *Runtime) over() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended != nil:
		return r.ended
	case r.closed:
		return ErrClosed
	}
	return nil
}

// Close ends the server as MCP has it: stdin is closed, after CloseGrace its
// process group gets SIGTERM, after TermGrace all that it started gets SIGKILL.
// When ctx ends, SIGKILL comes at once. Close returns when nothing is left, also
// when it was called before; an error means that something outlives SIGKILL and
// may still act on the world. Exited is not called after Close, and has returned
// before Close does: so don't wait for Close in Exited.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
		r.stopSend()
	}
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		r.mu.Lock()
		if !r.hurried {
			r.hurried = true
			close(r.hurry)
		}
		r.mu.Unlock()
		<-r.done
	}
	select {
	case <-r.proc.gone:
		return nil
	default:
		return fmt.Errorf("the server %q (pid %d) outlives SIGKILL: it is likely stuck in a system call",
			r.config.Command, r.proc.pid)
	}
}

// failed ends a child that has become useless.
func (r *Runtime) failed(why string) {
	select {
	case r.trouble <- why:
	default:
	}
}

// watch owns the runtime: it ends the child, or sees it end, and cleans up.
func (r *Runtime) watch() {
	defer close(r.done)
	reason := r.untilExit()
	r.proc.onUsage.Store(nil)
	select {
	case <-r.proc.gone:
	case <-time.After(killWait):
		r.log.Error("server outlives SIGKILL")
	}
	r.stdout.end()
	r.stderr.end()
	r.readers.Wait()
	closeAll([3]*os.File{r.stdin.File, r.stdout.File, r.stderr.File})

	err := r.exitError(reason)
	r.mu.Lock()
	r.ended = err
	byItself, spoken := !r.closed, r.spoken
	r.mu.Unlock()
	r.plugin.forget(r)
	if byItself {
		r.plugin.exited(Exit{
			At: time.Now(), Session: r.session.ID(), Pid: r.proc.pid, Lived: time.Since(r.began), Silent: !spoken, Why: err.how(), Stderr: err.Tail,
		})
		r.log.Info("server ended by itself", "error", err)
		r.session.Exited(err)
	} else {
		r.log.Debug("server closed", "code", err.Code, "signal", err.Signal)
	}
	r.stopSend()
}

// untilExit returns when the child has ended or is being killed. reason is why
// it had to be, when it was not for Close.
func (r *Runtime) untilExit() (reason excess) {
	select {
	case <-r.proc.exited:
		return excess{}
	case e := <-r.exceeded:
		r.proc.kill()
		return *e
	case why := <-r.trouble:
		if !r.exitsWithin(brokenGrace) {
			r.proc.kill()
			return excess{why: why}
		}
		return excess{}
	case <-r.closing:
	}
	r.stdin.Close()
	if r.exitsWithin(r.config.CloseGrace) {
		return excess{}
	}
	r.proc.signal(syscall.SIGTERM)
	if r.exitsWithin(r.config.TermGrace) {
		return excess{}
	}
	r.proc.kill()
	return excess{}
}

func (r *Runtime) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.proc.exited:
		return true
	case <-t.C:
	case <-r.hurry:
	}
	return false
}

func (r *Runtime) exitError(reason excess) *ExitError {
	st := r.proc.status
	if reason.why == "" {
		reason.why = st.lost
	}
	if reason.why == "" && st.memory != "" {
		reason = excess{st.memory, mcp.ErrMemoryLimit}
	}
	if st.signal == overTime && r.config.Limits.CPU > 0 {
		reason.err = mcp.ErrCPULimit
	}
	e := &ExitError{Command: r.config.Command, Reason: reason.why, Err: reason.err, Code: st.code, Tail: r.tail.String()}
	if st.signal != 0 {
		e.Signal = fmt.Sprintf("%d (%v)", int(st.signal), st.signal)
	}
	return e
}
