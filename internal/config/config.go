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
	TLS          TLS           `koanf:"tls"`
	Auth         Auth          `koanf:"auth"`

	MaxConnections int   `koanf:"max_connections"`
	MaxRate        int   `koanf:"max_rate"`         // a second, of one caller; 0: any
	MaxSessionRate int   `koanf:"max_session_rate"` // a second, of one session; 0: any
	MaxOpenRate    int   `koanf:"max_open_rate"`    // a minute, of one caller; 0: any
	Isolates       int   `koanf:"isolates"`
	Heap           int64 `koanf:"heap"` // bytes, of one isolate; 0: by the machine's memory
	Reclaim        bool  `koanf:"reclaim"`

	Admin string `koanf:"admin"`
	// AdminTokenFile has the token for Admin; empty: the environment may.
	AdminTokenFile string `koanf:"admin_token_file"`
	TraceFile      string `koanf:"trace_file"`
	Log            Log    `koanf:"log"`
	Policy         `koanf:",squash"`
	Limits         `koanf:",squash"`

	// Servers are sorted by name. What a policy of theirs does not say, the host's does.
	Servers []Server `koanf:"-"`
	// Single: the one server was named on the command line, or by nobody, and is
	// reached without its name in the address.
	Single bool `koanf:"-"`

	set *layer // what was set for all, wherever
}

// TLS is the certificate that clients are shown; none when both are empty.
type TLS struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}

// Auth is what callers have to show.
type Auth struct {
	TokensFile string        `koanf:"tokens_file"`
	Issuer     string        `koanf:"issuer"`
	Audience   []string      `koanf:"audience"`
	JWKS       string        `koanf:"jwks_url"`
	Algorithms []string      `koanf:"algorithms"`
	Scopes     []string      `koanf:"scopes"`
	Leeway     time.Duration `koanf:"leeway"`
	Resource   string        `koanf:"resource"`
}

// On: callers have to show something.
func (a *Auth) On() bool { return a.TokensFile != "" || a.Issuer != "" }

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
	// Early is session.Early; empty: read-only for a plugin, never for a command.
	Early string `koanf:"early"`
	// Reexecute is session.Reexecute; empty: never.
	Reexecute string `koanf:"reexecute"`
	Policy    `koanf:",squash"`
	Limits    `koanf:",squash"`
	// Line is where the file names it; 0 when the command line or a variable does.
	Line int `koanf:"-"`

	path  string // of its keys in the file
	own   *layer // what is said about it alone, by key of ServerKeys
	found bool   // a file has it under servers
	outer bool   // only flags and variables name it
	meant bool   // an unknown key stands for the missing command or plugin
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
	// Servers are the settings of single servers that were given as NAME.KEY=VALUE.
	Servers []string
	// Environ is the environment: settings by their Variable, and what texts name as
	// ${env:NAME}.
	Environ map[string]string
	// ReadFile reads what texts name as ${file:PATH}. Nil: nothing can be read.
	ReadFile func(path string) ([]byte, error)
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
	out := outside{in.Environ, in.ReadFile}
	f := &file{outside: out, layer: newLayer(), name: in.File, plugins: in.Plugins}
	if in.File != "" {
		f.readFile(in.Data)
	}
	env, assigned, notes, problems := out.variables()
	flags, wrong := out.flags(in.Flags)
	more, wrongServers := serverFlags(in.Servers)
	problems = append(append(problems, wrong...), wrongServers...)

	c := Config{set: newLayer()}
	for _, l := range []*layer{f.layer, env, flags} {
		c.set.over(l)
	}
	decode(&c, defaults(Settings), c.set.values)
	unread := len(f.problems) > 0
	f.assign(slices.Concat(assigned, more))
	c.Servers = f.servers
	problems = append(problems, c.single(in, unread)...)
	for i := range c.Servers {
		if s := &c.Servers[i]; s.found || s.outer {
			f.whole(s)
		}
	}
	problems = append(problems, f.problems...)
	slices.SortFunc(c.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })

	where := func(key string) said {
		place, set := c.set.places[key]
		if !set {
			place = Problem{File: f.name, Key: key}
		}
		return said{place, set, false}
	}
	problems = append(problems, c.settle(func(key string) said {
		here := where(key)
		here.own = here.set
		return here
	})...)
	for i := range c.Servers {
		s := &c.Servers[i]
		decode(s, defaults(SharedKeys), c.set.values, s.own.values)
		problems = append(problems, s.settle(func(key string) said {
			if place, own := s.own.places[key]; own {
				return said{place, true, true}
			}
			return where(key)
		})...)
	}
	problems = append(problems, c.secure(where)...)
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
	return &c, append(f.notes, notes...), problems
}

