package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Config is everything that a host can be told.
type Config struct {
	Listen       string        `koanf:"listen"`
	Data         string        `koanf:"data"`
	Durability   string        `koanf:"durability"`
	Drain        time.Duration `koanf:"drain"`
	AllowOrigins []string      `koanf:"allow_origins"`
	AllowHosts   []string      `koanf:"allow_hosts"`
	Insecure     bool          `koanf:"insecure"`
	Admin        string        `koanf:"admin"`
	// AdminTokenFile has the token for Admin; empty: the environment may.
	AdminTokenFile string `koanf:"admin_token_file"`
	TraceFile      string `koanf:"trace_file"`
	Log            Log    `koanf:"log"`
	Policy         `koanf:",squash"`

	// Servers are sorted by name. What a policy of theirs does not say, the host's does.
	Servers []Server `koanf:"-"`
	// Single: the one server was named on the command line, or by nobody, and is
	// reached without its name in the address.
	Single bool `koanf:"-"`
}

// Log is how log lines look and which of them there are.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Server is one hosted MCP server.
type Server struct {
	Name string `koanf:"-"`
	// Command and Args start it; or Plugin names a plugin.
	Command string            `koanf:"command"`
	Args    []string          `koanf:"args"`
	Env     map[string]string `koanf:"env"`     // set in its environment
	Inherit []string          `koanf:"inherit"` // passed on from the host's environment
	Dir     string            `koanf:"dir"`     // its working folder; empty: the host's
	Plugin  string            `koanf:"plugin"`
	// Reexecute is session.Reexecute; empty: never.
	Reexecute string `koanf:"reexecute"`
	Policy    `koanf:",squash"`
	// Line is where the file names it; 0 when the command line does.
	Line int `koanf:"-"`

	path   string         // of its keys in the file
	values map[string]any // what the file says about it, by key of ServerKeys
	lines  map[string]int // where it does
}

// Input is what a Config is made of.
type Input struct {
	// File and Data are the configuration file's name and content; none when File is
	// empty.
	File string
	Data []byte
	// Flags are the flags that were given, without dashes: a string each, or a
	// []string for a list.
	Flags map[string]any
	// Command is the command line of a single server, and Env its variables, as NAME
	// (passed on from the host's environment) or NAME=VALUE.
	Command []string
	Env     []string
	// Plugin is the name of a single plugin.
	Plugin string
	// Plugins are the names of the plugins that there are, and Default the one that
	// is hosted when nothing else is named.
	Plugins []string
	Default string
	// Objects: the program has objects to host, so that it needs no server.
	Objects bool
	// AdminToken: the environment has a token for the admin address.
	AdminToken bool
}

// CommandName is the name of a server that is given as a command. It is part of
// the identity of its sessions: they go on when the command changes.
const CommandName = "main"

// Load makes a Config. When there are problems it is not to be used. The notes are
// for the operator and come either way.
func Load(in Input) (*Config, Notes, Problems) {
	f := &file{values: map[string]any{}, lines: map[string]int{}}
	if in.File != "" {
		f = readFile(in.File, in.Data, in.Plugins)
	}
	problems := f.problems
	flags := map[string]any{}
	for i := range Settings {
		s := &Settings[i]
		given, ok := in.Flags[s.Flag]
		if !ok || s.Flag == "" {
			continue
		}
		v, err := flagValue(s, given)
		if err != nil {
			problems = append(problems, Problem{Key: "--" + s.Flag, Text: err.Error()})
			continue
		}
		flags[s.Key] = v
	}

	var c Config
	decode(&c, defaults(Settings), f.values, flags)
	c.Servers = f.servers
	problems = append(problems, c.single(in, f)...)
	slices.SortFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })

	where := func(key string) said {
		if _, flag := flags[key]; flag {
			return said{Problem{Key: "--" + find(Settings, key).Flag}, true, false}
		}
		_, set := f.values[key]
		return said{Problem{File: f.name, Line: f.lines[key], Key: key}, set, false}
	}
	problems = append(problems, c.settle(func(key string) said {
		here := where(key)
		here.own = here.set
		return here
	})...)
	for i := range c.Servers {
		s := &c.Servers[i]
		decode(s, defaults(PolicyKeys), f.values, flags, s.values)
		problems = append(problems, s.settle(func(key string) said {
			if _, own := s.values[key]; own {
				return said{Problem{File: f.name, Line: s.lines[key], Key: s.path + "." + key}, true, true}
			}
			return where(key)
		})...)
	}
	if !Loopback(c.Listen) && !c.Insecure {
		p := where("listen").Problem
		p.Text = fmt.Sprintf("%s, and this host asks for no credentials: listen on %s, or accept that with --insecure", reach(c.Listen), onLoopback(c.Listen))
		problems = append(problems, p)
	}
	if c.Admin != "" && !Loopback(c.Admin) && !strings.HasPrefix(c.Admin, UnixSocket) && c.AdminTokenFile == "" && !in.AdminToken {
		p := where("admin").Problem
		p.Text = fmt.Sprintf("%s can be reached from other machines: choose a loopback address, such as 127.0.0.1:9090, or give a token with --admin-token-file or KALPA_ADMIN_TOKEN", c.Admin)
		problems = append(problems, p)
	}
	if same(c.Admin, c.Listen) {
		p := where("admin").Problem
		p.Text = fmt.Sprintf("%s is where clients connect (listen is %s): choose another port", c.Admin, c.Listen)
		problems = append(problems, p)
	}
	problems.sort()
	return &c, f.notes, problems
}

