package stdio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// supervisorVar and supervisorName make a start of the host's own program one
	// of its supervisor.
	supervisorVar  = "KALPA_STDIO_SUPERVISOR"
	supervisorName = "kalpa-stdio-supervisor"
	// supervisorFd is its end of the sockets.
	supervisorFd = 3
	// endWait is how long a supervisor whose host is gone goes on killing. What is
	// left then is stuck in the kernel, and stays in the record.
	endWait = time.Minute
	// slowest is the longest pause between two looks at what should be gone.
	slowest = 100 * time.Millisecond
)

// A program that embeds this package is started again as its own supervisor.
// Package initialization is the one place that is reached in every such program
// before it does anything of its own: test binaries and other people's main
// functions included. One that forgot to call us from main would start itself
// over and over.
func init() {
	if os.Getenv(supervisorVar) == "" || os.Args[0] != supervisorName {
		return
	}
	os.Exit(supervise())
}

// supervisor is the process that starts a host's children and outlives the host
// by as long as it takes to end them. As the parent of the children and the
// adopter of all orphans among their descendants, it can find them all.
//
// One goroutine does all, on the thread that the children are bound to: when it
// ends, the kernel kills them.
type supervisor struct {
	conn   *net.UnixConn
	hello  hello
	cgroup *cgroup // nil where there is none
	// useCgroup is whether new children get one, and unbound why it does not bound their
	// memory.
	useCgroup bool
	unbound   string
	record    *record // nil without a run folder

	around []string // the marks of hosts that this one runs below

	children map[uint64]*child // until nothing is left of them
	leaders  map[int]*child    // by pid, until reaped
}

type child struct {
	id      uint64
	proc    procID
	cgroup  *cgroup
	reaped  bool
	killing bool
}

func supervise() int {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	// The terminal's signals don't reach a session of its own, but a service
	// manager sends to all that it knows. The host decides when we end. SIGPIPE is
	// taken so that a message to a dead host is an error and no death.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	childEnded := make(chan os.Signal, 1)
	signal.Notify(childEnded, syscall.SIGCHLD)
	// Nothing that whoever started the host left open goes to the children.
	unix.CloseRange(supervisorFd, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	os.WriteFile("/proc/self/comm", []byte("kalpa-stdio"), 0) // else it is "exe"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "no subreaper:", err)
	}

	file := os.NewFile(supervisorFd, "host")
	c, err := net.FileConn(file)
	file.Close()
	conn, ok := c.(*net.UnixConn)
	if err != nil || !ok {
		fmt.Fprintln(os.Stderr, "no connection to a host:", err)
		return 2
	}
	s := &supervisor{conn: conn, children: map[uint64]*child{}, leaders: map[int]*child{}}
	var first request
	if _, err := readFrame(conn, &first); err != nil || first.Hello == nil {
		fmt.Fprintln(os.Stderr, "no host:", err)
		return 2
	}
	if err := s.begin(*first.Hello); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.serve(childEnded)
	s.endAll()
	return 0
}

func (s *supervisor) begin(h hello) error {
	s.hello = h
	self, _ := readProc(os.Getpid())
	s.around = slices.Clip(self.markers())
	s.unbound = "control groups are not used"
	if !h.NoCgroup {
		c, err := newCgroup(h.Instance)
		if err != nil {
			s.unbound = err.Error()
			s.say(reply{Log: "no cgroups for children: " + err.Error()})
		} else {
			s.cgroup, s.useCgroup, s.unbound = c, true, ""
			if err := c.bound(h.HostPid, os.Getpid()); err != nil {
				s.unbound = err.Error()
			}
		}
	}
	ready := reply{Ready: true, Unbound: s.unbound}
	if s.cgroup != nil {
		ready.Cgroup = s.cgroup.dir
	}
	if h.RunDir != "" {
		r, err := newRecord(h.RunDir, recordHead{
			Instance: h.Instance, Boot: bootID(), PidSpace: pidSpace(),
			Host: procID{h.HostPid, h.HostStart}, Supervisor: self.id(), Cgroup: ready.Cgroup, Unbound: s.unbound,
		})
		if err != nil {
			if s.cgroup != nil {
				s.cgroup.remove()
			}
			return fmt.Errorf("the record of children can't be written: %w", err)
		}
		s.record = r
	}
	s.say(ready)
	return nil
}

// say tells the host; when that fails the host is gone, which serve notices.
func (s *supervisor) say(r reply) { _ = writeFrame(s.conn, r) }

