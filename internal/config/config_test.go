package config_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/internal/config"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata")

// TestTranscripts reads the configurations in testdata and compares what comes of
// them: the problems, or the configuration; and the notes. Each archive has one
// file to load, perhaps files that it names (given/...), and lines in its comment that
// begin with "flag", "env", "server" or "command".
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := config.Input{
				Flags: map[string]any{}, Environ: map[string]string{}, Plugins: []string{"demo", "notes"}, Default: "demo",
				ReadFile: func(path string) ([]byte, error) {
					for _, f := range archive.Files {
						if f.Name == path {
							return f.Data, nil
						}
					}
					return nil, fs.ErrNotExist
				},
			}
			for line := range strings.Lines(string(archive.Comment)) {
				words := strings.Fields(line)
				switch {
				case len(words) == 3 && words[0] == "flag":
					in.Flags[words[1]] = words[2]
				case len(words) > 1 && words[0] == "server":
					in.Servers = append(in.Servers, strings.TrimSpace(strings.TrimPrefix(line, "server")))
				case len(words) > 2 && words[0] == "env":
					in.Environ[words[1]] = strings.Join(words[2:], " ")
				case len(words) > 1 && words[0] == "command":
					in.Command = words[1:]
				}
			}
			in.File, in.Data = archive.Files[0].Name, archive.Files[0].Data

			c, notes, problems := config.Load(in)
			given := 1 // and those that are named in it
			for given < len(archive.Files) && strings.HasPrefix(archive.Files[given].Name, "given/") {
				given++
			}
			got := archive.Files[:given:given]
			if len(problems) > 0 {
				got = append(got, txtar.File{Name: "problems", Data: []byte(problems.Error() + "\n")})
			} else {
				got = append(got, txtar.File{Name: "config", Data: shown(t, c)})
			}
			if len(notes) > 0 {
				got = append(got, txtar.File{Name: "notes", Data: []byte(notes.Error() + "\n")})
			}
			want := txtar.Format(archive)
			archive.Files = got
			if *update {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), string(txtar.Format(archive))); diff != "" {
				t.Errorf("not as recorded (-recorded +now); go test ./internal/config -update records anew:\n%s", diff)
			}
		})
	}
}

