package stdio

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// sweepWait is how long a supervisor that is still at work is left to it.
const sweepWait = 3 * time.Second

// Sweep ends the processes that earlier hosts with this RunDir have left: there
// are some only when a host and its supervisor were killed together. Call it at
// the start, once the host has its data folder to itself. killed counts the
// processes; an error names what could not be ended or understood, and is no
// reason not to start.
func Sweep(dir string, log *slog.Logger) (killed int, err error) {
	if log == nil {
		log = slog.Default()
	}
	paths, err := filepath.Glob(filepath.Join(dir, recordPrefix+"*"+recordSuffix))
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, path := range paths {
		n, err := sweep(path, log)
		killed += n
		if err != nil {
			errs = append(errs, fmt.Errorf("stdio: sweeping %s: %w", path, err))
		}
	}
	return killed, errors.Join(errs...)
}

func sweep(path string, log *slog.Logger) (killed int, err error) {
	head, leaders, err := readRecord(path)
	switch {
	case errors.Is(err, os.ErrNotExist): // its supervisor has just finished
		return 0, nil
	case err != nil:
		return 0, err
	case head.Boot != bootID() || head.PidSpace != pidSpace():
		// The processes went with the machine's run, or with the container.
		return 0, os.Remove(path)
	case head.Host.runs():
		log.Debug("children of a host that is alive are left alone", "record", path)
		return 0, nil
	}
	for end := time.Now().Add(sweepWait); head.Supervisor.runs() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if head.Supervisor.runs() {
		leaders[head.Supervisor] = struct{}{}
	}
	group, err := knownCgroup(head.Cgroup, head.Instance)
	if err != nil {
		return 0, err
	}
	killed, err = killLeft(head.Instance, leaders, group)
	if killed > 0 {
		log.Warn("processes of an earlier host were left, and are killed now",
			"host", head.Instance, "processes", killed)
	}
	if err != nil {
		return killed, err
	}
	return killed, errors.Join(ignoreMissing(os.Remove(path)), ignoreMissing(os.Remove(path+".new")))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// killLeft kills what a host without a supervisor has left: its cgroup, its
// children and their groups, all that carries its mark, and whatever these have
// started. It returns when all of it is gone.
func killLeft(instance string, leaders map[procID]struct{}, group *cgroup) (killed int, err error) {
	seen := map[procID]struct{}{}
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, slowest) {
		t := processes()
		left := leftovers(t, instance, leaders)
		if group != nil {
			for _, p := range group.members(t) {
				left[p.pid] = p
			}
			group.kill()
		}
		for _, p := range left {
			seen[p.id()] = struct{}{}
			p.kill()
		}
		if len(left) == 0 && (group == nil || group.empty()) {
			if group != nil {
				group.remove()
			}
			return len(seen), nil
		}
		if time.Now().After(deadline) {
			return len(seen), fmt.Errorf("these processes outlive SIGKILL: %v", slices.Sorted(maps.Keys(left)))
		}
		time.Sleep(pause)
	}
}

// leftovers picks what a host has left out of the table. It must never pick a
// stranger. A recorded child is itself only with its recorded start time. Its
// process group and session carry its number, which the system does not give
// away while one of them has a member; but afterwards it does. So a member is
// picked while the child itself is there to vouch for it, else by its mark.
func leftovers(t table, instance string, leaders map[procID]struct{}) map[int]proc {
	alive := map[int]bool{}
	for id := range leaders {
		if p, ok := t[id.Pid]; ok && p.start == id.Start {
			alive[id.Pid] = true
		}
	}
	spared := ancestors(t, os.Getpid())
	left := map[int]proc{}
	children := t.children()
	var add func(p proc)
	add = func(p proc) {
		if _, again := left[p.pid]; again || spared[p.pid] {
			return
		}
		if !p.zombie { // one that has ended is its parent's to reap
			left[p.pid] = p
		}
		for _, q := range children[p.pid] {
			add(q)
		}
	}
	for _, p := range t {
		if alive[p.pid] || alive[p.group] || alive[p.session] || p.markedBy(instance) {
			add(p)
		}
	}
	return left
}

// ancestors are a process and all above it, which a sweep never kills: it may
// run below something that an earlier host has started.
func ancestors(t table, pid int) map[int]bool {
	up := map[int]bool{1: true}
	for pid > 0 && !up[pid] {
		up[pid] = true
		pid = t[pid].parent
	}
	return up
}
