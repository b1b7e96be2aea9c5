package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inspector lays the MCP inspector's command line out as the whole inspector has it
// (there it reads its version), and returns what runs it against a server.
func inspector(t *testing.T) func(url string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	packages, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.CopyFS(filepath.Join(dir, "cli"), os.DirFS(filepath.Join(packages, "@modelcontextprotocol", "inspector-cli"))),
		os.Symlink(packages, filepath.Join(dir, "node_modules")),
		os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name":"@modelcontextprotocol/inspector","version":"1.0.3"}`), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(url string, args ...string) string {
		t.Helper()
		return output(t, "node", append([]string{filepath.Join(dir, "cli", "build", "cli.js"), "--cli", url, "--transport", "http"}, args...)...)
	}
}

// output runs a command to its end and returns what it has printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// The way of somebody who is new to it: a server of somebody else's, hosted as
// docs/hosting.md says; used by the MCP inspector and by the official client; killed and
// started again; looked into, backed up and restored as docs/operating.md says.
func TestTheWayOfANewcomer(t *testing.T) {
	needNode(t)
	work := t.TempDir()
	file := filepath.Join(work, "kalpa.yaml")
	everything, err := filepath.Abs("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	servers, err := json.Marshal(object{"servers": object{"everything": object{"command": "node", "args": []string{everything}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, servers, 0o600); err != nil { // JSON is YAML
		t.Fatal(err)
	}
	h := serve(t, hosting{flags: []string{"--config", file, "--admin", "127.0.0.1:0"}, data: filepath.Join(work, "data")})
	host := "http://" + h.address()
	if h.url != host+"/mcp/everything" {
		t.Errorf("it is at %s", h.url)
	}

	// The inspector knows no paths but those that end in /mcp.
	inspect := inspector(t)
	if got := inspect(host+"/everything/mcp", "--method", "tools/list"); !strings.Contains(got, `"get-sum"`) {
		t.Errorf("the inspector lists %s", got)
	}
	if got := inspect(host+"/everything/mcp", "--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hello"); !strings.Contains(got, "Echo: hello") {
		t.Errorf("the inspector's call: %s", got)
	}

	c := newTSClient(t)
	c.connect(h.url, nil)
	session := c.state().Session
	if got := c.tool("get-sum", object{"a": 2, "b": 3}); got != "The sum of 2 and 3 is 5." {
		t.Error(got)
	}
	kalpa := func(args ...string) string { t.Helper(); return output(t, h.program, args...) }
	backup := filepath.Join(work, "backup")
	kalpa("backup", backup, "--data", h.data)

	// Killed and started again: the client does not notice.
	h.kill()
	h.restart()
	if got := c.tool("get-sum", object{"a": 3, "b": 4}); got != "The sum of 3 and 4 is 7." {
		t.Error(got)
	}
	if again := c.state().Session; again != session {
		t.Errorf("session %s after %s", again, session)
	}

	for _, look := range []struct{ command, want string }{
		{"sessions list", session},
		{"sessions show " + session, "resident"},
		{"objects list mcp-session", session},
		{"objects show mcp-session " + session, `"meta"`},
		{"alarms", session},
		{"isolates list", "ISOLATE"},
		{"status", "everything at " + h.url},
	} {
		if got := kalpa(append(strings.Fields(look.command), "--data", h.data)...); !strings.Contains(got, look.want) {
			t.Errorf("kalpa %s: %s", look.command, got)
		}
	}
	if _, code := h.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := kalpa("check", "--data", h.data); !strings.Contains(got, "as it should be") {
		t.Error(got)
	}

	// A host runs on what is restored, and the client goes on with its session.
	restored := filepath.Join(work, "restored")
	kalpa("restore", backup, "--data", restored)
	h.data = restored
	h.restart()
	if got := c.tool("get-sum", object{"a": 4, "b": 5}); got != "The sum of 4 and 5 is 9." {
		t.Error(got)
	}
	if again := c.state().Session; again != session {
		t.Errorf("session %s after %s", again, session)
	}
	kalpa("sessions", "end", session, "--data", h.data)
}