// shown is what was set, and each server that there is.
func shown(t *testing.T, c *config.Config) []byte {
	t.Helper()
	var set []config.Effective
	for _, e := range c.Effective() {
		if e.From != config.FromDefault {
			set = append(set, e)
		}
	}
	out, err := config.Show(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Servers {
		out += fmt.Sprintf("# %s: %s%s\n", s.Name, strings.TrimSpace(s.CommandLine()), s.Plugin)
	}
	return []byte(out)
}

func TestWithoutAnythingTheDefaultPluginIsHosted(t *testing.T) {
	c, notes, problems := config.Load(config.Input{Plugins: []string{"demo"}, Default: "demo"})
	if len(notes)+len(problems) > 0 {
		t.Fatalf("notes %v, problems %v", notes, problems)
	}
	if diff := cmp.Diff("{}\n# demo: demo\n", string(shown(t, c))); diff != "" {
		t.Error(diff)
	}
	if !c.Single || c.Listen != config.DefaultListen || c.IdleTimeout != 5*time.Minute || c.Servers[0].MaxMemory != 2<<30 || c.MaxCPU != config.Never {
		t.Errorf("%+v", c)
	}
}

// What the tables say is what the structs have, so that nothing is said and not heard.
func TestEverySettingHasAField(t *testing.T) {
	c, _, _ := config.Load(config.Input{Plugins: []string{"demo"}, Default: "demo"})
	shown := map[string]any{}
	for _, e := range c.Effective() {
		shown[e.Key] = e.Value
	}
	flags, variables := map[string]bool{}, map[string]bool{}
	for i := range config.Settings {
		s := &config.Settings[i]
		list, isList := s.Default.([]string)
		switch got := shown[s.Key]; {
		case isList && fmt.Sprint(got) != fmt.Sprint(list), !isList && got != s.Format(s.Default):
			t.Errorf("%s is %v, and its default is %q", s.Key, got, s.Format(s.Default))
		}
		if s.Flag == "" || flags[s.Flag] || variables[s.Variable()] {
			t.Errorf("%s: its flag %q or variable %s is missing or another's", s.Key, s.Flag, s.Variable())
		}
		flags[s.Flag], variables[s.Variable()] = true, true
	}
	for _, k := range config.SharedKeys {
		if shown["servers.demo."+k.Key] != k.Format(k.Default) {
			t.Errorf("servers.demo.%s is %v", k.Key, shown["servers.demo."+k.Key])
		}
	}
}

func TestTheCommandLineIsCheckedAsOneWhole(t *testing.T) {
	_, _, problems := config.Load(config.Input{
		Flags: map[string]any{
			"listen": "8080", "durability": "fast", "idle-timeout": "5", "drain": "-1s",
			"log-level": "loud", "allow-origin": []string{" "}, "admin": "0.0.0.0:9090",
		},
		Command: []string{"npx"}, Plugin: "noted", Plugins: []string{"notes"},
	})
	want := strings.TrimSpace(`
--listen: "8080" is not HOST:PORT, such as 127.0.0.1:8080
--durability: "fast" is not one of sync, relaxed
--drain: -1s is negative
--allow-origin: is empty
--log-level: "loud" is not one of debug, info, warn, error
--idle-timeout: 5 has no unit: write 5s or 5m
--plugin: is given and a command as well: one of them is the server
--plugin: this program has no plugin "noted"; did you mean notes?
--admin: 0.0.0.0:9090 can be reached from other machines: choose a loopback address, such as 127.0.0.1:9090, or give a token with --admin-token-file or KALPA_ADMIN_TOKEN`)
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestAFlagOverridesTheFileAndTheFileTheDefault(t *testing.T) {
	c, _, problems := config.Load(config.Input{
		File: "k.yaml", Data: []byte("idle_timeout: 1m\ndrain: 9s\nservers: {a: {plugin: p}, b: {plugin: p, idle_timeout: 0}}\n"),
		Flags: map[string]any{"idle-timeout": "2m"}, Plugins: []string{"p"},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := []time.Duration{c.IdleTimeout, c.Drain, c.Servers[0].IdleTimeout, c.Servers[1].IdleTimeout}
	want := []time.Duration{2 * time.Minute, 9 * time.Second, 2 * time.Minute, config.Never}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Documentation and help show defaults as a file can set them.
func TestDefaultsAreReadAsTheyAreWritten(t *testing.T) {
	var file strings.Builder
	for _, k := range config.SharedKeys {
		fmt.Fprintf(&file, "%s: %s\n", k.Key, k.Format(k.Default))
	}
	in := config.Input{Plugins: []string{"demo"}, Default: "demo"}
	want, _, _ := config.Load(in)
	in.File, in.Data, in.Plugin = "kalpa.yaml", []byte(file.String()), "demo"
	got, _, problems := config.Load(in)
	if len(problems) > 0 {
		t.Fatalf("%v in\n%s", problems, file.String())
	}
	if diff := cmp.Diff([]any{want.Policy, want.Limits}, []any{got.Policy, got.Limits}); diff != "" {
		t.Errorf("%s in\n%s", diff, file.String())
	}
}

func TestFormatIsShort(t *testing.T) {
	for want, v := range map[string]any{
		"1m30s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2h": 2 * time.Hour, "1h0m5s": time.Hour + 5*time.Second,
		"30d": 720 * time.Hour, "36h": 36 * time.Hour, "0": config.Never, "512KiB": int64(512 << 10), "1GiB": int64(1 << 30), "1025B": int64(1025),
		"2048GiB": int64(2 << 40), "7": 7, "a,b": []string{"a", "b"},
	} {
		if got := (&config.Setting{}).Format(v); got != want {
			t.Errorf("%#v is %s, want %s", v, got, want)
		}
	}
}

func TestListeningBeyondLoopbackMustBeAskedFor(t *testing.T) {
	for _, listen := range []string{":8080", "0.0.0.0:8080", "[::]:0", "192.0.2.1:80", "example.com:80"} {
		in := config.Input{Flags: map[string]any{"listen": listen}, Plugins: []string{"demo"}, Default: "demo"}
		if _, _, problems := config.Load(in); len(problems) != 1 || !strings.Contains(problems[0].Text, "--insecure") {
			t.Errorf("%s: %v", listen, problems)
		}
		in.Flags["insecure"] = "true"
		if _, _, problems := config.Load(in); len(problems) != 0 {
			t.Errorf("%s --insecure: %v", listen, problems)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "127.8.9.1:80", "[::1]:8080", "localhost:8080"} {
		in := config.Input{Flags: map[string]any{"listen": listen}, Plugins: []string{"demo"}, Default: "demo"}
		if _, _, problems := config.Load(in); len(problems) != 0 {
			t.Errorf("%s: %v", listen, problems)
		}
	}
}

func TestWhatToListenOnInsteadIsSaid(t *testing.T) {
	for listen, want := range map[string]string{
		":9000":        "--listen: :9000 stands for every address of this machine, so that other machines can reach it, and this host asks for no credentials: listen on 127.0.0.1:9000, ask for some (auth.tokens_file or auth.issuer), or accept that with --insecure",
		"0.0.0.0:80":   "--listen: 0.0.0.0:80 stands for every address of this machine, so that other machines can reach it, and this host asks for no credentials: listen on 127.0.0.1:80, ask for some (auth.tokens_file or auth.issuer), or accept that with --insecure",
		"192.0.2.1:81": "--listen: 192.0.2.1:81 can be reached from other machines, and this host asks for no credentials: listen on 127.0.0.1:81, ask for some (auth.tokens_file or auth.issuer), or accept that with --insecure",
		"9000":         `--listen: "9000" is not HOST:PORT, such as 127.0.0.1:9000`,
		"localhost":    `--listen: "localhost" is not HOST:PORT, such as 127.0.0.1:8080`,
	} {
		_, _, problems := config.Load(config.Input{Flags: map[string]any{"listen": listen}, Plugins: []string{"demo"}, Default: "demo"})
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Errorf("%s: %s", listen, diff)
		}
	}
}

func TestTheAdminAddressIsAnother(t *testing.T) {
	for _, tc := range []struct {
		listen, admin string
		refused       bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true}, {"localhost:8080", "127.0.0.1:8080", true}, {"0.0.0.0:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:8081", false}, {"127.0.0.1:0", "127.0.0.1:0", false}, {"127.0.0.1:8080", "127.0.0.2:8080", false},
	} {
		_, _, problems := config.Load(config.Input{
			Flags: map[string]any{"listen": tc.listen, "admin": tc.admin, "insecure": "true"}, Plugins: []string{"demo"}, Default: "demo",
		})
		if refused := strings.Contains(problems.Error(), "--admin: "+tc.admin+" is where clients connect (listen is "+tc.listen+"): choose another port"); refused != tc.refused {
			t.Errorf("%+v: %v", tc, problems)
		}
	}
}

func TestATildeIsNoHome(t *testing.T) {
	_, _, problems := config.Load(config.Input{
		File: "kalpa.yaml", Data: []byte("data: ~/kalpa\ntrace_file: ~/spans\nservers: {a: {command: x, dir: ~}, b: {command: x, dir: \"~root/b\"}}\n"),
	})
	const says = " begins with a ~ that no shell has expanded: write the whole path (in a shell $HOME, not in single quotes), or ./"
	want := strings.Join([]string{
		`kalpa.yaml:1: data: "~/kalpa"` + says + "~/kalpa if that is its name",
		`kalpa.yaml:2: trace_file: "~/spans"` + says + "~/spans if that is its name",
		`kalpa.yaml:3: servers.a.dir: has no value; write "" for an empty one`, // YAML's ~ is nothing
		`kalpa.yaml:3: servers.b.dir: "~root/b"` + says + "~root/b if that is its name",
	}, "\n")
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"listen", "data", "idle_timeout", "mcpServers", "servers", "args"}
	for word, want := range map[string]string{
		"listn": "listen", "lsiten": "listen", "idleTimeout": "idle_timeout", "idle-timeout": "idle_timeout",
		"server": "servers", "mcpservers": "mcpServers", "arg": "args", "dta": "data", "date": "data", "zzz": "", "x": "", "": "",
	} {
		if got, ok := config.Nearest(word, known); got != want || ok != (want != "") {
			t.Errorf("Nearest(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}

// Whatever the bytes, Load comes back, and what is wrong has a line of the file.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", "{", "servers: {a: &x {command: *x}}", "a: &a [*a]", "{\"mcpServers\":{\"\":1}}", "- 1", "---\n---\n", "<<: 1", "? [a]: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := 1 // as YAML counts them
		for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			lines += strings.Count(string(data), end)
		}
		_, notes, problems := config.Load(config.Input{File: "f", Data: data})
		for _, p := range append(problems, notes...) {
			if p.Line < 0 || p.Line > lines+1 {
				t.Errorf("%v: of %d lines", p, lines)
			}
		}
	})
}

func ExampleProblem() {
	_, _, problems := config.Load(config.Input{
		File: "kalpa.yaml",
		Data: []byte("listen: 127.0.0.1:8080\nservers:\n  files:\n    comand: npx\n"),
	})
	fmt.Println(problems)
	// Output:
	// kalpa.yaml:4: servers.files.comand: unknown key; did you mean command?
}
