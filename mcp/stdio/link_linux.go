package stdio

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startWait is how long a supervisor may take to say that it is ready.
const startWait = 10 * time.Second

// link is the host's end of the connection to its supervisor.
type link struct {
	instance string
	log      *slog.Logger
	conn     *net.UnixConn
	cmd      *exec.Cmd
	words    *words
	cgroup   string
	unbound  string
	dead     chan struct{} // closed when the supervisor and all children are gone
	measured chan struct{} // closed when measure has ended

	write sync.Mutex // a frame at a time

	mu      sync.Mutex
	broken  bool // the supervisor is gone, or going
	closing bool
	last    uint64
	waiting map[uint64]chan launched
	procs   map[uint64]*linked
}

// linked is a child as the link knows it.
type linked struct {
	process
	id procID
}

func newLauncher(o launcherOptions, log *slog.Logger) (launcher, error) {
	var random [8]byte
	rand.Read(random[:])
	l := &link{
		instance: hex.EncodeToString(random[:]),
		log:      log,
		dead:     make(chan struct{}),
		measured: make(chan struct{}),
		waiting:  map[uint64]chan launched{},
		procs:    map[uint64]*linked{},
	}
	self, ok := readProc(os.Getpid())
	if !ok {
		return nil, errors.New("/proc is needed to keep track of children, and can't be read")
	}
	err := l.start(hello{
		Instance: l.instance, RunDir: o.runDir,
		HostPid: self.pid, HostStart: self.start, NoCgroup: o.noCgroup,
	})
	if err != nil {
		return nil, fmt.Errorf("the supervisor of children does not start: %w", err)
	}
	go l.read()
	go l.measure()
	return l, nil
}

func (l *link) start(h hello) error {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "host")
	defer theirs.Close()
	c, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return err
	}
	l.conn = c.(*net.UnixConn)
	l.words = &words{log: l.log, tail: tail{max: DefaultStderrTail}}
	l.cmd = &exec.Cmd{
		Path:        "/proc/self/exe", // the program as it was, also when its file was replaced
		Args:        []string{supervisorName, l.instance},
		Env:         supervisorEnviron(os.Environ()),
		Dir:         "/",
		ExtraFiles:  []*os.File{theirs}, // supervisorFd
		Stderr:      l.words,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := l.cmd.Start(); err != nil {
		l.conn.Close()
		return err
	}
	theirs.Close()
	l.conn.SetDeadline(time.Now().Add(startWait))
	err = writeFrame(l.conn, request{Hello: &h})
	for err == nil {
		var r reply
		if _, err = readFrame(l.conn, &r); err != nil {
			break
		}
		if r.Log != "" {
			l.log.Debug("supervisor of children", "says", r.Log)
		}
		if r.Ready {
			l.cgroup, l.unbound = r.Cgroup, r.Unbound
			l.conn.SetDeadline(time.Time{})
			l.log.Debug("supervisor of children started", "pid", l.cmd.Process.Pid,
				"instance", l.instance, "cgroup", l.cgroup, "memory_unbound", l.unbound)
			return nil
		}
	}
	l.conn.Close()
	l.cmd.Process.Kill()
	l.cmd.Wait()
	if said := l.words.tail.String(); said != "" {
		err = errors.New(said)
	}
	return err
}

// supervisorEnviron is the supervisor's environment. Servers run as the same user and
// can read it: the host's secrets are not in it.
func supervisorEnviron(host []string) []string {
	env := []string{supervisorVar + "=1"}
	for _, entry := range host {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case markerVar, "GORACE", "GOCOVERDIR", "GODEBUG", "GOTRACEBACK":
			env = append(env, entry)
		}
	}
	return env
}

// words takes what a supervisor writes to stderr: nothing, unless it fails.
type words struct {
	log  *slog.Logger
	tail tail
}

func (w *words) Write(p []byte) (int, error) {
	w.tail.write(p)
	w.log.Warn("supervisor of children", "stderr", excerpt(p))
	return len(p), nil
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.broken
}

var errSupervisorGone = errors.New("the supervisor of children is gone")

func (l *link) say(r request, files ...int) error {
	l.write.Lock()
	defer l.write.Unlock()
	return writeFrame(l.conn, r, files...)
}

