package guarantees

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
)

var take = flag.Bool("guards", false, "take each guarded line out and see its test fail (minutes)")

const root = "../.."

// Every point is there in every situation, once, and every cause of a reset.
func TestTheTableIsWhole(t *testing.T) {
	list := Cells()
	for _, p := range actor.Points() {
		for _, s := range Situations() {
			if len(list) == 0 || list[0].Point != p || list[0].Situation != s {
				t.Fatalf("the next cell is to be %s, %s; the table goes on with %+v", p, s, list)
			}
			if c := list[0]; (c.Outcome == NotAccepted) != (c.Where == Nowhere) || c.Outcome != Lost && (c.Started || c.StartedCold) {
				t.Errorf("%s, %s makes no sense: %+v", p, s, c)
			}
			list = list[1:]
		}
	}
	var named []actor.Cause
	for _, c := range Causes() {
		named = append(named, c.Cause)
	}
	if !slices.Equal(named, actor.Causes()) {
		t.Errorf("the causes are %v, want %v", named, actor.Causes())
	}
}

// Each guard names a test that exists, and a line that stands once in the function
// that it is said to be in.
func TestGuardsAreWhereTheyAreSaidToBe(t *testing.T) {
	for _, g := range Guards() {
		if _, err := g.without(); err != nil {
			t.Errorf("%s: %v; guards.go names the line as it stands", g.Holds, err)
		}
		folder, _ := g.Split()
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			code, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(code, []byte("func "+g.Function()+"(t *testing.T)"))
		}
		if !found {
			t.Errorf("%s: there is no %s in %s", g.Holds, g.Function(), folder)
		}
	}
}

// without is the file with the guarded line taken out.
func (g Guard) without() ([]byte, error) {
	path := filepath.Join(root, g.File)
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != g.Func {
			continue
		}
		from, to := files.Position(fn.Pos()).Offset, files.Position(fn.End()).Offset
		body := code[from:to]
		if n := bytes.Count(body, []byte(g.Line)); n != 1 {
			return nil, fmt.Errorf("%q stands %d times in %s of %s, want once", g.Line, n, g.Func, g.File)
		}
		changed := bytes.Replace(body, []byte(g.Line), []byte(g.Instead), 1)
		return bytes.Join([][]byte{code[:from], changed, code[to:]}, nil), nil
	}
	return nil, fmt.Errorf("there is no function %s in %s", g.Func, g.File)
}

// Each of the tests fails when the line that it guards is taken out. The line is taken
// out of what the compiler reads, never of the file.
func TestEachTestFailsWithoutItsLine(t *testing.T) {
	if !*take {
		t.Skip("takes minutes: go test ./internal/guarantees -guards")
	}
	for _, g := range Guards() {
		t.Run(regexp.MustCompile(`\W+`).ReplaceAllString(g.Holds, "_"), func(t *testing.T) {
			code, err := g.without()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			there, err := filepath.Abs(filepath.Join(root, g.File))
			if err != nil {
				t.Fatal(err)
			}
			changed := filepath.Join(dir, "changed.go")
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{there: changed}})
			if err == nil {
				err = errors.Join(os.WriteFile(changed, code, 0o600), os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			folder, test := g.Split()
			var parts []string
			for part := range strings.SplitSeq(test, "/") {
				parts = append(parts, "^"+part)
			}
			// In the environment the overlay holds for the programs that tests build, too.
			run := func(args ...string) (string, error) {
				cmd := exec.Command("go", args...)
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+filepath.Join(dir, "overlay")))
				cmd.WaitDelay = time.Second
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := run("build", "./..."); err != nil {
				t.Fatalf("without its line the code does not compile: %v\n%s", err, out)
			}
			out, err := run("test", "-count=1", "-timeout=5m", "-run", strings.Join(parts, "/"), "./"+folder)
			switch {
			case err == nil:
				t.Errorf("%s passes without %q in %s of %s", g.Test, g.Line, g.Func, g.File)
			case !strings.Contains(out, "--- FAIL: "+g.Function()):
				t.Errorf("%s did not fail by itself: %v\n%s", g.Test, err, out[max(0, len(out)-2000):])
			}
		})
	}
}
