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
)

// cgroupPrefix begins the name of a host's control group.
const cgroupPrefix = "kalpa-"

// cgroup is the control group (version 2) of one host's children, which has one
// for each child below it. Membership is inherited, and leaving needs the right
// to write there, so killing a group misses nobody: no race, no disguise.
type cgroup struct{ dir string }

// newCgroup makes the control group beside this process, which takes the system's
// consent: the host runs as root, or in a tree that was delegated to its user.
func newCgroup(instance string) (*cgroup, error) {
	base, err := baseCgroup()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, cgroupPrefix+instance)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // since Linux 5.14
		os.Remove(dir)
		return nil, err
	}
	return &cgroup{dir}, nil
}

// baseCgroup is the folder of the group that this process was started in: above its own
// when that is the one that hosts move to.
func baseCgroup() (string, error) {
	dir, err := ownCgroup()
	if err == nil && filepath.Base(dir) == hostGroup {
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// ownCgroup is the folder of the group that this process is in.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := ""
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return "", errors.New("no cgroup of version 2")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	pid := []byte(strconv.Itoa(os.Getpid()))
	for line := range strings.Lines(string(mounts)) {
		mount, kind, _ := strings.Cut(line, " - ")
		f := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(f) < 5 {
			continue
		}
		below, err := filepath.Rel(f[3], path) // the mount may show a part of the tree
		if err != nil || strings.HasPrefix(below, "..") {
			continue
		}
		dir := filepath.Join(f[4], below)
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && slices.ContainsFunc(bytes.Fields(members), func(m []byte) bool { return bytes.Equal(m, pid) }) {
			return dir, nil
		}
	}
	return "", errors.New("this process's cgroup is not mounted")
}

// child makes the group of one child.
func (c *cgroup) child(id uint64) (*cgroup, error) {
	dir := filepath.Join(c.dir, strconv.FormatUint(id, 10))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return &cgroup{dir}, nil
}

// kill sends SIGKILL to all in the group and in those below it.
func (c *cgroup) kill() error {
	return os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
}

// empty says whether nobody is left in the group or below it.
func (c *cgroup) empty() bool {
	b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.events"))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && bytes.Contains(b, []byte("populated 0"))
}

// remove takes the group away, with those below it.
func (c *cgroup) remove() {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.IsDir() {
			(&cgroup{filepath.Join(c.dir, e.Name())}).remove()
		}
	}
	os.Remove(c.dir)
}

// knownCgroup is the group that a record names, if it is one that a host makes:
// what stands in a file must not be able to point anywhere else.
func knownCgroup(dir, instance string) (*cgroup, error) {
	if dir == "" {
		return nil, nil
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || filepath.Base(dir) != cgroupPrefix+instance {
		return nil, fmt.Errorf("%s is not the cgroup of host %s", dir, instance)
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		return nil, nil //nolint:nilerr // it is gone, and all that was in it
	}
	return &cgroup{dir}, nil
}

// members are the processes in the group and below it.
func (c *cgroup) members(t table) (in []proc) {
	b, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	for f := range bytes.FieldsSeq(b) {
		pid, err := strconv.Atoi(string(f))
		if p, ok := t[pid]; err == nil && ok && !p.zombie {
			in = append(in, p)
		}
	}
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.IsDir() {
			in = append(in, (&cgroup{filepath.Join(c.dir, e.Name())}).members(t)...)
		}
	}
	return in
}