// secure reports what would leave a host open to others, or nobody in.
func (c *Config) secure(where func(key string) said) (problems Problems) {
	problem := func(key, text string, a ...any) {
		p := where(key).Problem
		p.Text = fmt.Sprintf(text, a...)
		problems = append(problems, p)
	}
	if !Loopback(c.Listen) && !c.Insecure && !c.Auth.On() {
		problem("listen", "%s, and this host asks for no credentials: listen on %s, ask for some (auth.tokens_file or auth.issuer), or accept that with --insecure", reach(c.Listen), onLoopback(c.Listen))
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		set, missing := "tls.cert", "tls.key"
		if c.TLS.Cert == "" {
			set, missing = missing, set
		}
		problem(set, "goes with %s, which is not set", missing)
	}
	if c.Auth.Issuer != "" && len(c.Auth.Audience) == 0 {
		problem("auth.issuer", "goes with auth.audience, which is not set: without it, tokens that were meant for others would be taken")
	}
	if c.Auth.Issuer == "" {
		for _, is := range []struct {
			key string
			set bool
		}{{"auth.audience", len(c.Auth.Audience) > 0}, {"auth.jwks_url", c.Auth.JWKS != ""}, {"auth.scopes", len(c.Auth.Scopes) > 0}} {
			if is.set {
				problem(is.key, "goes with auth.issuer, which is not set")
			}
		}
	}
	return problems
}

// flags reads the flags that were given.
func (o outside) flags(given map[string]any) (*layer, Problems) {
	l, problems := newLayer(), Problems(nil)
	for i := range Settings {
		s := &Settings[i]
		raw, ok := given[s.Flag]
		if !ok || s.Flag == "" {
			continue
		}
		place := Problem{Key: "--" + s.Flag}
		var v any
		var secret bool
		var err error
		if items, list := raw.([]string); list {
			v, secret, err = o.list(s, items)
		} else {
			v, secret, err = o.value(s, raw.(string))
		}
		if err != nil {
			place.Text = err.Error()
			problems = append(problems, place)
			continue
		}
		l.set(s.Key, v, place, secret)
	}
	return l, problems
}

// single decides which servers there are when the command line has a say.
func (c *Config) single(in Input, unread bool) (problems Problems) {
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
		if len(c.Servers) == 0 && !unread && !in.Objects {
			problems = append(problems, Problem{File: in.File, Text: "names no server to host: add one under servers or mcpServers"})
		}
	case len(in.Command) > 0:
		if filled(in.Command[0]) != nil {
			problem("--", "the command is empty")
		}
		place := Problem{Key: "-- " + in.Command[0]}
		s := c.only(CommandName)
		s.own.set("command", in.Command[0], place, false)
		s.own.set("args", in.Command[1:], place, false)
		var inherit []string
		vars := map[string]string{}
		for _, entry := range in.Env {
			name, value, set := strings.Cut(entry, "=")
			if err := variable(name); err != nil {
				problem("--env", "%v", err)
			} else if !set {
				inherit = append(inherit, name)
				continue
			}
			vars[name] = value
		}
		if len(inherit) > 0 {
			s.own.set("inherit", inherit, Problem{Key: "--env"}, false)
		}
		if len(vars) > 0 {
			s.own.set("env", vars, Problem{Key: "--env"}, false)
		}
		c.Single, c.Servers = true, []Server{s}
	case in.Plugin != "":
		c.Single = true
		s := c.only(in.Plugin)
		s.own.set("plugin", in.Plugin, Problem{Key: "--plugin"}, false)
		c.Servers = []Server{s}
	case len(c.Servers) > 0 && !c.onlyDefault(in): // flags and variables have named them
	case in.Objects:
		c.Single = true
	default:
		c.Single = true
		s := c.only(in.Default)
		s.own.set("plugin", in.Default, Problem{}, false)
		c.Servers = []Server{s}
	}
	return problems
}

// onlyDefault: flags and variables have said something about the default server alone,
// and not what it is.
func (c *Config) onlyDefault(in Input) bool {
	return len(c.Servers) == 1 && c.Servers[0].Name == in.Default &&
		c.Servers[0].own.values["command"] == nil && c.Servers[0].own.values["plugin"] == nil
}

// only is the one server that there is, with what flags and variables have set for it.
func (c *Config) only(name string) Server {
	for _, s := range c.Servers {
		if s.Name == name {
			return s
		}
	}
	return Server{Name: name, path: "servers." + name, own: newLayer()}
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