func (l *link) launch(ctx context.Context, c command, ends [3]*os.File) (*process, error) {
	defer closeAll(ends)
	answer := make(chan launched, 1)
	l.mu.Lock()
	if l.broken {
		l.mu.Unlock()
		return nil, errSupervisorGone
	}
	l.last++
	id := l.last
	l.waiting[id] = answer
	l.mu.Unlock()

	s := &spawn{Path: []byte(c.path), Dir: []byte(c.dir), Args: raw(c.args), Env: raw(c.env), Memory: c.limits.Memory, Files: c.limits.Files, CPU: c.limits.CPU}
	err := l.say(request{ID: id, Spawn: s}, int(ends[0].Fd()), int(ends[1].Fd()), int(ends[2].Fd()))
	if err != nil {
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
		return nil, err
	}
	select {
	case r := <-answer:
		return r.proc, r.err
	case <-ctx.Done():
	}
	// The supervisor does one thing after the other, so its answer will come.
	timeout := time.NewTimer(killWait)
	defer timeout.Stop()
	var r launched
	select {
	case r = <-answer:
	case <-timeout.C:
		l.abandon(id)
		select {
		case r = <-answer:
		default: // read ends the child when it hears of it
		}
	}
	if r.proc == nil {
		return nil, ctx.Err()
	}
	r.proc.kill()
	select {
	case <-r.proc.gone:
	case <-timeout.C:
		l.log.Error("server outlives SIGKILL", "pid", r.proc.pid)
	}
	return nil, ctx.Err()
}

func (l *link) abandon(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

// launched is the supervisor's answer to a command.
type launched struct {
	proc *process
	err  error
}

func raw(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}

// read takes what the supervisor says until it is gone.
func (l *link) read() {
	for {
		var r reply
		if _, err := readFrame(l.conn, &r); err != nil {
			l.end()
			return
		}
		l.hear(r)
	}
}

func (l *link) hear(r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.procs[r.ID]
	switch {
	case r.Log != "":
		l.log.Warn("supervisor of children", "says", r.Log)
	case r.Started != nil:
		p = l.linked(r.ID, *r.Started)
		l.procs[r.ID] = p
		l.answer(r.ID, launched{proc: &p.process})
	case r.Failed != nil:
		err := errors.New(r.Failed.Text)
		if r.Failed.Errno != 0 {
			err = syscall.Errno(r.Failed.Errno)
		}
		l.answer(r.ID, launched{err: err})
	case r.Exited != nil && p != nil:
		st := statusOf(syscall.WaitStatus(*r.Exited))
		st.memory = r.Memory
		p.exit(st)
	case r.Gone && p != nil:
		p.exit(status{code: -1, lost: "was ended with its host"})
		close(p.gone)
		delete(l.procs, r.ID)
	}
}

// answer passes an answer on; a child that nobody waits for any more is ended.
func (l *link) answer(id uint64, a launched) {
	to, ok := l.waiting[id]
	delete(l.waiting, id)
	if ok {
		to <- a
	} else if a.proc != nil {
		go a.proc.kill()
	}
}

func (l *link) linked(id uint64, as startedAs) *linked {
	p := &linked{id: procID(as)}
	p.pid = as.Pid
	p.exited, p.gone = make(chan struct{}), make(chan struct{})
	// When these fail the supervisor is gone, and end kills the child.
	p.signal = func(s syscall.Signal) { l.say(request{ID: id, Signal: int(s)}) }
	p.kill = func() { l.say(request{ID: id, Kill: true}) }
	return p
}

func (p *linked) exit(s status) {
	select {
	case <-p.exited:
	default:
		p.status = s
		close(p.exited)
	}
}

// end follows the supervisor's death. When that was not in order, its children
// have been killed by the kernel, and what they had started is killed here.
func (l *link) end() {
	l.mu.Lock()
	l.broken = true
	inOrder := l.closing
	waiting, procs := l.waiting, l.procs
	l.waiting, l.procs = nil, nil
	l.mu.Unlock()

	l.conn.Close()
	err := l.cmd.Wait()
	if err != nil || !inOrder {
		l.log.Error("supervisor of children ended", "error", err, "children", len(procs))
		leaders := make(map[procID]struct{}, len(procs))
		for _, p := range procs {
			leaders[p.id] = struct{}{}
		}
		group, _ := knownCgroup(l.cgroup, l.instance)
		if _, err := killLeft(l.instance, leaders, group); err != nil {
			l.log.Error("children are left", "error", err)
		}
	}
	for _, to := range waiting {
		to <- launched{err: errSupervisorGone}
	}
	for _, p := range procs {
		p.exit(status{code: -1, lost: "was ended because its supervisor has died"})
		close(p.gone)
	}
	close(l.dead)
}

func (l *link) close(ctx context.Context) error {
	l.mu.Lock()
	l.broken, l.closing = true, true
	l.mu.Unlock()
	l.conn.CloseWrite() // the supervisor kills what is left, and says so
	select {
	case <-l.dead:
		<-l.measured
		return nil
	case <-ctx.Done():
	}
	l.cmd.Process.Kill()
	select {
	case <-l.dead:
		<-l.measured
		return nil
	case <-time.After(killWait):
		return errors.New("stdio: the supervisor of children does not end")
	}
}
