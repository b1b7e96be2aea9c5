package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if i := bytes.LastIndexByte(stat, ')'); i > 0 && len(stat) > i+2 && stat[i+2] == 'Z' {
			return false
		}
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// marked are the processes that have a variable in their environment: children
// inherit it, however far they go from those that started them.
func marked(t *testing.T, mark string) (found []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && alive(pid) {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// After the host has ended, nothing that it started is left: whichever way it ended,
// however deep the tree, and whatever the processes did to get away.
func TestNoProcessIsLeftBehind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc; on other systems only the process group is promised to end")
	}
	const limit = 2 * time.Second
	ways := []struct {
		name string
		end  func(*host)
	}{
		{"SIGTERM", func(h *host) { h.terminate() }},
		{"kill -9", func(h *host) { h.kill() }},
	}
	servers := []struct {
		name  string
		node  bool
		o     hosting
		grow  func(*testing.T, *client) // makes the tree larger
		least int                       // processes in the tree
	}{
		{"npx", true, npxEverything, nil, 2},
		{"a server that starts detached processes", false, hosting{command: fake()}, func(t *testing.T, c *client) {
			t.Helper()
			c.post(call("1", "spawn", `{}`)).result()
			c.post(call("2", "spawn", `{}`)).result()
		}, 3},
	}
	for _, server := range servers {
		for _, way := range ways {
			t.Run(server.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				if server.node {
					needNode(t)
				}
				mark := "KALPA_E2E_MARK=" + rand.Text()
				o := server.o
				o.flags = append([]string{"--env", mark}, o.flags...)
				h := serve(t, o)
				c := h.session()
				if server.grow != nil {
					server.grow(t, c)
				}
				tree := marked(t, mark)
				if len(tree) < server.least {
					t.Fatalf("%d processes run, want at least %d: %q", len(tree), server.least, tree)
				}
				way.end(h)
				deadline := time.Now().Add(limit)
				for ; len(tree) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
					tree = marked(t, mark)
				}
				if len(tree) > 0 {
					t.Errorf("left %v after the host has ended: %q", limit, tree)
				}
			})
		}
	}
}
