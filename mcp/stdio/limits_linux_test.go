package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp"
)

// What a server takes is charged to the isolate, and when it takes more than it may it
// is ended, with all that it has started, and said to have been for that.
func TestAServerThatTakesTooMuchMemoryIsEnded(t *testing.T) {
	for _, noCgroup := range []bool{false, true} {
		o := start(t, "grows", func(c *Config) { c.Limits.Memory, c.noCgroup = 192<<20, noCgroup })
		o.waitFor(t, "grown")
		eventually(t, "what it takes is charged", func() bool { n := o.heap.Load(); return n > 32<<20 && n < 192<<20 })
		if s := o.plugin.Status(); s.State != "running" || s.Memory < 32<<20 {
			t.Errorf("%+v", s)
		}
		o.Deliver(t.Context(), newRequest("1", "more", "{}"))
		e := o.exit(t)
		// Whoever comes first: the look at it, or the system where it bounds memory.
		if found := strings.Contains(e.Reason, "and the limit is 192 MiB, so it was ended"); !errors.Is(e, mcp.ErrMemoryLimit) || !found && (noCgroup || !strings.Contains(e.Reason, "so the system ended it")) {
			t.Errorf("%v", e)
		}
	}
	o := start(t, "grows elsewhere", func(c *Config) { c.Limits.Memory = 192 << 20 })
	if e := o.exit(t); !errors.Is(e, mcp.ErrMemoryLimit) {
		t.Errorf("what it has started: %v", e)
	}
}

func TestAServerThatTakesTooMuchTimeIsEnded(t *testing.T) {
	o := start(t, "spins", func(c *Config) { c.Limits.CPU = time.Second })
	o.waitFor(t, "spinning")
	if e := o.exit(t); !errors.Is(e, mcp.ErrCPULimit) {
		t.Errorf("%v", e)
	}
}

// A control group knows of what has come and gone between two looks.
func TestTimeInPassingIsCountedByTheCgroup(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		if noCgroup {
			t.Skip("without one it is not known whose time that was")
		}
		o := start(t, "computes in passing", func(c *Config) { c.Limits.CPU = 500 * time.Millisecond })
		if e := o.exit(t); !errors.Is(e, mcp.ErrCPULimit) || !strings.Contains(e.Reason, "processor time") {
			t.Errorf("%v", e)
		}
	})
}

func TestAServerThatStartsTooManyProcessesIsEnded(t *testing.T) {
	o := start(t, "forks for ever", func(c *Config) { c.Limits.Processes = 30 })
	if e := o.exit(t); !strings.Contains(e.Reason, "processes, and the limit is 30") {
		t.Errorf("%v", e)
	}
}

func TestTheSystemKeepsLimitsOfFilesAndCores(t *testing.T) {
	o := start(t, "echo", func(c *Config) { c.Limits.Files, c.Limits.CPU = 99, time.Hour })
	if got := o.call(t, "limits", "{}"); got != "[99,0,3605]" {
		t.Errorf("files, core, processor time: %s", got)
	}
}

// A server that can't be started is not started over and over: who asks is told why at
// once, and now and then one is tried. One that works ends it.
func TestACrashLoopIsLeftAlone(t *testing.T) {
	luck := filepath.Join(t.TempDir(), "luck")
	p := New(configOf(t, "dies at once", newTag(), func(c *Config) { c.CrashLimit, c.Env[fileVar] = 3, luck }))
	t.Cleanup(func() { p.Close(t.Context()) })
	for range 3 {
		s := newSession()
		if _, err := p.Build(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		s.exit(t)
	}
	_, err := p.Build(t.Context(), newSession())
	var loop *CrashLoopError
	if !errors.As(err, &loop) || loop.Crashes != 3 || loop.Wait <= 0 {
		t.Fatalf("the fourth: %v", err)
	}
	has(t, err.Error(), "has ended 3 times in a row", "exited with status 4", "no luck today")
	status := p.Status()
	if status.State != "crash_loop" || len(status.Exits) != 3 || status.Exits[2].Stderr != "no luck today" || !status.Exits[2].Silent || status.RetryAt.IsZero() {
		t.Errorf("%+v", status)
	}
	if err := os.WriteFile(luck, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var o one
	eventually(t, "it is tried again", func() bool {
		s := newSession()
		r, err := p.Build(t.Context(), s)
		if err == nil {
			o = one{r.(*Runtime), s, p, ""}
		}
		return err == nil
	})
	o.call(t, "echo", "{}")
	if s := p.Status(); s.State != "running" || s.Crashes != 0 {
		t.Errorf("after it has worked: %+v", s)
	}
}

// A change is for what is started from then on.
func TestAConfigurationIsForTheNextServer(t *testing.T) {
	o := start(t, "echo")
	c := configOf(t, "echo", o.tag, func(c *Config) { c.Env["ADDED"] = "later" })
	if err := o.plugin.Configure(Config{}); err == nil {
		t.Error("a configuration without a command is taken")
	}
	if err := o.plugin.Configure(c); err != nil {
		t.Fatal(err)
	}
	if got := o.call(t, "env", "{}"); strings.Contains(got, "ADDED") {
		t.Error("the one that runs has another environment")
	}
	s := newSession()
	r, err := o.plugin.Build(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	next := one{r.(*Runtime), s, o.plugin, o.tag}
	if got := next.call(t, "env", "{}"); !strings.Contains(got, "ADDED=later") {
		t.Errorf("the next one has %s", got)
	}
}

// A server can look at the supervisor's environment as well, which has its user.
func TestTheSupervisorHasNoSecretsOfTheHosts(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "x")
	o := start(t, "echo", func(c *Config) { c.RunDir = t.TempDir() }) // a supervisor of its own
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", o.plugin.launcher.cur.(*link).cmd.Process.Pid))
	if err != nil || !strings.Contains(string(raw), supervisorVar) || strings.Contains(string(raw), "SECRET_TOKEN") {
		t.Errorf("%q %v", raw, err)
	}
}
