package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostMain is a host of its own process: it starts the servers that hostVar
// describes, says "ready", with the pid of its supervisor, and waits to be killed.
func hostMain() {
	var plan hostPlan
	if err := json.Unmarshal([]byte(os.Getenv(hostVar)), &plan); err != nil {
		panic(err)
	}
	supervisor := 0
	for _, c := range plan.Servers {
		c.noCgroup = plan.NoCgroup
		p := New(c)
		s := newSession()
		r, err := p.Build(context.Background(), s)
		if err != nil {
			panic(err)
		}
		if err := r.Deliver(context.Background(), newRequest("1", "echo", "{}")); err != nil {
			panic(err)
		}
		select {
		case <-s.sent:
		case err := <-s.exited:
			panic(err)
		}
		if l, ok := p.launcher.cur.(*link); ok {
			supervisor = l.cmd.Process.Pid
		}
	}
	fmt.Println("ready", supervisor)
	hang()
}

type hostPlan struct {
	Servers  []Config
	NoCgroup bool
}

type testHost struct {
	*exec.Cmd
	supervisor int
	tag        string
}

// newHost starts a host of one server of each mode.
func newHost(t *testing.T, runDir string, noCgroup bool, modes ...string) *testHost {
	t.Helper()
	tag := newTag()
	plan := hostPlan{NoCgroup: noCgroup}
	for _, mode := range modes {
		c := configOf(t, mode, tag)
		c.RunDir, c.Logger = runDir, nil
		plan.Servers = append(plan.Servers, c)
	}
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	h := &testHost{Cmd: exec.Command(exe), tag: tag}
	h.Env = append(os.Environ(), hostVar+"="+string(b))
	h.Stderr = os.Stderr
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Process.Kill()
		h.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	waitForSleepers(t, tag, modes...)
	h.supervisor, _ = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "ready ")))
	supervisor := mustProc(t, h.supervisor)
	t.Cleanup(func() { supervisor.kill() }) // some are stopped by their test
	return h
}

// killed kills the host as kill -9 does, and waits for it.
func (h *testHost) killed() {
	h.Process.Kill()
	h.Wait()
}

// allMost is how long anything may outlive its host.
const allMost = 2 * time.Second

func (h *testHost) nothingIsLeft(t *testing.T) {
	t.Helper()
	began := time.Now()
	for {
		left := tagged(t, h.tag)
		if len(left) == 0 {
			t.Logf("nothing is left after %v", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > allMost {
			for _, p := range left { // not for ever, at least
				pid, _, _ := strings.Cut(p, " ")
				n, _ := strconv.Atoi(pid)
				syscall.Kill(n, syscall.SIGKILL)
			}
			t.Fatalf("left after %v: %d processes, such as %v", allMost, len(left), left[:min(len(left), 5)])
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// eachWay runs a test with control groups, where the system has them, and without.
func eachWay(t *testing.T, f func(t *testing.T, noCgroup bool)) {
	t.Run("by cgroup", func(t *testing.T) {
		c, err := newCgroup("test" + newTag())
		if err != nil {
			t.Skip("this system has no cgroups for us: ", err)
		}
		c.remove()
		f(t, false)
	})
	t.Run("by parent and mark", func(t *testing.T) { f(t, true) })
}

func TestNothingOutlivesAHostThatIsKilled(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		for _, modes := range [][]string{
			{"echo"},
			{"stubborn"},
			{"grandchildren"},
			{"clean grandchild"},
			{"many"},
			{"forks for ever"},
			{"echo", "echo", "grandchildren", "stubborn", "clean grandchild", "floods stderr"},
		} {
			t.Run(strings.Join(modes, ","), func(t *testing.T) {
				dir := t.TempDir()
				h := newHost(t, dir, noCgroup, modes...)
				if len(tagged(t, h.tag)) < len(modes) {
					t.Fatal("the test does not see the servers")
				}
				supervisor := mustProc(t, h.supervisor).id()
				h.killed()
				h.nothingIsLeft(t)
				eventually(t, "the supervisor has ended", func() bool { return !supervisor.runs() })
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("the record is left: %v", left)
				}
			})
		}
	})
}

func TestSignalsToAllProcessesOfTheHostDontReachTheSupervisor(t *testing.T) {
	h := newHost(t, "", true, "stubborn", "grandchildren")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if err := syscall.Kill(h.supervisor, s); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if !mustProc(t, h.supervisor).id().runs() {
		t.Fatal("the supervisor has obeyed")
	}
	h.killed()
	h.nothingIsLeft(t)
}

func mustProc(t *testing.T, pid int) proc {
	t.Helper()
	p, ok := readProc(pid)
	if !ok {
		t.Fatalf("no process %d", pid)
	}
	return p
}

func TestTheNextStartSweepsWhatIsLeftOfHostAndSupervisor(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		dir := t.TempDir()
		h := newHost(t, dir, noCgroup, "grandchildren", "many", "stubborn")
		records, _ := filepath.Glob(filepath.Join(dir, "*"))
		head, _, err := readRecord(records[0])
		if err != nil || (head.Cgroup == "") != noCgroup {
			t.Fatalf("the record has %+v, %v", head, err)
		}
		if n, err := Sweep(dir, nil); n != 0 || err != nil {
			t.Fatalf("a sweep beside a living host: killed %d, %v", n, err)
		}
		// Stopped first, so that neither can do anything about the other's death.
		syscall.Kill(h.supervisor, syscall.SIGSTOP)
		h.killed()
		syscall.Kill(h.supervisor, syscall.SIGKILL)
		time.Sleep(50 * time.Millisecond)
		orphans := len(tagged(t, h.tag))
		if orphans == 0 {
			t.Fatal("there is nothing to sweep")
		}
		n, err := Sweep(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if left := tagged(t, h.tag); len(left) > 0 {
			t.Errorf("left after the sweep: %v", left)
		}
		if n < orphans {
			t.Errorf("the sweep says %d, there were %d", n, orphans)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("the record is left: %v", left)
		}
		if _, err := os.Stat(head.Cgroup); !noCgroup && !os.IsNotExist(err) {
			t.Errorf("the control group is left: %v", err)
		}
		if n, err := Sweep(dir, nil); n != 0 || err != nil {
			t.Errorf("a second sweep: killed %d, %v", n, err)
		}
	})
}

func TestTheKernelEndsTheServersOfADeadSupervisor(t *testing.T) {
	h := newHost(t, "", true, "stubborn", "stubborn")
	syscall.Kill(h.supervisor, syscall.SIGSTOP)
	h.killed()
	syscall.Kill(h.supervisor, syscall.SIGKILL)
	h.nothingIsLeft(t)
}

func TestASupervisorThatHangsIsSweptToo(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, true, "stubborn", "grandchildren")
	supervisor := mustProc(t, h.supervisor).id()
	syscall.Kill(h.supervisor, syscall.SIGSTOP)
	h.killed()
	if _, err := Sweep(dir, nil); err != nil {
		t.Fatal(err)
	}
	h.nothingIsLeft(t)
	if supervisor.runs() {
		t.Error("the supervisor is left")
	}
}
