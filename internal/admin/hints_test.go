package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Who reads a hint has typed a command, most often: it speaks of commands and flags.
func TestHintsSpeakOfCommands(t *testing.T) {
	request := regexp.MustCompile("\"[^\"]*(GET|POST|DELETE|PUT) /v1")
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(code)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") && request.MatchString(line) {
				t.Errorf("%s speaks of requests to who has typed a command: %s", file, strings.TrimSpace(line))
			}
		}
	}
}
