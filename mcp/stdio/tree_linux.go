package stdio

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// markerVar is set in the environment of every child, and so in that of all it
// starts, unless they take it out. Its value is one word for each host around
// the process (a child may be a host itself), the innermost last.
const markerVar = "KALPA_RUNTIME"

// marker is the word for a runtime: its host, then its number.
func marker(instance string, id uint64) string {
	return instance + "." + strconv.FormatUint(id, 10)
}

// proc is one process in a [table]. A pid alone names a process only until it is
// given away again; pid and start time name it for good.
type proc struct {
	pid, parent, group, session int
	start                       uint64 // clock ticks after the machine's start
	zombie                      bool
	pages                       int64  // in physical memory
	ticks                       uint64 // of processor time, its own and that of children it has waited for
}

// table is the processes of the machine at about one time.
type table map[int]proc

// processes reads the table from /proc.
func processes() table {
	t := table{}
	dir, err := os.Open("/proc")
	if err != nil {
		return t
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			t[pid] = p
		}
	}
	return t
}

func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat, whose second field is the program's name in
// parentheses and may contain anything.
func parseStat(pid int, b []byte) (proc, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return proc{}, false
	}
	f := strings.Fields(string(b[i+1:])) // from the third field on
	if len(f) < 20 {
		return proc{}, false
	}
	p := proc{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		n, err := strconv.Atoi(f[1+i])
		if err != nil {
			return proc{}, false
		}
		*to = n
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	p.start = start
	for _, field := range f[11:15] {
		n, _ := strconv.ParseUint(field, 10, 64) // of children it is signed, and never negative
		p.ticks += n
	}
	if len(f) > 21 {
		p.pages, _ = strconv.ParseInt(f[21], 10, 64)
	}
	return p, err == nil
}

// children is the table by parent.
func (t table) children() map[int][]proc {
	c := make(map[int][]proc, len(t))
	for _, p := range t {
		c[p.parent] = append(c[p.parent], p)
	}
	return c
}

// kill sends SIGKILL to the process, and never to another one that has got its
// pid in the meantime.
func (p proc) kill() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if err == unix.ENOSYS || err == unix.EPERM { // before Linux 5.3, or a sandbox
			if now, ok := readProc(p.pid); ok && now.start == p.start {
				return syscall.Kill(p.pid, syscall.SIGKILL)
			}
			return unix.ESRCH
		}
		return err
	}
	defer unix.Close(fd)
	// The descriptor holds on to whoever has the pid now: see that it is the one.
	if now, ok := readProc(p.pid); !ok || now.start != p.start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// markers are the words of a process's marker variable; none when the process
// is another user's, or has cleaned its environment.
func (p proc) markers() []string {
	if p.zombie || p.pid == kthreadd || p.parent == kthreadd {
		return nil
	}
	dir := "/proc/" + strconv.Itoa(p.pid)
	env, err := os.ReadFile(dir + "/environ")
	// In the middle of an exec there is no environment, nor anything else: see
	// what the process is when it is through.
	for i := 0; err == nil && len(env) == 0 && i < 20; i++ {
		if args, err := os.ReadFile(dir + "/cmdline"); err != nil || len(args) > 0 {
			break
		}
		time.Sleep(100 * time.Microsecond)
		env, err = os.ReadFile(dir + "/environ")
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(markerVar+"=")); ok {
			return strings.Fields(string(value))
		}
	}
	return nil
}

// kthreadd is the parent of the kernel's own threads.
const kthreadd = 2

// markedBy says whether a process carries the mark of a host.
func (p proc) markedBy(instance string) bool {
	for _, m := range p.markers() {
		if host, _, _ := strings.Cut(m, "."); host == instance {
			return true
		}
	}
	return false
}

// bootID tells one run of the machine from another; pidSpace one numbering of
// processes (that of a container) from another.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(b))
}

func pidSpace() string {
	s, _ := os.Readlink(filepath.Join("/proc/self/ns", "pid"))
	return s
}
