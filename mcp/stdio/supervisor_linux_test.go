package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

func newRequest(id wire.ID, method, params string) wire.Message {
	return wire.NewRequest(id, method, []byte(params))
}

func TestCloseLeavesNothingOfAllThatWasStartedRuleK(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		for _, mode := range []string{"grandchildren", "many", "forks for ever"} {
			t.Run(mode, func(t *testing.T) {
				o := start(t, mode, func(c *Config) {
					c.noCgroup, c.CloseGrace, c.TermGrace = noCgroup, 200*time.Millisecond, 200*time.Millisecond
				})
				waitForSleepers(t, o.tag, mode)
				var all []proc
				for _, found := range tagged(t, o.tag) {
					pid, _, _ := strings.Cut(found, " ")
					n, _ := strconv.Atoi(pid)
					if p, ok := readProc(n); ok {
						all = append(all, p)
					}
				}
				if err := o.Close(t.Context()); err != nil {
					t.Error(err)
				}
				for _, p := range all {
					// A cgroup counts only the living; the rest is reaped right after.
					if now, there := readProc(p.pid); there && now.start == p.start && !(now.zombie && !noCgroup) {
						t.Errorf("there after Close: %+v", now)
					}
				}
				timeClose(t, o, 0, 5*time.Second)
			})
		}
	})
}

func TestOneServersCloseSparesTheOthers(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		set := func(c *Config) { c.noCgroup = noCgroup }
		a, b := start(t, "grandchildren", set), start(t, "grandchildren", set)
		waitForSleepers(t, a.tag, "grandchildren")
		waitForSleepers(t, b.tag, "grandchildren")
		before := len(tagged(t, b.tag))
		timeClose(t, a, 0, 5*time.Second)
		if after := len(tagged(t, b.tag)); after != before {
			t.Errorf("the other server had %d processes, now %d", before, after)
		}
		b.call(t, "echo", "{}")
	})
}

// Without cgroups a process that sheds parent, session and environment can't be
// told from another server's; it goes with the last one.
func TestAStrayGoesWithTheLastServerItCouldBelongTo(t *testing.T) {
	set := func(c *Config) { c.noCgroup = true }
	a, b := start(t, "clean grandchild", set), start(t, "echo", set)
	waitForSleepers(t, a.tag, "clean grandchild")
	b.call(t, "echo", "{}")
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(tagged(t, a.tag)); n != 1 {
		t.Fatalf("%d strays, want the one that nobody can be told to own", n)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := tagged(t, a.tag); len(left) > 0 {
		t.Errorf("left after the last server: %v", left)
	}
}

func TestTheCgroupCatchesAStrayAtOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		if noCgroup {
			return // shown by the test before: there, nobody can be told to own it
		}
		a, b := start(t, "clean grandchild"), start(t, "echo")
		b.call(t, "echo", "{}")
		waitForSleepers(t, a.tag, "clean grandchild")
		timeClose(t, a, 0, 5*time.Second)
	})
}

func TestAServerThatEndsTakesItsDescendantsAlong(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		o := start(t, "grandchildren", func(c *Config) { c.noCgroup = noCgroup })
		waitForSleepers(t, o.tag, "grandchildren")
		if err := o.Deliver(t.Context(), newRequest("1", "exit", "{}")); err != nil {
			t.Fatal(err)
		}
		if err := o.exit(t); err.Code != 7 {
			t.Errorf("got %v", err)
		}
		if left := tagged(t, o.tag); len(left) > 0 {
			t.Errorf("left when Exited was called: %v", left)
		}
	})
}

func TestASupervisorsDeathEndsItsServersAndANewOneIsStarted(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		dir := t.TempDir()
		set := func(c *Config) { c.noCgroup, c.RunDir = noCgroup, dir }
		o := start(t, "grandchildren", set)
		waitForSleepers(t, o.tag, "grandchildren")
		l := o.plugin.launcher.cur.(*link)
		syscall.Kill(l.cmd.Process.Pid, syscall.SIGKILL)
		has(t, o.exit(t).Error(), "its supervisor has died")
		if left := tagged(t, o.tag); len(left) > 0 {
			t.Errorf("left when Exited was called: %v", left)
		}
		if n := o.exits.Load(); n != 1 {
			t.Errorf("Exited was called %d times", n)
		}
		s := newSession()
		r, err := o.plugin.Build(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		again := one{r.(*Runtime), s, o.plugin, o.tag}
		again.call(t, "echo", "{}")
		timeClose(t, again, 0, 5*time.Second)
	})
}

