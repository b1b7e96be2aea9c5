package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// deciding are the packages whose code runs in the simulator as well: one seed must give
// one history (I14). What they may not do is looked for here and by the linter, which
// sees to clocks and to randomness.
var deciding = []string{"actor", "alarm", "storage", "mcp", "mcp/session", "mcp/front", "sim"}

// goes are the goroutines that are begun in deciding packages by the language's own
// means, by file, with the reason.
var goes = map[string]string{
	"sim/scheduler.go": "it is what runs the events, one at a time",
	"sim/run.go":       "a world that has panicked is closed apart: it may wait for a lock for ever",
	"sim/campaign.go":  "seeds are run at once, each in a world of its own",

	"mcp/session/resident.go": "a runtime's own goroutine waits for room, which in a simulation there always is",
}

// Deciding code begins goroutines by the runner that it was given.
func TestDecidingCodeBeginsNoGoroutines(t *testing.T) {
	used := map[string]bool{}
	for _, p := range typed(t, deciding...) {
		for _, at := range begins(p) {
			file := p.fset.Position(at).Filename
			if used[file] = true; goes[file] == "" {
				t.Errorf("%s: a goroutine that no runner knows: the simulator can't tell when it runs. Use run.Runner", p.fset.Position(at))
			}
		}
	}
	for file := range goes {
		if !used[file] {
			t.Errorf("%s begins no goroutine any more", file)
		}
	}
}

// begins are the places where goroutines begin: go statements, and the library's ways
// to make one.
func begins(p *typedPackage) (all []token.Pos) {
	for _, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				all = append(all, n.Pos())
			case *ast.CallExpr:
				if f, ok := p.called(n); ok && slices.Contains([]string{"(*sync.WaitGroup).Go", "context.AfterFunc", "time.AfterFunc"}, f) {
					all = append(all, n.Pos())
				}
			}
			return true
		})
	}
	return all
}

// anyOrder begins the comment that says why the order of a map does not matter, on the
// line of the loop or above it.
const anyOrder = "// In any order: "

// Deciding code does not depend on the order of maps, which differs from run to run:
// what it takes from one is sorted, or goes where order is nothing, or a comment says why
// it does not matter.
func TestDecidingCodeDoesNotDependOnTheOrderOfMaps(t *testing.T) {
	for _, p := range typed(t, deciding...) {
		for _, at := range unordered(p) {
			t.Errorf("%s: ranges over a map. Sort what it takes from it, or say why not: %s...", p.fset.Position(at), anyOrder)
		}
	}
}

// unordered are the loops whose outcome may depend on the order of a map.
func unordered(p *typedPackage) (all []token.Pos) {
	for _, f := range p.files {
		reasons := map[int]bool{} // lines that a reason is about
		for _, group := range f.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, anyOrder) {
					reasons[p.fset.Position(c.Pos()).Line] = true
					reasons[p.fset.Position(group.End()).Line+1] = true
				}
			}
		}
		for _, d := range f.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				loop, ok := n.(*ast.RangeStmt)
				if !ok || reasons[p.fset.Position(loop.Pos()).Line] || !p.overMap(loop.X) {
					return true
				}
				if !p.commutes(loop.Body) && !p.sortedAfter(d, loop) {
					all = append(all, loop.Pos())
				}
				return true
			})
		}
	}
	return all
}

// overMap: the elements come in the order of a map.
func (p *typedPackage) overMap(x ast.Expr) bool {
	if call, ok := x.(*ast.CallExpr); ok {
		f, _ := p.called(call)
		return strings.HasPrefix(f, "maps.")
	}
	t := p.info.TypeOf(x)
	if t == nil {
		return false
	}
	_, is := t.Underlying().(*types.Map)
	return is
}

// commutes: a body whose runs may come in any order. It counts, adds up, takes out of the
// map and puts into others, and nothing else.
func (p *typedPackage) commutes(body *ast.BlockStmt) bool {
	for _, s := range body.List {
		if !p.commutesStmt(s) {
			return false
		}
	}
	return true
}

func (p *typedPackage) commutesStmt(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE
	case *ast.ReturnStmt: // that there is one
		return len(s.Results) == 1 && types.ExprString(s.Results[0]) == "true"
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := call.Fun.(*ast.Ident)
		return ok && (name.Name == "delete" || name.Name == "clear")
	case *ast.AssignStmt:
		if slices.Contains([]token.Token{token.ADD_ASSIGN, token.SUB_ASSIGN, token.OR_ASSIGN, token.XOR_ASSIGN}, s.Tok) {
			return !p.isString(s.Lhs[0])
		}
		for i, l := range s.Lhs {
			switch l := l.(type) {
			case *ast.IndexExpr: // into another map
				if _, is := p.info.TypeOf(l.X).Underlying().(*types.Map); !is {
					return false
				}
			case *ast.Ident: // a variable of the loop's own, or the greatest or least so far
				if s.Tok == token.DEFINE || l.Name == "_" {
					continue
				}
				call, ok := s.Rhs[min(i, len(s.Rhs)-1)].(*ast.CallExpr)
				if !ok {
					return false
				}
				if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "max" && f.Name != "min" {
					return false
				}
			default:
				return false
			}
		}
		return true
	case *ast.IfStmt:
		if s.Init != nil && !p.commutesStmt(s.Init) || !p.commutes(s.Body) {
			return false
		}
		return s.Else == nil || p.commutesStmt(s.Else)
	case *ast.BlockStmt:
		return p.commutes(s)
	case *ast.RangeStmt:
		return p.commutes(s.Body)
	}
	return false
}

