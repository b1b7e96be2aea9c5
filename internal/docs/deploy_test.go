package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/config"
)

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The dashboard asks for metrics that a host has, and groups by labels that they have.
func TestDashboardKnowsTheMetrics(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID          int
			Title, Type string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "examples/deploy/grafana/kalpa.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	told := read(t, "docs/telemetry.md")
	metric, label := regexp.MustCompile(`\b(?:kalpa|mcp)_[a-z_]+`), regexp.MustCompile(`by \(([a-z_, ]+)\)|\{\{([a-z_]+)\}\}|([a-z_]+)=`)
	drawn := 0
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			drawn++
			for _, name := range metric.FindAllString(label.ReplaceAllString(target.Expr, ""), -1) {
				if !strings.Contains(told, "`"+strings.TrimSuffix(name, "_bucket")+"`") {
					t.Errorf("panel %q: docs/telemetry.md has no metric %s", panel.Title, name)
				}
			}
			for _, found := range label.FindAllStringSubmatch(target.Expr+target.LegendFormat, -1) {
				for name := range strings.SplitSeq(found[1]+found[2]+found[3], ",") {
					if name = strings.TrimSpace(name); name != "le" && !regexp.MustCompile(`(?m)^\| .* \|[^|]*\b`+name+`\b[^|]*\|`).MatchString(told) {
						t.Errorf("panel %q: docs/telemetry.md has no label %s", panel.Title, name)
					}
				}
			}
		}
	}
	if drawn == 0 {
		t.Error("the dashboard is empty")
	}
}

// What starts kalpa elsewhere gives it flags that it has.
func TestDeploymentsGiveFlagsThatThereAre(t *testing.T) {
	known := []string{"--config"}
	for _, setting := range config.Settings {
		known = append(known, "--"+setting.Flag)
	}
	for file, line := range map[string]string{"Dockerfile": `(?m)^CMD .*`, "examples/deploy/kalpa.service": `(?m)^ExecStart=.*`} {
		start := regexp.MustCompile(line).FindString(read(t, file))
		flags := regexp.MustCompile(`--[a-z-]+`).FindAllString(start, -1)
		if len(flags) == 0 {
			t.Errorf("%s starts nothing", file)
		}
		for _, flag := range flags {
			if !slices.Contains(known, flag) {
				t.Errorf("%s: kalpa serve has no flag %s", file, flag)
			}
		}
	}
}

// The unit comes with packages, which put the program into /usr/bin, and is installed by
// hand beside one in /usr/local/bin: it names the program, and systemd looks in both.
func TestTheUnitFindsTheProgramWhereverItIs(t *testing.T) {
	if start := regexp.MustCompile(`(?m)^ExecStart=\S+`).FindString(read(t, "examples/deploy/kalpa.service")); start != "ExecStart=kalpa" {
		t.Errorf("the unit begins with %s", start)
	}
}