func TestAnOrderlyEndLeavesNoRecordAndNoSupervisor(t *testing.T) {
	dir := t.TempDir()
	a := start(t, "echo", func(c *Config) { c.RunDir = dir })
	b := start(t, "echo", func(c *Config) { c.RunDir = dir })
	la, lb := a.plugin.launcher.cur.(*link), b.plugin.launcher.cur.(*link)
	if la != lb {
		t.Error("two plugins with one folder have two supervisors")
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("the record: %v", files)
	}
	for _, o := range []one{a, b} {
		if _, there := readProc(la.cmd.Process.Pid); !there {
			t.Fatal("the supervisor ended before the last plugin")
		}
		if err := o.plugin.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, there := readProc(la.cmd.Process.Pid); there {
		t.Error("the supervisor is still there")
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left in the folder: %v", files)
	}
	if la.cgroup != "" {
		if _, err := os.Stat(la.cgroup); err == nil {
			t.Error("the cgroup is left")
		}
	}
}

func TestAFolderThatCantBeWrittenIsAClearError(t *testing.T) {
	file := t.TempDir() + "/file"
	os.WriteFile(file, nil, 0o600)
	p := New(Config{Command: "true", RunDir: file})
	defer p.Close(context.Background())
	_, err := p.Build(t.Context(), newSession())
	if err == nil {
		t.Fatal("built")
	}
	has(t, err.Error(), "the record of children can't be written", file)
}

func TestAServerInheritsNoFilesAndHasItsOwnSession(t *testing.T) {
	// As a shell does with 9>file: open for whoever is started.
	f, err := os.CreateTemp(t.TempDir(), "open")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd())) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	start(t, "echo").call(t, "echo", "{}") // there is more than one child
	o := start(t, "", func(c *Config) { c.Command, c.Args = "cat", nil })
	o.Deliver(t.Context(), newRequest("1", "x", "{}"))
	o.waitFor(t, "x")
	if open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.Pid())); len(open) != 3 {
		t.Errorf("open in the child: %v", open)
	}
	o = start(t, "echo")
	want := fmt.Sprintf("[%d,%d,%d]", o.Pid(), o.Pid(), o.Pid())
	if got := o.call(t, "ids", "{}"); got != want {
		t.Errorf("pid, group and session: %s, want %s", got, want)
	}
}

func TestAServersEnvironmentIsSmallAndGivenOnPurpose(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "x")
	t.Setenv("KEY_ONE", "1")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("npm_config__authToken", "x")
	t.Setenv("LANG", "() { :; }")
	o := start(t, "echo", func(c *Config) {
		c.Env["ADDED"] = "\xff not UTF-8"
		c.Env["HOME"] = "/elsewhere"
		c.Inherit = []string{"KEY_*"}
	})
	var env []string
	if err := json.Unmarshal([]byte(o.call(t, "env", "{}")), &env); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "KEY_ONE=1", "HOME=/elsewhere"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", o.Pid()))
	if err != nil || !strings.Contains(string(raw), "\x00ADDED=\xff not UTF-8\x00") && !strings.HasPrefix(string(raw), "ADDED=\xff not UTF-8\x00") {
		t.Errorf("what is not UTF-8 was changed: %q %v", raw, err)
	}
	for _, e := range env {
		for _, not := range []string{"SECRET_TOKEN", "npm_config__authToken", "LANG=", supervisorVar} {
			if strings.HasPrefix(e, not) {
				t.Errorf("%s was passed on", e)
			}
		}
	}
}

func TestTheChildsPipesBlock(t *testing.T) {
	ours, theirs, err := pipes()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(ours)
	defer closeAll(theirs)
	for i := range 3 {
		for who, f := range map[string]*os.File{"host": ours[i], "child": theirs[i]} {
			raw, err := f.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) {
				flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
				if nonblock := flags&syscall.O_NONBLOCK != 0; nonblock != (who == "host") {
					t.Errorf("pipe %d, the %s's end: non-blocking is %v", i, who, nonblock)
				}
			})
		}
	}
}

func TestManySessionsShareOneSupervisor(t *testing.T) {
	eachWay(t, func(t *testing.T, noCgroup bool) {
		tag := newTag()
		c := configOf(t, "", tag)
		c.noCgroup = noCgroup
		c.Command, c.Args = "cat", nil // small, and a message comes back as it went
		p := New(c)
		const n = 100
		sessions := make([]*session, n)
		for i := range n {
			sessions[i] = newSession()
			r, err := p.Build(t.Context(), sessions[i])
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Deliver(t.Context(), newRequest("1", "x", fmt.Sprintf(`{"n":%d}`, i))); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range sessions {
			if got, want := string(s.next(t).Params()), fmt.Sprintf(`{"n":%d}`, i); got != want {
				t.Errorf("session %d got %s", i, got)
			}
		}
		began := time.Now()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		t.Logf("%d servers closed in %v", n, time.Since(began).Round(time.Millisecond))
		if left := tagged(t, tag); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// BenchmarkRoundTrip measures what the runtime adds to a child's own answer.
func BenchmarkRoundTrip(b *testing.B) {
	m := newRequest("1", "tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`)
	cat := func(c *Config) { c.Command, c.Args = "cat", nil }
	b.Run("runtime", func(b *testing.B) {
		o := start(b, "", cat)
		for b.Loop() {
			if err := o.Deliver(context.Background(), m); err != nil {
				b.Fatal(err)
			}
			<-o.sent
		}
	})
	b.Run("pipes", func(b *testing.B) {
		o := start(b, "", cat)
		// The same child, without what reads its stdout for the session.
		ours, theirs, err := pipes()
		if err != nil {
			b.Fatal(err)
		}
		c, err := o.plugin.config.command()
		if err != nil {
			b.Fatal(err)
		}
		p, err := o.plugin.launcher.cur.launch(context.Background(), c, theirs)
		if err != nil {
			b.Fatal(err)
		}
		line := append(slices.Clone(m.Bytes()), '\n')
		back := make([]byte, len(line))
		for b.Loop() {
			if _, err := ours[0].Write(line); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(ours[1], back); err != nil {
				b.Fatal(err)
			}
		}
		closeAll(ours)
		<-p.gone
	})
}

// BenchmarkBuild measures a start and an end.
func BenchmarkBuild(b *testing.B) {
	o := start(b, "", func(c *Config) { c.Command, c.Args = "cat", nil })
	for b.Loop() {
		r, err := o.plugin.Build(context.Background(), newSession())
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
