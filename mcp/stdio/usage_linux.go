package stdio

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// How often servers are looked at: measureEvery, but so that looking takes no more than
// a twentieth of the time.
const (
	measureEvery = time.Second
	measureShare = 20
)

// ticksPerSecond is what Linux counts processor time in, on all that Go runs on.
const ticksPerSecond = 100

var pageSize = int64(os.Getpagesize())

// measure looks at the servers until the supervisor is gone.
func (l *link) measure() {
	defer close(l.measured)
	pause := time.NewTimer(measureEvery)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-l.dead:
			return
		}
		began := time.Now()
		l.look()
		pause.Reset(max(measureEvery, measureShare*time.Since(began)))
	}
}

// look measures each server once.
func (l *link) look() {
	type one struct {
		id  uint64
		pid int
		to  func(usage)
	}
	var all []one
	l.mu.Lock()
	for id, p := range l.procs {
		if to := p.onUsage.Load(); to != nil {
			all = append(all, one{id, p.pid, *to})
		}
	}
	l.mu.Unlock()
	if len(all) == 0 {
		return
	}
	t := processes()
	children := t.children()
	groups := map[int][]proc{}
	for _, p := range t {
		groups[p.session] = append(groups[p.session], p)
		if p.group != p.session {
			groups[p.group] = append(groups[p.group], p)
		}
	}
	for _, o := range all {
		u := t.usage(o.pid, children, groups, l.group(o.id))
		u.cpu = max(u.cpu, l.computed(o.id))
		o.to(u)
	}
}

// computed is the processor time of a server's control group: also of what has ended
// between two looks. None where there is none.
func (l *link) computed(id uint64) time.Duration {
	if l.cgroup == "" {
		return 0
	}
	b, _ := os.ReadFile(filepath.Join(l.cgroup, strconv.FormatUint(id, 10), "cpu.stat"))
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("usage_usec ")); ok {
			us, _ := strconv.ParseInt(string(n), 10, 64)
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}

// group lists the members of a server's control group; none where there is none.
func (l *link) group(id uint64) (pids []int) {
	if l.cgroup == "" {
		return nil
	}
	b, _ := os.ReadFile(filepath.Join(l.cgroup, strconv.FormatUint(id, 10), "cgroup.procs"))
	for f := range bytes.FieldsSeq(b) {
		if pid, err := strconv.Atoi(string(f)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// usage adds up a server's processes: those below it, of its process group and
// session, and of its control group.
func (t table) usage(pid int, children, groups map[int][]proc, more []int) (u usage) {
	seen := map[int]bool{}
	var ticks uint64
	var add func(p proc)
	add = func(p proc) {
		if seen[p.pid] {
			return
		}
		seen[p.pid] = true
		if !p.zombie {
			u.memory += p.pages * pageSize
			u.processes++
		}
		ticks += p.ticks
		for _, q := range children[p.pid] {
			add(q)
		}
	}
	if p, ok := t[pid]; ok {
		add(p)
	}
	for _, p := range groups[pid] {
		add(p)
	}
	for _, pid := range more {
		if p, ok := t[pid]; ok {
			add(p)
		}
	}
	u.cpu = time.Duration(ticks) * time.Second / ticksPerSecond
	return u
}
