package stdio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/mcp"
)

// startBound starts a server whose memory the system bounds, and that nobody looks at.
func startBound(t *testing.T, mode string) (o *one, group string) {
	t.Helper()
	first := start(t, mode, func(c *Config) { c.Limits.Memory, c.RunDir = 192<<20, t.TempDir() })
	o = &first
	o.proc.onUsage.Store(nil)
	l := o.plugin.launcher.cur.(*link)
	if l.unbound != "" {
		t.Skip("this system bounds no memory for us: ", l.unbound)
	}
	return o, filepath.Join(l.cgroup, "1")
}

// The system itself keeps the limit of memory, where there are control groups for it:
// also of what nobody has had the time to look at.
func TestTheSystemBoundsMemory(t *testing.T) {
	o, group := startBound(t, "grows")
	o.waitFor(t, "grown")
	if got := strings.TrimSpace(readString(filepath.Join(group, "memory.max"))); got != "201326592" {
		t.Errorf("the group's limit is %s", got)
	}
	if e := Enforced(o.plugin.config.RunDir); !e.Running || !e.Bound || e.Why != "" {
		t.Errorf("it is said that %+v", e)
	}
	o.Deliver(t.Context(), newRequest("1", "more", "{}"))
	e := o.exit(t)
	if !errors.Is(e, mcp.ErrMemoryLimit) || e.Reason != "needed more memory than its limit, so the system ended it" {
		t.Errorf("%v", e)
	}
	if _, err := os.Stat(group); !os.IsNotExist(err) {
		t.Errorf("its group is left: %v", err)
	}
}

func TestTheSystemBoundsMemoryOfWhatAServerHasStarted(t *testing.T) {
	o, _ := startBound(t, "grows elsewhere")
	if e := o.exit(t); !errors.Is(e, mcp.ErrMemoryLimit) {
		t.Errorf("%v", e)
	}
}

// A host moves itself out of the way, and nobody else.
func TestOnlyTheHostsOwnProcessesAreMoved(t *testing.T) {
	dir := t.TempDir()
	procs := filepath.Join(dir, "cgroup.procs")
	if err := os.WriteFile(procs, []byte("10\n11\n12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeRoom(dir, []int{10, 11}); err == nil || !strings.Contains(err.Error(), "other processes than the host's are in its control group, "+dir) {
		t.Errorf("beside another: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("and this was made: %v", left)
	}
	if err := makeRoom(dir, []int{10, 11, 12}); err != nil {
		t.Fatal(err)
	}
	if got := readString(filepath.Join(dir, hostGroup, "cgroup.procs")); got != "12" { // the last that was written
		t.Errorf("moved: %q", got)
	}
	if err := makeRoom(dir, []int{10, 11, 12}); err != nil {
		t.Errorf("where an earlier host was: %v", err)
	}
}

// What the system says of a group that it has killed in.
func TestWhoseMemoryWasShort(t *testing.T) {
	for events, want := range map[string]string{
		"":                                  "",
		"low 0\nmax 7\noom 0\noom_kill 0\n": "",
		"max 7\noom 1\noom_kill 2\n":        "needed more memory than its limit, so the system ended it",
		"max 0\noom 0\noom_kill 1\n":        "was ended by the system, which had no memory left for it",
	} {
		c := &child{cgroup: &cgroup{t.TempDir()}}
		if err := os.WriteFile(filepath.Join(c.cgroup.dir, "memory.events"), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.outOfMemory(); got != want {
			t.Errorf("%q: %q", events, got)
		}
	}
}
