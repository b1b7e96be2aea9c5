package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersionsAreThoseThatTheScriptPins(t *testing.T) {
	got := versions("go get github.com/a/b-c@v1.8.0 && npm install workerd@1.2026.1 @x/y @x/z@0.3.0-rc.1 zod mail@example\n# workerd@1.2026.1")
	want := []string{"@x/z@0.3.0-rc.1", "github.com/a/b-c@v1.8.0", "workerd@1.2026.1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPeerThatIsNotThereIsSkippedWithTheReason(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "gosdk"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "gosdk", "run"), []byte("go get x@v1.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range peerServers("") {
		if s.skipped == nil {
			t.Errorf("%s is not skipped without a folder", s.name)
		}
	}
	servers := peerServers(folder)
	if servers[0].skipped != nil {
		t.Errorf("the peer that is there is skipped: %v", servers[0].skipped)
	}
	if err := servers[1].skipped; err == nil || !strings.Contains(err.Error(), "mcpagent/run") {
		t.Errorf("the peer that is not there: %v", err)
	}
	described := peers[0].describe(folder) + peers[1].describe(folder)
	if !strings.Contains(described, "x@v1.2.3") || strings.Contains(described, folder) {
		t.Errorf("a version is missing, or a path of this machine is told: %s", described)
	}
}
