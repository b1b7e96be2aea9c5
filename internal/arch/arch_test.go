package arch

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kalpahost/kalpa"

// A rule says what the packages under a path may import.
type rule struct {
	// of is a path in this module, with all below it.
	of string
	// except are paths below of that the rule leaves out.
	except []string
	// only: nothing of this module but these and what is below them (and the
	// packages under of themselves). Nil for a rule that has never.
	only []string
	// never: none of these, nor what is below them; they are full import paths.
	never []string
	// tests: the rule holds for tests as well.
	tests bool
	why   string
}

var rules = []rule{
	{
		of: "storage", only: []string{"internal/clock", "internal/run", "internal/seams"},
		why: "storage is at the bottom: imports go storage <- alarm <- actor <- mcp <- sim, cmd",
	},
	{
		of: "alarm", only: []string{"storage", "internal/clock", "internal/run", "internal/seams"},
		why: "an alarm knows rows and time, not whose they are",
	},
	{
		of: "actor", only: []string{"storage", "alarm", "internal/clock", "internal/run", "internal/seams"},
		why: "an object host knows nothing of MCP, so that it can host other things",
	},
	{
		of: "mcp", only: []string{"actor", "alarm", "storage", "internal/clock", "internal/run", "internal/seams", "internal/guard"},
		why: "sessions are hosted by a program; they must not know which",
	},
	{
		of: "mcp/wire", only: []string{},
		why: "messages are values: everybody may use them, so they use nobody",
	},
	{
		of: "mcp/front", only: []string{"mcp", "actor", "internal/clock", "internal/run", "internal/guard"},
		why: "a front is stateless: what it knows of a session comes through a socket",
	},
	{
		of: "mcp/front", never: within("mcp/stdio", "mcp/gosdk", "mcp/demo", "mcp/ledger"),
		why: "a front does not see runtimes, nor the rows that a session keeps",
	},
	{
		of: "mcp/session", never: within("mcp/front", "mcp/stdio", "mcp/gosdk", "mcp/demo"),
		why: "a session knows its runtimes as mcp.Runtime and its fronts as sockets, so that both can be simulated",
	},
	{
		of: "mcp/stdio", never: within("mcp/front", "mcp/session", "actor", "storage", "alarm"),
		why: "a plugin sees of its host what mcp.Session shows: any plugin could have been written by a user",
	},
	{
		of: "mcp/gosdk", never: within("mcp/front", "mcp/session", "actor", "storage", "alarm"),
		why: "a plugin sees of its host what mcp.Session shows: any plugin could have been written by a user",
	},
	{
		of: "mcp/demo", never: within("mcp/front", "mcp/session", "actor", "storage", "alarm"),
		why: "a plugin sees of its host what mcp.Session shows: any plugin could have been written by a user",
	},
	{
		of: "internal/seams", only: []string{}, why: "a seam is a value: what to take out, not how",
	},
	{
		of: "internal/run", only: []string{}, why: "how to wait is handed to everybody, so it uses nobody",
	},
	{
		of: "internal/guard", only: []string{}, why: "who may connect is asked by every listener, whatever is behind it",
	},
	{
		of: "internal/auth", only: []string{}, why: "who calls is asked of a request alone, whatever it is for",
	},
	{
		of: "internal/limit", only: []string{}, why: "how much a caller may ask for does not depend on what for",
	},
	{
		of: "internal/clock", only: []string{}, why: "time is handed to everybody, so it uses nobody",
	},
	{
		of: "internal/soak", only: []string{"internal/admin", "mcp/session", "storage"},
		why: "a soak sees of a host what is outside it, and the store that it leaves",
	},
	{
		of: "", except: []string{"cmd", "e2e"}, never: within("internal/soak"),
		why: "a soak is a tool on top; only the command line and tests use it",
	},
	{
		of: "internal/crowd", only: []string{"mcp/session", "storage"},
		why: "a crowd of sessions is rows in a store",
	},
	{
		of: "", except: []string{"e2e", "internal/bench"}, never: within("internal/crowd"),
		why: "it is for tests and measurements: no host makes up sessions",
	},
	{
		of: "internal/config", only: []string{}, why: "configuration is pure: bytes in, values out",
	},
	{
		of: "internal/admin", only: []string{"actor", "alarm", "mcp/session", "storage"},
		why: "the admin API is about objects and sessions, not about the servers behind them or where it is configured",
	},
	{
		of: "internal/console", only: []string{}, why: "the console asks the admin API, as any client does: it is files, and knows nothing",
	},
	{
		of: "internal/telemetry", only: []string{}, why: "it turns on what others measure, and need not know what that is",
	},
	{
		of: "", except: []string{"internal/telemetry"}, never: []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters"},
		why: "what measures uses the API alone, so that it costs nothing until somebody listens",
	},
	{
		of: "", except: []string{"sim", "cmd"}, never: within("sim"),
		why: "the simulator is a tool on top; only the command line and tests use it",
	},
	{
		of: "", except: []string{"storage/pebble"}, never: []string{"github.com/cockroachdb/pebble"},
		why: "which engine is behind storage.Store is known in one place",
	},
	{
		of: "", except: []string{"actor", "sim"}, never: []string{"github.com/asynkron/protoactor-go"},
		why: "placement, passivation and limits are the host's: raw PIDs never leave package actor",
	},
	{
		of: "", except: []string{"mcp", "examples", "e2e", "sim"}, never: []string{"github.com/modelcontextprotocol/go-sdk"},
		why: "what a program's core needs of MCP is in mcp/wire; the SDK is for plugins and tests",
	},
	{
		of: "mcp", except: []string{"mcp/gosdk", "mcp/demo"}, never: []string{"github.com/modelcontextprotocol/go-sdk"},
		why: "the SDK's types keep no raw bytes: sessions and fronts use mcp/wire",
	},
	{
		of: "", except: []string{"cmd", "e2e"}, never: []string{"github.com/spf13"},
		why: "a library that registers flags or commands can't be embedded",
	},
	{
		of: "", tests: true, never: []string{"gopkg.in/yaml.v3", "gopkg.in/yaml.v2", "github.com/pkg/errors"},
		why: "no longer maintained; go.yaml.in/yaml/v3 and errors are in use",
	},
}

