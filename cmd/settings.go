package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/internal/config"
)

// hostFlags are the flags by which a host is configured: those of serve, and of the
// commands that check and show what it would have.
type hostFlags struct {
	file, plugin string
	env, servers []string
	settings     settingFlags
}

func (f *hostFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.SetInterspersed(false) // serve npx -y x: a forgotten -- is not about the flag -y
	f.settings = newSettingFlags(flags)
	flags.StringVar(&f.file, "config", "", "a `FILE` that names servers and sets what the flags do not (default $"+configVariable+")")
	flags.StringVar(&f.plugin, "plugin", "", "host the plugin `NAME` of the program at /mcp")
	flags.StringArrayVar(&f.env, "env", nil, "a `VARIABLE` for the command: NAME passes the host's on, NAME=VALUE sets it (repeatable)")
	flags.StringArrayVar(&f.servers, "server", nil, "`NAME.KEY=VALUE` sets a key of one server, as in a file (repeatable)")
}

// configVariable names the configuration file, where no flag does.
const configVariable = config.Prefix + "CONFIG"

// load reads the configuration as it is now. command is what follows --.
func (f *hostFlags) load(command []string) (*config.Config, config.Notes, error) {
	in := config.Input{
		Flags: f.settings.given(), Command: command, Env: f.env, Servers: f.servers,
		Plugin: f.plugin, Plugins: plugins(), Default: demoName, Objects: len(registered()) > 0, AdminToken: os.Getenv(adminTokenVariable) != "",
		Environ: environ(), ReadFile: os.ReadFile,
	}
	named := "--config"
	if in.File = f.file; in.File == "" {
		named, in.File = configVariable, os.Getenv(configVariable)
	}
	if in.File != "" {
		data, err := os.ReadFile(in.File)
		if err != nil {
			return nil, nil, &usageError{err: fmt.Errorf("%s: %w", named, err), hint: "name a file that can be read, or none: every setting has a default, and kalpa serve -- COMMAND hosts a server without a file"}
		}
		in.Data = data
	}
	c, notes, problems := config.Load(in)
	if len(problems) > 0 {
		return nil, notes, &usageError{err: problems, hint: "kalpa serve --help explains the flags; docs/configuration.md the file"}
	}
	return c, notes, nil
}

// named reads the files that a configuration names, as a host does before it starts, and
// says what is wrong with each.
func named(c *config.Config) error {
	var problems config.Problems
	hint := ""
	note := func(err error) {
		if err == nil {
			return
		}
		problems = append(problems, config.Problem{Text: err.Error()})
		if u, ok := errors.AsType[*usageError](err); ok {
			hint = cmp.Or(hint, u.hint)
		}
	}
	_, err := authenticator(c.Auth)
	note(err)
	if c.TLS.Cert != "" {
		_, _, err := loadCertificate(c.TLS)
		note(err)
	}
	if c.Admin != "" {
		_, err := adminToken(c.AdminTokenFile)
		note(err)
	}
	if len(problems) == 0 {
		return nil
	}
	return &usageError{err: problems, hint: hint}
}

func environ() map[string]string {
	all := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}