// serve does what the host asks until it is gone or wants no more.
func (s *supervisor) serve(childEnded <-chan os.Signal) {
	requests := make(chan request)
	go func() {
		defer close(requests)
		for {
			var r request
			files, err := readFrame(s.conn, &r)
			r.files = files
			if err != nil {
				closeFds(files)
				return
			}
			requests <- r
		}
	}()
	pause := time.Millisecond
	again := time.NewTimer(time.Hour)
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return
			}
			if s.handle(r) {
				pause = time.Millisecond
			}
		case <-childEnded:
			if s.reap() {
				pause = time.Millisecond
			}
		case <-again.C:
			pause = min(2*pause, slowest)
		}
		if s.finish() {
			again.Reset(pause)
		} else {
			again.Stop()
		}
	}
}

func closeFds(fds []int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}

// handle says whether there is something new to kill.
func (s *supervisor) handle(r request) bool {
	if r.Spawn != nil {
		err := s.spawn(r)
		closeFds(r.files)
		if err != nil {
			failed := &spawnError{Text: err.Error()}
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				failed.Errno = int(errno)
			}
			s.say(reply{ID: r.ID, Failed: failed})
		}
		return false
	}
	c := s.children[r.ID]
	switch {
	case c == nil:
	case r.Kill:
		c.killing = true
		return true
	case r.Signal != 0 && !c.reaped: // while it is not reaped, its number is its own
		syscall.Kill(-c.proc.Pid, syscall.Signal(r.Signal))
	}
	return false
}

