package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Inherited are the variables of the host's environment that every child gets: a
// trailing * stands for all that begin so. They are what programs need to find
// their files, to speak the user's language and to reach the network. All else
// stays behind, since a host's environment is where its secrets are: name what a
// server needs in Config.Env or Config.Inherit.
var Inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ",
	"LANG", "LANGUAGE", "LC_*", "XDG_*",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	// npx and uvx: where they look and what they keep, not who they are there.
	"npm_config_cache", "npm_config_prefix", "npm_config_registry", "npm_config_userconfig",
	"UV_CACHE_DIR", "UV_INDEX_URL", "UV_TOOL_DIR",
}

// command is a server made ready to start.
type command struct {
	path string // absolute
	args []string
	env  []string
	dir  string // absolute

	limits Limits
}

// command finds the server and checks what can be checked before it is started,
// since what the system says afterwards ("no such file") does not say which.
func (c *Config) command() (command, error) {
	fail := func(err error, hint string) (command, error) {
		return command{}, &StartError{c.Command, err, hint}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fail(err, "")
	}
	if info, err := os.Stat(dir); err != nil {
		return fail(fmt.Errorf("the working folder can't be used: %w", err), "")
	} else if !info.IsDir() {
		return fail(fmt.Errorf("the working folder %s is not a folder", dir), "")
	}
	env := c.environ(os.Environ())
	path := c.Command
	if strings.Contains(path, "/") {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := executable(path); err != nil {
			hint := ""
			if errors.Is(err, fs.ErrPermission) {
				hint = "is it executable? chmod +x"
			}
			return fail(err, hint)
		}
	} else {
		search := lookup(env, "PATH")
		path, err = find(path, search)
		if err != nil {
			return fail(err, "install it, give its full path, or set PATH in the server's env")
		}
	}
	return command{path, append([]string{c.Command}, c.Args...), env, dir, c.Limits}, nil
}

// find looks for a program in a PATH.
func find(name, search string) (string, error) {
	var denied error
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) { // what is started must not depend on where
			continue
		}
		path := filepath.Join(dir, name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%w in PATH %q", ErrNotFound, search)
}

// ErrNotFound: no folder of PATH has the command.
var ErrNotFound = errors.New("command not found")

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "run", Path: path, Err: syscall.EISDIR}
	case info.Mode()&0o111 == 0:
		return &fs.PathError{Op: "run", Path: path, Err: fs.ErrPermission}
	}
	return nil
}

// environ is the child's environment, made from the host's.
func (c *Config) environ(host []string) []string {
	wanted := append(slices.Clone(Inherited), c.Inherit...)
	env := map[string]string{}
	for _, entry := range host {
		name, value, ok := strings.Cut(entry, "=")
		// A value that begins like this is a function that some shell exported.
		if ok && !strings.HasPrefix(value, "()") && slices.ContainsFunc(wanted, func(w string) bool {
			prefix, wild := strings.CutSuffix(w, "*")
			return w == name || wild && strings.HasPrefix(name, prefix)
		}) {
			env[name] = value
		}
	}
	maps.Copy(env, c.Env)
	entries := make([]string, 0, len(env))
	for name, value := range env {
		entries = append(entries, name+"="+value)
	}
	slices.Sort(entries)
	return entries
}

func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// explain turns what the system said about starting a command into what the
// reader needs.
func explain(name string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOENT):
		hint = "the file is there, so the interpreter in its first line is missing"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "it is neither a program for this machine nor a script with a #! line"
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and environment are too long"
	case errors.Is(err, syscall.EAGAIN):
		hint = "the limit of processes is reached, see ulimit -u"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = "the limit of open files is reached, see ulimit -n"
	}
	return &StartError{name, err, hint}
}
