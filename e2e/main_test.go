package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// fakeServerArg makes the test binary the fake MCP server instead.
const fakeServerArg = "fake-mcp-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fakeServerArg {
		os.Exit(runFakeServer(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kalpa-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

// built are the programs under test, each built once, when a test first needs it.
var built struct {
	dir      string
	mu       sync.Mutex
	programs map[string]func() (string, error)
}

// program builds a main package of this repository, which flags of go build may
// precede, and returns where it is.
func program(t testing.TB, pkg string) string {
	t.Helper()
	built.mu.Lock()
	build := built.programs[pkg]
	if build == nil {
		dir := filepath.Join(built.dir, fmt.Sprint(len(built.programs)))
		build = sync.OnceValues(func() (string, error) {
			out := filepath.Join(dir, filepath.Base(pkg))
			cmd := exec.Command("go", append([]string{"build", "-o", out}, strings.Fields(pkg)...)...)
			cmd.Dir = ".."
			if output, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("building %s: %w\n%s", pkg, err, output)
			}
			return out, nil
		})
		if built.programs == nil {
			built.programs = map[string]func() (string, error){}
		}
		built.programs[pkg] = build
	}
	built.mu.Unlock()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
