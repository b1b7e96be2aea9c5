package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the shape of a setting's value.
type Kind uint8

// The kinds of values.
const (
	Text            Kind = iota + 1 // a string
	Duration                        // 90s, 5m, 1h30m, 30d; 0
	DurationOrNever                 // the same, and 0 is Never
	Count                           // a whole number
	Size                            // 512KiB, 64MiB, 1GiB
	Bool                            // true or false
	List                            // several strings
	Map                             // strings by name
)

// Setting is a key of the file, the flag that overrides it, and its default.
type Setting struct {
	Key     string // path in the file, "log.level"
	Flag    string // without dashes; empty for what has no flag
	Kind    Kind
	Default any    // of the kind's type: string, time.Duration, int, int64 (a Size), bool, []string
	Value   string // what stands for the value in a usage line, "HOST:PORT"
	Usage   string // one line
	// Check refuses a text, each text of a list, each name of a map; nil takes any.
	Check func(string) error
}

// Defaults, each with its reason.
const (
	// DefaultListen can be reached from this machine only: nothing asks for
	// credentials yet.
	DefaultListen = "127.0.0.1:8080"
	// DefaultData is a folder in the working folder, easy to find and to delete.
	DefaultData = "./kalpa-data"
	// DefaultDrain is shorter than the ten seconds after which most supervisors kill.
	DefaultDrain = 3 * time.Second
)

// Settings is every key at the top of a file, in the order in which help and
// documentation list them. Those of PolicyKeys are for all servers.
var Settings = slices.Concat([]Setting{
	{"listen", "listen", Text, DefaultListen, "HOST:PORT", "where clients connect; port 0 picks a free one", address},
	{"data", "data", Text, DefaultData, "DIR", "the folder that keeps the sessions; made when it is not there", folder},
	{"durability", "durability", Text, "sync", "sync|relaxed", "what an acknowledged write survives: a power cut (sync), or only the death of the process (relaxed)", oneOf("sync", "relaxed")},
	{"drain", "drain", Duration, DefaultDrain, "DURATION", "how long SIGTERM waits for open streams and servers to end", nil},
	{"allow_origins", "allow-origin", List, []string(nil), "ORIGIN", "a web origin whose pages may connect, such as https://app.example (repeatable)", filled},
	{"allow_hosts", "allow-host", List, []string(nil), "HOST", "a Host header that is served besides the address itself (repeatable)", filled},
	{"insecure", "insecure", Bool, false, "", "listen on an address that other machines reach, although this host asks for no credentials", nil},
	{"admin", "admin", Text, "", "ADDRESS", "where kalpa's commands, health checks and Prometheus connect: a loopback HOST:PORT, or unix:/path/of.sock; off when empty", adminAddress},
	{"admin_token_file", "admin-token-file", Text, "", "FILE", "a file with the token that requests to the admin address must bear; KALPA_ADMIN_TOKEN holds one as well", expanded},
	{"trace_file", "trace-file", Text, "", "FILE", "a file that spans are appended to, a line of JSON each; off when empty", expanded},
	{"log.level", "log-level", Text, "info", "LEVEL", "debug, info, warn or error", oneOf("debug", "info", "warn", "error")},
	{"log.format", "log-format", Text, "text", "text|json", "how log lines on stderr look", oneOf("text", "json")},
}, PolicyKeys)

// ServerKeys is every key of one server under `servers`.
var ServerKeys = slices.Concat([]Setting{
	{"command", "", Text, "", "", "the program that is started for each session and speaks MCP on stdin and stdout", filled},
	{"args", "", List, []string(nil), "", "its arguments", nil},
	{"env", "", Map, map[string]string(nil), "", "variables set in its environment", variable},
	{"inherit", "", List, []string(nil), "", "variables passed on to it from the host's environment; a * at the end takes all that begin so", variable},
	{"dir", "", Text, "", "", "its working folder; the host's own when not set", folder},
	{"plugin", "", Text, "", "", "instead of a command: the name of a plugin that this program has", nil},
	{"reexecute", "", Text, "", "", "lost calls that are run again by themselves: `never` (the default), those of `read-only` tools, or of `idempotent` ones too; read [what that means](hosting.md#lost-calls-that-are-run-again) first", oneOf("never", "read-only", "idempotent")},
}, PolicyKeys)

// parse reads a value that is written as one text.
func (s *Setting) parse(raw string) (any, error) {
	if s.Check != nil {
		if err := s.Check(raw); err != nil {
			return nil, err
		}
	}
	switch s.Kind {
	case Duration:
		return duration(raw)
	case DurationOrNever:
		d, err := duration(raw)
		if d == 0 {
			d = Never
		}
		return d, err
	case Count:
		return count(raw)
	case Size:
		return size(raw)
	case Bool:
		if raw != "true" && raw != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", raw)
		}
		return raw == "true", nil
	default:
		return raw, nil
	}
}

func filled(raw string) error {
	if strings.TrimSpace(raw) == "" {
		return errors.New("is empty")
	}
	return nil
}

// expanded refuses a path that only a shell would understand.
func expanded(raw string) error {
	if strings.HasPrefix(raw, "~") {
		return fmt.Errorf("%q begins with a ~ that no shell has expanded: write the whole path (in a shell $HOME, not in single quotes), or ./%s if that is its name", raw, raw)
	}
	return nil
}

func folder(raw string) error { return cmp.Or(filled(raw), expanded(raw)) }

func variable(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%q can't be the name of a variable", name)
	}
	return nil
}

// UnixSocket is what the address of a unix socket begins with.
const UnixSocket = "unix:"

func adminAddress(raw string) error {
	if path, ok := strings.CutPrefix(raw, UnixSocket); ok {
		return folder(path)
	}
	if err := address(raw); err != nil {
		return fmt.Errorf("%q is neither HOST:PORT, such as 127.0.0.1:9090, nor unix:/path/of.sock", raw)
	}
	return nil
}

func oneOf(values ...string) func(string) error {
	return func(raw string) error {
		if slices.Contains(values, raw) {
			return nil
		}
		return fmt.Errorf("%q is not one of %s", raw, strings.Join(values, ", "))
	}
}