func within(paths ...string) []string {
	for i, p := range paths {
		paths[i] = module + "/" + p
	}
	return paths
}

func TestImportsGoOneWay(t *testing.T) {
	packages := load(t)
	for _, r := range rules {
		if r.of != "" && !slices.ContainsFunc(packages, func(p pkg) bool { return under(p.path, module+"/"+r.of) }) {
			t.Logf("no package under %s yet", r.of)
		}
		for _, p := range packages {
			imports := p.imports
			if r.tests {
				imports = append(slices.Clone(imports), p.testImports...)
			}
			for _, imported := range imports {
				if r.forbids(p.path, imported) {
					t.Errorf("%s imports %s, which it must not:\n\t%s", p.path, imported, r.why)
				}
			}
		}
	}
}

// The rules are tried on imports that break them: a rule that can't fail is none.
func TestRulesForbidWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		forbidden          bool
	}{
		{"storage", "alarm", true},
		{"storage/pebble", "actor", true},
		{"storage/pebble", "storage", false},
		{"alarm", "storage", false},
		{"alarm", "actor", true},
		{"actor", "mcp/wire", true},
		{"mcp/front", "mcp/session", false},
		{"mcp/front", "storage", true},
		{"mcp/front", "mcp/stdio", true},
		{"mcp/session", "mcp/front", true},
		{"mcp/session", "actor", false},
		{"mcp/stdio", "mcp", false},
		{"mcp/stdio", "mcp/session", true},
		{"mcp/wire", "mcp", true},
		{"mcp/session", "cmd", true},
		{"mcp/session", "sim", true},
		{"cmd", "sim", false},
		{"internal/clock", "storage", true},
		{"actorial", "mcp", false}, // a prefix of the name is not a parent
	} {
		importer, imported := module+"/"+c.importer, module+"/"+c.imported
		got := slices.ContainsFunc(rules, func(r rule) bool { return r.forbids(importer, imported) })
		if got != c.forbidden {
			t.Errorf("%s imports %s: forbidden %v, want %v", c.importer, c.imported, got, c.forbidden)
		}
	}
}

func (r *rule) forbids(importer, imported string) bool {
	of := strings.TrimSuffix(module+"/"+r.of, "/")
	if !under(importer, of) || slices.ContainsFunc(r.except, func(e string) bool { return under(importer, module+"/"+e) }) {
		return false
	}
	if slices.ContainsFunc(r.never, func(n string) bool { return under(imported, n) }) {
		return true
	}
	return r.only != nil && under(imported, module) && !under(imported, of) &&
		!slices.ContainsFunc(r.only, func(o string) bool { return under(imported, module+"/"+o) })
}

// under reports whether a path is another, or below it.
func under(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// leaky are packages whose tests need not end with no goroutine left.
var leaky = map[string]string{
	"e2e": "what it tests are processes, and their clients are whatever client there is",
}

// A goroutine that a test has left behind is found where it was left.
func TestEveryPackageLooksForGoroutinesThatAreLeft(t *testing.T) {
	for _, p := range load(t) {
		if _, may := leaky[strings.TrimPrefix(p.path, module+"/")]; !may && p.tested && !slices.Contains(p.testImports, "go.uber.org/goleak") {
			t.Errorf("the tests of %s do not look for goroutines that are left:\n\tfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }", p.path)
		}
	}
}

type pkg struct {
	path                 string
	imports, testImports []string
	tested               bool
}

// load finds the packages of the module and what each imports on any platform.
func load(t *testing.T) []pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	context := build.Default
	context.UseAllFiles = true // no import hides behind a build tag
	var packages []pkg
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := entry.Name()
		if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains([]string{"testdata", "node_modules", "tools"}, name)) {
			return filepath.SkipDir
		}
		found, err := context.ImportDir(path, 0)
		if _, none := err.(*build.NoGoError); none { //nolint:errorlint // go/build returns it bare
			return nil
		}
		if _, several := err.(*build.MultiplePackageError); err != nil && !several { //nolint:errorlint // as above
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p := pkg{path: strings.TrimSuffix(module+"/"+filepath.ToSlash(relative), "/.")}
		p.imports = found.Imports
		p.testImports = append(slices.Clone(found.TestImports), found.XTestImports...)
		p.tested = len(p.testImports) > 0
		packages = append(packages, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Fatalf("found only %d packages: is the test where it was?", len(packages))
	}
	return packages
}
