package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/cmd"
	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/internal/guarantees"
)

var update = flag.Bool("update", false, "rewrite the parts of the documentation that are made from code")

const root = "../.."

// A part stands between <!-- name --> and <!-- end -->. The name of a Go file may be
// followed by the functions that are wanted: <!-- a/b.go: f, main -->; or by the
// comment that ends the one line that is: <!-- a/b.go: // so -->.
var part = regexp.MustCompile(`(?s)<!-- ([\w./-]+(?:: (?:// )?[\w, ]+)?) -->\n(.*?)<!-- end -->`)

func TestPartsAreWhatTheCodeSays(t *testing.T) {
	for _, path := range pages(t) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		now := part.ReplaceAllFunc(page, func(old []byte) []byte {
			name := string(part.FindSubmatch(old)[1])
			made, err := content(name)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return old
			}
			return fmt.Appendf(nil, "<!-- %s -->\n%s<!-- end -->", name, made)
		})
		if bytes.Equal(now, page) {
			continue
		}
		if !*update {
			t.Errorf("%s is not what the code says; go test ./internal/docs -update rewrites it", path)
			continue
		}
		if err := os.WriteFile(path, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func content(name string) (string, error) {
	var s strings.Builder
	switch name {
	case "flags":
		fmt.Fprint(&s, "| flag | default | |\n|---|---|---|\n")
		for _, c := range config.Settings {
			if c.Flag != "" {
				fmt.Fprintf(&s, "| `%s` | %s | %s |\n", strings.TrimSpace("--"+c.Flag+" "+bar(c.Value)), code(c.Format(c.Default)), c.Usage)
			}
		}
	case "keys":
		fmt.Fprint(&s, "| key | flag | variable | a |\n|---|---|---|---|\n")
		for _, c := range config.HostKeys {
			fmt.Fprintf(&s, "| `%s` | `--%s` | `%s` | %s |\n", c.Key, c.Flag, c.Variable(), kind(c.Kind))
		}
	case "servers":
		fmt.Fprint(&s, "| key | a | |\n|---|---|---|\n")
		for _, c := range config.OwnKeys {
			fmt.Fprintf(&s, "| `%s` | %s | %s |\n", c.Key, kind(c.Kind), c.Usage)
		}
	case "policy", "limits":
		fmt.Fprint(&s, "| key | a | default | |\n|---|---|---|---|\n")
		keys := config.PolicyKeys
		if name == "limits" {
			keys = config.LimitKeys
		}
		for _, c := range keys {
			fmt.Fprintf(&s, "| `%s` | %s | %s | %s |\n", c.Key, kind(c.Kind), code(c.Format(c.Default)), c.Usage)
		}
	case "threats":
		s.WriteString(threatTable())
	case "points":
		fmt.Fprint(&s, "| point | |\n|---|---|\n")
		for _, p := range actor.Points() {
			fmt.Fprintf(&s, "| `%s` | %s |\n", p, p.Sentence())
		}
	case "causes":
		fmt.Fprint(&s, "| cause | retryable | sentence |\n|---|---|---|\n")
		for _, c := range actor.Causes() {
			fmt.Fprintf(&s, "| `%s` | %s | %s |\n", c, map[bool]string{true: "yes", false: "no"}[c.Transient()], c.Sentence())
		}
	case "cli":
		s.WriteString(cmd.Reference())
	case "exit-codes":
		s.WriteString(cmd.ExitCodes())
	case "events":
		fmt.Fprint(&s, "| type | |\n|---|---|\n")
		for _, e := range admin.EventTypes {
			fmt.Fprintf(&s, "| `%s` | %s |\n", e[0], e[1])
		}
	case "guarantees":
		s.WriteString(guarantees.CellTable())
	case "losses":
		s.WriteString(guarantees.LossTable())
	case "guards":
		s.WriteString(guarantees.GuardTable())
	default:
		file, functions, some := strings.Cut(name, ": ")
		code, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		switch {
		case strings.HasPrefix(functions, "//"):
			lines := regexp.MustCompile(`(?m)^.* `+functions+`\n`).FindAll(code, -1)
			if len(lines) != 1 {
				return "", fmt.Errorf("%s has %d lines that end with %q", file, len(lines), functions)
			}
			code = bytes.TrimLeft(lines[0], "\t")
		case some:
			var wanted [][]byte
			for function := range strings.SplitSeq(functions, ", ") {
				found := regexp.MustCompile(`(?ms)(^//[^\n]*\n)*^func ` + function + `\(.*?^}\n`).Find(code)
				if found == nil {
					return "", fmt.Errorf("%s has no function %s", file, function)
				}
				wanted = append(wanted, found)
			}
			code = bytes.Join(wanted, []byte("\n"))
		}
		fmt.Fprintf(&s, "```go\n%s```\n", code)
	}
	return s.String(), nil
}

func bar(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func kind(k config.Kind) string {
	return map[config.Kind]string{
		config.Text: "text", config.Duration: "duration", config.Bool: "true or false", config.List: "list of texts", config.Map: "map of texts",
		config.DurationOrNever: "duration, or 0", config.Count: "whole number", config.CountOrNone: "whole number, or 0", config.Size: "size", config.SizeOrNone: "size, or 0",
	}[k]
}

// What a table is about stands in it once.
func TestNoTableListsAnythingTwice(t *testing.T) {
	for _, path := range pages(t) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(page)) {
			if !strings.HasPrefix(line, "|") {
				clear(seen) // another table begins
				continue
			}
			for name := range strings.SplitSeq(strings.Split(line, "|")[1], ",") {
				if name = strings.TrimSpace(name); strings.HasPrefix(name, "`") && seen[name] {
					t.Errorf("%s lists %s twice", path, name)
				}
				seen[name] = true
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, path := range pages(t) {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(page, -1) {
			target, anchor, _ := strings.Cut(string(m[1]), "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			there, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			} else if anchor != "" && !anchors(there)[anchor] {
				t.Errorf("%s links to %s: no such heading", path, m[1])
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

func anchors(page []byte) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllSubmatch(page, -1) {
		name := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(string(m[1])), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

// Every page can be reached from the table of contents, or from the README.
func TestEveryPageIsListed(t *testing.T) {
	var listed strings.Builder
	for _, path := range []string{"README.md", "docs/README.md", "docs/decisions/README.md"} {
		page, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		listed.Write(page)
	}
	for _, path := range pages(t) {
		if name := filepath.Base(path); !strings.Contains(listed.String(), name+")") && strings.Contains(path, "docs") && name != "README.md" {
			t.Errorf("%s is in no table of contents", path)
		}
	}
}

func pages(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}
