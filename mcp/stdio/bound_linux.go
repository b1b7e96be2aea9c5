package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostGroup is the group that a host moves to, with its supervisor: the system bounds
// the groups below one only when no process is in that one itself. It is left when the
// host ends, for the next one; a service manager takes it away with its unit.
const hostGroup = "kalpa-host"

// bound makes the groups of children bound their memory. ours are the processes that may
// be moved for it; when others are beside them, nothing is moved.
func (c *cgroup) bound(ours ...int) error {
	base := filepath.Dir(c.dir)
	offered, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(offered)), "memory") {
		return fmt.Errorf("the system grants no control of memory in %s", base)
	}
	err = control(base)
	if errors.Is(err, unix.EBUSY) {
		if err = makeRoom(base, ours); err == nil {
			err = control(base)
		}
	}
	if err != nil {
		return err
	}
	return control(c.dir)
}

// control has the system control the memory of each group below one.
func control(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0)
}

// makeRoom moves the processes in a group to one below it.
func makeRoom(dir string, ours []int) error {
	members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for m := range bytes.FieldsSeq(members) {
		if pid, err := strconv.Atoi(string(m)); err != nil || !slices.Contains(ours, pid) {
			return fmt.Errorf("other processes than the host's are in its control group, %s", dir)
		}
	}
	to := filepath.Join(dir, hostGroup)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, pid := range ours {
		if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

// limit bounds the memory of a child, with all that it has started, swap included.
// When it needs more, all of it is killed.
func (c *cgroup) limit(memory int64) error {
	if memory <= 0 {
		return nil
	}
	for _, set := range []struct{ file, value string }{
		{"memory.oom.group", "1"}, {"memory.swap.max", "0"}, {"memory.max", strconv.FormatInt(memory, 10)},
	} {
		err := os.WriteFile(filepath.Join(c.dir, set.file), []byte(set.value), 0)
		if err != nil && (set.file != "memory.swap.max" || !errors.Is(err, os.ErrNotExist)) { // a system may have no swap
			return err
		}
	}
	return nil
}

// outOfMemory tells whether the system has killed somebody in the group for memory, and
// whether that was for the group's own limit.
func (c *cgroup) outOfMemory() (killed, own bool) {
	b, _ := os.ReadFile(filepath.Join(c.dir, "memory.events")) // none without control of memory
	for line := range bytes.Lines(b) {
		var name string
		var n int64
		_, _ = fmt.Sscan(string(line), &name, &n)
		killed = killed || name == "oom_kill" && n > 0
		own = own || name == "oom" && n > 0
	}
	return killed, own
}

// Enforced says how the memory of the children of a host with this RunDir is bounded:
// of the one that runs, else of one that would be started as this process was.
func Enforced(runDir string) Enforcement {
	paths, _ := filepath.Glob(filepath.Join(runDir, recordPrefix+"*"+recordSuffix))
	for _, path := range paths {
		if head, _, err := readRecord(path); err == nil && head.PidSpace == pidSpace() && head.Supervisor.runs() {
			return Enforcement{Running: true, Bound: head.Cgroup != "" && head.Unbound == "", Why: head.Unbound}
		}
	}
	base, err := baseCgroup()
	if err != nil {
		return Enforcement{Why: err.Error()}
	}
	for _, file := range []string{".", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(base, file), unix.W_OK); err != nil {
			return Enforcement{Why: fmt.Sprintf("%s is not this user's to change", base)}
		}
	}
	offered, _ := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if !slices.Contains(strings.Fields(string(offered)), "memory") {
		return Enforcement{Why: fmt.Sprintf("the system grants no control of memory in %s", base)}
	}
	if _, err := os.Stat(filepath.Join(base, "cgroup.type")); err == nil { // else it is the root, which may have members
		for m := range strings.FieldsSeq(readString(filepath.Join(base, "cgroup.procs"))) {
			if m != strconv.Itoa(os.Getpid()) {
				return Enforcement{Why: fmt.Sprintf("other processes than a host's are in %s", base)}
			}
		}
	}
	return Enforcement{Bound: true}
}

func readString(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
