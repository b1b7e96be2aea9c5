package e2e

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// scored are the scenarios of revision 2025-11-25 that the suite scores, unscored
// those that it runs besides.
var (
	scored = []string{
		"server-initialize", "logging-set-level", "ping", "completion-complete",
		"tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
		"tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-logging",
		"tools-call-error", "tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation",
		"elicitation-sep1034-defaults", "server-sse-multiple-streams", "elicitation-sep1330-enums",
		"resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read",
		"resources-subscribe", "resources-unsubscribe",
		"prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
		"prompts-get-with-image", "dns-rebinding-protection",
	}
	unscored = []string{"server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"}
)

var scenarioLine = regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed, (\d+) failed`)

// The official conformance suite, against the everything plugin of this repository.
func TestConformance(t *testing.T) {
	t.Parallel()
	node := node22(t)
	h := serve(t, hosting{program: everything, flags: []string{"--plugin", "everything"}})
	results := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	suite := exec.CommandContext(ctx, node, "node_modules/@modelcontextprotocol/conformance/dist/index.js",
		"server", "--url", strings.Replace(h.url, "127.0.0.1", "localhost", 1), "--requirements", "2025-11-25", "-o", results)
	out, runErr := suite.CombinedOutput()
	_, summary, ok := strings.Cut(string(out), "=== SUMMARY ===")
	if !ok {
		t.Fatalf("the suite has come to no end: %v\n%s", runErr, out)
	}
	ran := map[string]string{}
	for _, line := range scenarioLine.FindAllStringSubmatch(summary, -1) {
		ran[line[2]] = line[1]
	}
	passed := 0
	for _, name := range append(append([]string{}, scored...), unscored...) {
		t.Run(name, func(t *testing.T) {
			switch ran[name] {
			case "✓":
				passed++
			case "✗":
				t.Errorf("failed:\n%s", about(string(out), name))
			default:
				t.Error("did not run")
			}
		})
		delete(ran, name)
	}
	if len(scored) != 30 || passed != 33 || len(ran) > 0 {
		t.Errorf("%d of 33 scenarios passed; besides these ran %v\n%s", passed, ran, summary)
	}
	if runErr != nil {
		t.Errorf("the suite says: %v", runErr)
	}
}

// about is what the suite printed while it ran a scenario, and its verdict.
func about(out, name string) string {
	_, after, _ := strings.Cut(out, "=== Running scenario: "+name+" ===\n")
	during, _, _ := strings.Cut(after, "\n=== ")
	_, summary, _ := strings.Cut(out, "=== SUMMARY ===")
	for line := range strings.Lines(summary) {
		if strings.Contains(line, name) {
			during += "\n" + line
		}
	}
	return during
}