func (s *supervisor) spawn(r request) error {
	if len(r.files) != 3 {
		return fmt.Errorf("%d descriptors came with the command", len(r.files))
	}
	c := &child{id: r.ID}
	env := text(r.Spawn.Env)
	mark := strings.Join(append(s.around, marker(s.hello.Instance, r.ID)), " ")
	env = append(env, markerVar+"="+mark)
	attr := &syscall.ProcAttr{
		Dir: string(r.Spawn.Dir), Env: env,
		Files: []uintptr{uintptr(r.files[0]), uintptr(r.files[1]), uintptr(r.files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	path, args := string(r.Spawn.Path), text(r.Spawn.Args)
	pid, err := s.forkIn(c, r.Spawn.Memory, path, args, attr)
	if err != nil && s.useCgroup {
		// It may have been the cgroup's fault, or the command's.
		before := err
		if pid, err = syscall.ForkExec(path, args, attr); err == nil {
			s.useCgroup = false
			s.say(reply{Log: "children are started without cgroups from now on: " + before.Error()})
		}
	}
	if err != nil {
		return err
	}
	if err := confine(pid, *r.Spawn); err != nil {
		s.say(reply{Log: "a child runs without its limits: " + err.Error()})
	}
	p, _ := readProc(pid)
	c.proc = procID{pid, p.start}
	s.children[c.id], s.leaders[pid] = c, c
	if s.record != nil {
		if err := s.record.began(c.proc); err != nil {
			s.say(reply{Log: "the record of children can't be written: " + err.Error()})
		}
	}
	s.say(reply{ID: c.id, Started: &startedAs{c.proc.Pid, c.proc.Start}})
	return nil
}

// systemsPatience is how much longer than its server's limit a process may compute
// before the system kills it. The system says nothing of why, so that is for a server
// whose usage nobody has looked at in the meantime.
const systemsPatience = 5 * time.Second

// confine sets the limits that the system keeps, for a child and all that it is going to
// start. It has just begun: there is nothing yet that could have been too much.
func confine(pid int, s spawn) error {
	set := func(what int, n uint64) error {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, what, nil, &now); err != nil {
			return err
		}
		n = min(n, now.Max)
		return unix.Prlimit(pid, what, &unix.Rlimit{Cur: n, Max: n}, nil)
	}
	errs := []error{set(unix.RLIMIT_CORE, 0)} // a core has the child's secrets
	if s.Files > 0 {
		errs = append(errs, set(unix.RLIMIT_NOFILE, uint64(s.Files)))
	}
	if s.CPU > 0 {
		errs = append(errs, set(unix.RLIMIT_CPU, uint64((s.CPU+systemsPatience)/time.Second)))
	}
	err := errors.Join(errs...)
	if errors.Is(err, unix.ESRCH) { // it is gone already
		return nil
	}
	return err
}

// forkIn starts a child in a cgroup of its own, where there are any.
func (s *supervisor) forkIn(c *child, memory int64, path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if !s.useCgroup {
		return syscall.ForkExec(path, args, attr)
	}
	g, err := s.cgroup.child(c.id)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	dir, err := os.Open(g.dir)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if s.unbound == "" {
		if err := g.limit(memory); err != nil {
			s.say(reply{Log: "the system does not bound a child's memory: " + err.Error()})
		}
	}
	in, sys := *attr, *attr.Sys
	sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	in.Sys = &sys
	if pid, err = syscall.ForkExec(path, args, &in); err == nil {
		c.cgroup = g
	}
	return pid, err
}

func text(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

// reap collects all that has ended, orphans too, and says whether a child of
// ours was among them.
func (s *supervisor) reap() (ours bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return ours
		}
		c := s.leaders[pid]
		if c == nil {
			continue
		}
		delete(s.leaders, pid)
		c.reaped, c.killing, ours = true, true, true
		st := uint32(ws)
		s.say(reply{ID: c.id, Exited: &st, Memory: c.outOfMemory()})
	}
}

// outOfMemory says what the system has killed a child for, when that was memory, in
// words that follow "the server".
func (c *child) outOfMemory() string {
	if c.cgroup == nil {
		return ""
	}
	switch killed, own := c.cgroup.outOfMemory(); {
	case killed && own:
		return "needed more memory than its limit, so the system ended it"
	case killed:
		return "was ended by the system, which had no memory left for it"
	}
	return ""
}

// finish goes on with what is to be killed, and says whether something is left
// of it.
func (s *supervisor) finish() (left bool) {
	for {
		left = s.killOnce()
		if !left || !s.reap() {
			return left
		}
	}
}

// killOnce kills all that is to be killed and is there now.
func (s *supervisor) killOnce() (left bool) {
	look, spare := false, false
	for _, c := range s.children {
		look = look || c.killing && c.cgroup == nil
		spare = spare || !c.killing
	}
	var members map[*child][]proc
	var strays []proc
	if look {
		members, strays = s.owners(processes())
	}
	if spare {
		// Whose a stray is can't be told: while there is somebody it could belong
		// to that is to live, it lives too.
		strays = nil
	}
	for _, p := range strays {
		p.kill()
	}
	for _, c := range s.children {
		if !c.killing {
			continue
		}
		if s.end(c, members[c]) && len(strays) == 0 {
			s.gone(c)
		} else {
			left = true
		}
	}
	return left
}

// end kills what is left of a child, and says whether nothing is.
func (s *supervisor) end(c *child, members []proc) bool {
	if c.cgroup != nil {
		if c.reaped && c.cgroup.empty() {
			return true
		}
		if err := c.cgroup.kill(); err == nil {
			return false
		}
	}
	if !c.reaped {
		// At once for the whole group: none of it can fork meanwhile.
		syscall.Kill(-c.proc.Pid, syscall.SIGKILL)
	}
	for _, p := range members {
		if !p.zombie {
			p.kill()
		}
	}
	return c.reaped && len(members) == 0
}

func (s *supervisor) gone(c *child) {
	if c.cgroup != nil {
		c.cgroup.remove()
	}
	delete(s.children, c.id)
	if s.record != nil {
		if err := s.record.gone(c.proc); err != nil {
			s.say(reply{Log: "the record of children can't be written: " + err.Error()})
		}
	}
	s.say(reply{ID: c.id, Gone: true})
}

// owners finds out which child each descendant belongs to. Below a child that is
// easy; an orphan, which is ours since its parent's death, is known by its mark,
// its process group or its session. One that has shed all three is a stray.
func (s *supervisor) owners(t table) (members map[*child][]proc, strays []proc) {
	members = map[*child][]proc{}
	children := t.children()
	var below func(p proc, c *child)
	below = func(p proc, c *child) {
		if c == nil {
			strays = append(strays, p)
		} else {
			members[c] = append(members[c], p)
		}
		for _, q := range children[p.pid] {
			below(q, c)
		}
	}
	for _, p := range children[os.Getpid()] {
		below(p, s.owner(p))
	}
	return members, strays
}

func (s *supervisor) owner(p proc) *child {
	if c := s.leaders[p.pid]; c != nil {
		return c
	}
	for _, m := range p.markers() {
		for _, c := range s.children {
			if m == marker(s.hello.Instance, c.id) {
				return c
			}
		}
	}
	for _, c := range s.children {
		if p.session == c.proc.Pid || p.group == c.proc.Pid {
			return c
		}
	}
	return nil
}

// endAll kills all descendants until there are none.
func (s *supervisor) endAll() {
	deadline := time.Now().Add(endWait)
	for pause := time.Millisecond; ; pause = min(2*pause, slowest) {
		if s.cgroup != nil {
			s.cgroup.kill()
		}
		left := 0
		children := processes().children()
		var below func(pid int)
		below = func(pid int) {
			for _, p := range children[pid] {
				left++
				if !p.zombie {
					p.kill()
				}
				below(p.pid)
			}
		}
		below(os.Getpid())
		s.reap()
		if left == 0 && (s.cgroup == nil || s.cgroup.empty()) {
			break
		}
		if time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
	for id := range s.children {
		s.say(reply{ID: id, Gone: true})
	}
	if s.cgroup != nil {
		s.cgroup.remove()
	}
	if s.record != nil {
		s.record.remove()
	}
}
