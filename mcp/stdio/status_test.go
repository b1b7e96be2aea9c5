package stdio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that can't be started says why before anybody has tried, for as long as that is
// so: what is missing may be installed meanwhile.
func TestAServerThatCannotBeStartedSaysWhy(t *testing.T) {
	name := filepath.Join(t.TempDir(), "server")
	p := New(Config{Command: name, RunDir: t.TempDir()})
	t.Cleanup(func() { p.Close(t.Context()) })
	if s := p.Status(); s.State != "cannot_start" || !strings.Contains(s.Problem, "no such file") {
		t.Errorf("without its command: %+v", s)
	}
	// The file is there, and its interpreter is not: that takes a start to know.
	if err := os.WriteFile(name, []byte("#!/no/such/interpreter\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if s := p.Status(); s.State != "idle" || s.Problem != "" {
		t.Errorf("with its command: %+v", s)
	}
	_, err := p.Build(t.Context(), newSession())
	if failed := (*StartError)(nil); !errors.As(err, &failed) {
		t.Fatalf("it was started: %v", err)
	}
	if s := p.Status(); s.State != "cannot_start" || s.Problem != err.Error() {
		t.Errorf("after a start that failed with %q: %+v", err, s)
	}
	if err := p.Configure(Config{Command: "/bin/sh", RunDir: p.config.RunDir}); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); s.State != "idle" || s.Problem != "" {
		t.Errorf("with another command: %+v", s)
	}
}