func (p *typedPackage) isString(x ast.Expr) bool {
	b, ok := p.info.TypeOf(x).Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// sortedAfter: the loop does nothing but append to a slice, which is sorted in the same
// function.
func (p *typedPackage) sortedAfter(d ast.Decl, loop *ast.RangeStmt) bool {
	grown := ""
	only := true
	var look func(s ast.Stmt)
	look = func(s ast.Stmt) {
		switch s := s.(type) {
		case *ast.IfStmt:
			for _, b := range s.Body.List {
				look(b)
			}
			if s.Else != nil {
				look(s.Else)
			}
		case *ast.BlockStmt:
			for _, b := range s.List {
				look(b)
			}
		case *ast.AssignStmt:
			if call, ok := s.Rhs[0].(*ast.CallExpr); ok && len(s.Lhs) == 1 {
				if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "append" {
					grown = types.ExprString(s.Lhs[0])
					return
				}
			}
			only = only && p.commutesStmt(s)
		default:
			only = only && p.commutesStmt(s)
		}
	}
	for _, s := range loop.Body.List {
		look(s)
	}
	if grown == "" || !only {
		return false
	}
	sorted := false
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Pos() > loop.End() && len(call.Args) > 0 {
			f, _ := p.called(call)
			sorted = sorted || strings.HasPrefix(f, "slices.Sort") && types.ExprString(call.Args[0]) == grown
		}
		return true
	})
	return sorted
}

// typedPackage is a package of this module with its types.
type typedPackage struct {
	fset  *token.FileSet // whose names of files begin at the module's root
	files []*ast.File
	info  *types.Info
}

// called is the full name of the function that is called.
func (p *typedPackage) called(call *ast.CallExpr) (string, bool) {
	fun := call.Fun
	if g, ok := fun.(*ast.IndexExpr); ok { // of a generic one
		fun = g.X
	}
	name, ok := fun.(*ast.Ident)
	if s, selects := fun.(*ast.SelectorExpr); selects {
		name, ok = s.Sel, true
	}
	if !ok {
		return "", false
	}
	f, ok := p.info.Uses[name].(*types.Func)
	if !ok {
		return "", false
	}
	return f.FullName(), true
}

// typed reads packages without their tests, and what they import as the compiler has
// left it.
func typed(t *testing.T, paths ...string) (all []*typedPackage) {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}
	for _, path := range paths {
		args = append(args, "./"+path)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	exports := map[string]string{}
	var own []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[l.ImportPath] = l.Export
		if path, ours := strings.CutPrefix(l.ImportPath, module+"/"); ours && slices.Contains(paths, path) {
			own = append(own, l)
		}
	}
	if len(own) != len(paths) {
		t.Fatalf("%d of %d packages are there", len(own), len(paths))
	}
	fset := token.NewFileSet()
	imported := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, l := range own {
		p := &typedPackage{fset: fset, info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		}}
		for _, name := range l.GoFiles {
			source, err := os.ReadFile(filepath.Join(l.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(fset, strings.TrimPrefix(l.ImportPath, module+"/")+"/"+name, source, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		p.check(t, l.ImportPath, imported)
		all = append(all, p)
	}
	return all
}

func (p *typedPackage) check(t *testing.T, path string, imported types.Importer) {
	t.Helper()
	config := types.Config{Importer: imported}
	if _, err := config.Check(path, p.fset, p.files, p.info); err != nil {
		t.Fatal(err)
	}
}

// The two are tried on code that does what they forbid, and on code that does not.
func TestDecidingCodeIsLookedAt(t *testing.T) {
	for body, want := range map[string]string{
		`go f()`:                                 "goroutine",
		`wg.Go(f)`:                               "goroutine",
		`for k := range m { use(k) }`:            "order",
		`for k := range maps.Keys(m) { use(k) }`: "order",
		`s := ""; for k := range m { s += k }; use(s)`:                                      "order",
		`var l []string; for k := range m { l = append(l, k) }; use(l[0])`:                  "order",
		`var l []string; for k := range m { l = append(l, k) }; slices.Sort(l); use(l[0])`:  "",
		`for _, k := range slices.Sorted(maps.Keys(m)) { use(k) }`:                          "",
		`n := 0; for _, v := range m { n += v }`:                                            "",
		`n := 0; for _, v := range m { if v > 1 { n = max(n, v) } }; _ = n`:                 "",
		`_ = func() bool { for k := range m { if k == "" { return true } }; return false }`: "",
		`_ = func() string { for k := range m { return k }; return "" }`:                    "order",
		`for k := range m { if k == "" { delete(m, k) } }`:                                  "",
		"// In any order: it is only a test.\n\tfor k := range m { use(k) }":                "",
		`for _, k := range []string{"a"} { use(k) }`:                                        "",
	} {
		source := fmt.Sprintf("package p\n\nimport (\n\t\"maps\"\n\t\"slices\"\n\t\"sync\"\n)\n\nvar (\n\twg sync.WaitGroup\n\t_ = maps.Keys[map[string]int]\n\t_ = slices.Sort[[]string]\n)\n\nfunc f() {}\nfunc use(string) {}\nfunc g(m map[string]int) {\n\t%s\n}\n", body)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		p := &typedPackage{fset: fset, files: []*ast.File{file}, info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		}}
		p.check(t, "p", importer.ForCompiler(fset, "source", nil))
		got := ""
		if len(begins(p)) > 0 {
			got = "goroutine"
		}
		if len(unordered(p)) > 0 {
			got = "order"
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", body, got, want)
		}
	}
}
