package stdio

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestASweepPicksNoStranger(t *testing.T) {
	live := procID{100, 5}
	gone := procID{200, 6}
	reused := procID{300, 7}
	leaders := map[procID]struct{}{live: {}, gone: {}, reused: {}}
	at := table{}
	add := func(pid, parent, group, session int, start uint64) {
		at[pid] = proc{pid: pid, parent: parent, group: group, session: session, start: start}
	}
	add(1, 0, 1, 1, 0)
	add(100, 1, 100, 100, 5)   // recorded, itself
	add(101, 1, 100, 100, 6)   // in its group
	add(102, 101, 102, 102, 6) // has left it, but for its parent
	add(103, 1, 103, 100, 6)   // in its session
	add(201, 1, 200, 200, 90)  // in a group whose number was given away since
	add(300, 1, 300, 300, 80)  // has the number of a recorded one
	add(301, 300, 300, 300, 81)
	add(400, 1, 400, 400, 1) // a stranger
	add(500, 1, 500, 500, 1)
	picked := func() []int { return slices.Sorted(maps.Keys(leftovers(at, "nobody", leaders))) }
	if got, want := picked(), []int{100, 101, 102, 103}; !slices.Equal(got, want) {
		t.Errorf("picked %v, want %v", got, want)
	}
	at[101] = proc{pid: 101, parent: 1, group: 100, session: 100, start: 6, zombie: true}
	if got, want := picked(), []int{100, 102, 103}; !slices.Equal(got, want) {
		t.Errorf("with a zombie: picked %v, want %v", got, want)
	}
	// The sweep itself may run below what it sweeps.
	self := os.Getpid()
	at[self] = proc{pid: self, parent: 102, group: 100, session: 100, start: 9}
	if got, want := picked(), []int{100, 103}; !slices.Contains(got, 103) || slices.Contains(got, self) || slices.Contains(got, 102) {
		t.Errorf("below its own victims: picked %v, want %v less its ancestors", got, want)
	}
}

func TestAProcessIsKilledOnlyIfItIsTheOneThatWasMeant(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := mustProc(t, cmd.Process.Pid)
	other := p
	other.start--
	if err := other.kill(); err == nil {
		t.Error("a process with another start time was killed")
	}
	if again := mustProc(t, p.pid); again.zombie {
		t.Fatal("it is dead")
	}
	if err := p.kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// leave writes the record of a host that has ended, with a child of it.
func leave(t *testing.T, dir string, change func(*recordHead)) (path string, child *exec.Cmd) {
	t.Helper()
	child = exec.Command("sleep", "1000")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func(c *exec.Cmd) { // at once, as whoever has inherited it would
		defer close(reaped)
		c.Wait()
	}(child)
	t.Cleanup(func() { child.Process.Kill(); <-reaped })
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	nobody := procID{ended.Process.Pid, 1}
	head := recordHead{Instance: newTag(), Boot: bootID(), PidSpace: pidSpace(), Host: nobody, Supervisor: nobody}
	change(&head)
	r, err := newRecord(dir, head)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.began(mustProc(t, child.Process.Pid).id()); err != nil {
		t.Fatal(err)
	}
	r.f.Close()
	return r.path, child
}

func TestASweepBelievesOnlyARecordOfThisRunOfTheMachine(t *testing.T) {
	self := mustProc(t, os.Getpid()).id()
	for _, c := range []struct {
		name         string
		change       func(*recordHead)
		killed, kept bool
	}{
		{"ended", func(h *recordHead) {}, true, false},
		{"another run of the machine", func(h *recordHead) { h.Boot = "x" }, false, false},
		{"another container", func(h *recordHead) { h.PidSpace = "pid:[1]" }, false, false},
		{"a living host", func(h *recordHead) { h.Host = self }, false, true},
		{"the host's pid was given away", func(h *recordHead) { h.Host = procID{self.Pid, self.Start - 1} }, true, false},
		{"a cgroup that no host makes", func(h *recordHead) { h.Cgroup = "/sys/fs/cgroup/system.slice" }, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, child := leave(t, dir, c.change)
			n, err := Sweep(dir, nil)
			if killed := n == 1; killed != c.killed {
				t.Errorf("killed %d, error %v", n, err)
			}
			_, there := readProc(child.Process.Pid)
			p, _ := readProc(child.Process.Pid)
			if alive := there && !p.zombie; alive == c.killed {
				t.Errorf("the child is alive: %v", alive)
			}
			if _, err := os.Stat(path); (err == nil) != c.kept {
				t.Errorf("the record: %v, want it kept: %v", err, c.kept)
			}
		})
	}
}

func TestASweepReportsWhatItCantRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newer, _ := json.Marshal(recordHead{Format: 2, Instance: "b"})
	write("stdio-a.run", "junk")
	write("stdio-b.run", string(newer))
	write("stdio-c.run", "")
	write("stdio-d.run", `{"Format":1,"Instance":"other"}`)
	path, _ := leave(t, dir, func(*recordHead) {})
	n, err := Sweep(dir, nil)
	if n != 1 {
		t.Errorf("killed %d, want the one that can be read about", n)
	}
	if err == nil {
		t.Fatal("no error")
	}
	has(t, err.Error(), "stdio-a.run", "format 2", "stdio-c.run is empty", `another host, "other"`)
	if strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if n, err := Sweep(t.TempDir()+"/none", nil); n != 0 || err != nil {
		t.Errorf("a folder that is not there: %d, %v", n, err)
	}
}

func TestARecordKnowsWhoIsAliveAndStaysSmall(t *testing.T) {
	dir := t.TempDir()
	r, err := newRecord(dir, recordHead{Instance: "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[procID]struct{}{}
	for i := range 10_000 {
		id := procID{i, uint64(i) * 7}
		if err := r.began(id); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			want[id] = struct{}{}
		} else if err := r.gone(id); err != nil {
			t.Fatal(err)
		}
	}
	r.f.WriteString("+ 12") // the machine stopped here
	r.f.Close()
	_, got, err := readRecord(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d are alive, want %d", len(got), len(want))
	}
	b, _ := os.ReadFile(r.path)
	if n := strings.Count(string(b), "\n"); n > recordSlack+len(want)+1 {
		t.Errorf("the record has %d lines", n)
	}
}

func TestTheNameOfAProcessCantHideItsStartTime(t *testing.T) {
	stat := func(name string) []byte {
		return fmt.Appendf(nil, "42 (%s) S 1 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1", name)
	}
	for _, name := range []string{"sh", "a b", ") R 2 3 4 (", "x) Z 9 9 9", ""} {
		p, ok := parseStat(42, stat(name))
		want := proc{pid: 42, parent: 1, group: 42, session: 41, start: 12345, pages: 1}
		if !ok || p != want {
			t.Errorf("%q: got %+v %v", name, p, ok)
		}
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2", "42 (x) S a b c 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1"} {
		if _, ok := parseStat(42, []byte(bad)); ok {
			t.Errorf("%q was understood", bad)
		}
	}
}

func TestAHostInsideAChildOfAnotherIsMarkedByBoth(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{markerVar + "=outer.7 inner.1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	p := mustProc(t, cmd.Process.Pid)
	// For a moment after its start a process has no environment that could be read.
	eventually(t, "the mark can be read", func() bool { return p.markedBy("outer") })
	for host, want := range map[string]bool{"outer": true, "inner": true, "out": false, "outer.7": false, "ner": false} {
		if got := p.markedBy(host); got != want {
			t.Errorf("marked by %q: %v", host, got)
		}
	}
}