// single decides which servers there are when the command line has a say.
func (c *Config) single(in Input, f *file) (problems Problems) {
	problem := func(key, text string, a ...any) {
		problems = append(problems, Problem{Key: key, Text: fmt.Sprintf(text, a...)})
	}
	named := "" // how the command line names a server
	switch {
	case len(in.Command) > 0:
		named = "-- " + in.Command[0]
	case in.Plugin != "":
		named = "--plugin " + in.Plugin
	}
	if len(in.Env) > 0 && len(in.Command) == 0 {
		problem("--env", "goes with a command after --; the servers of a file have env and inherit of their own")
	}
	if len(in.Command) > 0 && in.Plugin != "" {
		problem("--plugin", "is given and a command as well: one of them is the server")
	}
	if in.Plugin != "" && !slices.Contains(in.Plugins, in.Plugin) {
		problem("--plugin", "this program has no plugin %q; %s", in.Plugin, didYouMean(in.Plugin, in.Plugins))
	}
	switch {
	case in.File != "" && len(c.Servers) > 0 && named != "":
		problem("--config", "%s names servers, and so does the command line with %s: add that one to the file", in.File, named)
	case in.File != "" && named == "":
		if len(c.Servers) == 0 && len(f.problems) == 0 && !in.Objects {
			problems = append(problems, Problem{File: in.File, Text: "names no server to host: add one under servers or mcpServers"})
		}
	case len(in.Command) > 0:
		if filled(in.Command[0]) != nil {
			problem("--", "the command is empty")
		}
		s := Server{Name: CommandName, Command: in.Command[0], Args: in.Command[1:]}
		for _, entry := range in.Env {
			name, value, set := strings.Cut(entry, "=")
			if err := variable(name); err != nil {
				problem("--env", "%v", err)
			} else if !set {
				s.Inherit = append(s.Inherit, name)
				continue
			}
			if s.Env == nil {
				s.Env = map[string]string{}
			}
			s.Env[name] = value
		}
		c.Single, c.Servers = true, []Server{s}
	case in.Plugin != "":
		c.Single = true
		c.Servers = []Server{{Name: in.Plugin, Plugin: in.Plugin}}
	case in.Objects:
		c.Single = true
	default:
		c.Single = true
		c.Servers = []Server{{Name: in.Default, Plugin: in.Default}}
	}
	return problems
}

func flagValue(s *Setting, given any) (any, error) {
	if s.Kind != List {
		return s.parse(given.(string))
	}
	list := given.([]string)
	for _, item := range list {
		if s.Check == nil {
			break
		}
		if err := s.Check(item); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func defaults(settings []Setting) map[string]any {
	m := map[string]any{}
	for _, s := range settings {
		m[s.Key] = s.Default
	}
	return m
}

// decode lays layers of values by key over one another, the later over the earlier,
// and writes them into a struct. Keys that it has no field for are passed over.
func decode(into any, layers ...map[string]any) {
	k := koanf.New(".")
	for _, layer := range layers {
		if err := k.Load(confmap.Provider(maps.Clone(layer), "."), nil); err != nil {
			panic(err) // a map in memory is read without fail
		}
	}
	if err := k.Unmarshal("", into); err != nil {
		panic(fmt.Sprintf("config: %T does not fit its settings: %v", into, err)) // both are in this package
	}
}
