package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kalpahost/kalpa/internal/soak"
)

// The way of somebody who is new to it is testdata/newcomer.txtar: what they type, and
// what they see. It runs in the environment of whoever runs the test, with the packages
// of e2e installed. $CLONE is this repository. Besides testscript's own, it has these
// commands:
//
//	free NAME...               sets each $NAME to an address that is free
//	ready ADDRESS              waits until the host with this admin listener is ready
//	client connect URL         the TypeScript client opens a session, whose id is $SESSION
//	client session             prints the id of the session that the client has now
//	client call TOOL ARGUMENTS the client calls a tool, and prints the text of its answer
func TestTheWayOfANewcomer(t *testing.T) {
	needNode(t)
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/newcomer.txtar"},
		Setup: func(e *testscript.Env) error {
			packages, err := filepath.Abs("node_modules")
			if err != nil {
				return err
			}
			bin := filepath.Join(e.WorkDir, "bin")
			e.Vars = append(e.Vars, os.Environ()...)
			e.Setenv("CLONE", filepath.Dir(filepath.Dir(packages)))
			e.Setenv("GOBIN", bin)
			e.Setenv("PATH", fmt.Sprintf("%s:%s:%s", bin, os.Getenv("PATH"), filepath.Join(packages, ".bin")))
			e.Values["client"] = newTSClient(e.T().(testing.TB))
			return installInspector(packages, filepath.Join(e.WorkDir, "inspector"), bin)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"free": free, "ready": ready, "client": driveClient},
	})
}

// installInspector lays the MCP inspector's command line out as the whole inspector has
// it, where it reads its version, and gives it the name that it has there.
func installInspector(packages, folder, bin string) error {
	program := filepath.Join(folder, "cli", "build", "cli.js")
	return errors.Join(
		os.CopyFS(filepath.Join(folder, "cli"), os.DirFS(filepath.Join(packages, "@modelcontextprotocol", "inspector-cli"))),
		os.Symlink(packages, filepath.Join(folder, "node_modules")),
		os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"name":"@modelcontextprotocol/inspector","version":"1.0.3"}`), 0o600),
		os.MkdirAll(bin, 0o700),
		os.Symlink(program, filepath.Join(bin, "mcp-inspector")),
	)
}

func free(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: free NAME...")
	}
	for _, name := range args {
		port, err := soak.FreePort(context.Background())
		ts.Check(err)
		ts.Setenv(name, fmt.Sprintf("127.0.0.1:%d", port))
	}
}

func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready ADDRESS")
	}
	said := "nothing"
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		r, err := http.Get("http://" + args[0] + "/readyz")
		if err != nil {
			said = err.Error()
			continue
		}
		body, err := io.ReadAll(r.Body)
		ts.Check(errors.Join(err, r.Body.Close()))
		if said = string(body); r.StatusCode == http.StatusOK {
			return
		}
	}
	ts.Fatalf("not ready after 20 s: %s", said)
}

func driveClient(ts *testscript.TestScript, neg bool, args []string) {
	c := ts.Value("client").(*tsClient)
	switch {
	case !neg && len(args) == 2 && args[0] == "connect":
		ts.Setenv("SESSION", c.connect(args[1], nil).Session)
	case !neg && len(args) == 1 && args[0] == "session":
		fmt.Fprintln(ts.Stdout(), c.state().Session)
	case !neg && len(args) == 3 && args[0] == "call":
		fmt.Fprintln(ts.Stdout(), c.tool(args[1], json.RawMessage(args[2])))
	default:
		ts.Fatalf("usage: client connect URL, client session, client call TOOL ARGUMENTS")
	}
}
