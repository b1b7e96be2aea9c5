package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
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
	CountOrNone                     // the same, and 0 is no bound
	Size                            // 512KiB, 64MiB, 1GiB
	SizeOrNone                      // the same, and 0 is no bound
	Bool                            // true or false
	List                            // several strings
	Map                             // strings by name
)

// Setting is a key of the file, the flag that overrides it, and its default. The
// variable of the environment between the two is its Variable.
type Setting struct {
	Key     string // path in the file, "log.level"
	Flag    string // without dashes; empty for the keys of one server, which --server sets
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
	// credentials until it is told to.
	DefaultListen = "127.0.0.1:8080"
	// DefaultData is a folder in the working folder, easy to find and to delete.
	DefaultData = "./kalpa-data"
	// DefaultDrain is shorter than the ten seconds after which most supervisors kill.
	DefaultDrain = 3 * time.Second
	// DefaultLeeway is how far the clocks of issuers and hosts are apart, most often.
	DefaultLeeway = 30 * time.Second
	// DefaultConnections is above the streams of one server and below what systems
	// grant in descriptors, most often.
	DefaultConnections = 16_384
	// DefaultRate is far above what a model and its tools ask for, and far below what
	// one caller can send.
	DefaultRate = 200
	// DefaultSessionRate is half of it: one session of many must not starve the others.
	DefaultSessionRate = 100
	// DefaultOpenRate lets a person restart a client as fast as hands can, and not a
	// loop start a process in each turn.
	DefaultOpenRate = 60
)

// DefaultAlgorithms are signatures that only the issuer can make: none that is made
// with what verifies it.
var DefaultAlgorithms = []string{"RS256", "ES256", "EdDSA"}

// Settings is every key at the top of a file, in the order in which help and
// documentation list them. Those of SharedKeys are for all servers.
var Settings = slices.Concat(HostKeys, SharedKeys)

// HostKeys is every key that is about the host alone.
var HostKeys = []Setting{
	{"listen", "listen", Text, DefaultListen, "HOST:PORT", "where clients connect; port 0 picks a free one", address},
	{"data", "data", Text, DefaultData, "DIR", "the folder that keeps the sessions; made when it is not there", folder},
	{"durability", "durability", Text, "sync", "sync|relaxed", "what an acknowledged write survives: a power cut (sync), or only the death of the process (relaxed)", oneOf("sync", "relaxed")},
	{"drain", "drain", Duration, DefaultDrain, "DURATION", "how long SIGTERM waits for open streams and servers to end", nil},
	{"allow_origins", "allow-origin", List, []string(nil), "ORIGIN", "a web origin whose pages may connect, such as https://app.example (repeatable)", filled},
	{"allow_hosts", "allow-host", List, []string(nil), "HOST", "a Host header that is served besides the address itself (repeatable)", filled},
	{"insecure", "insecure", Bool, false, "", "listen on an address that other machines reach, although this host asks for no credentials", nil},
	{"tls.cert", "tls-cert", Text, "", "FILE", "a certificate with its chain (PEM): clients connect by HTTPS; read again on SIGHUP and when it changes", expanded},
	{"tls.key", "tls-key", Text, "", "FILE", "the certificate's private key (PEM)", expanded},
	{"auth.tokens_file", "auth-tokens-file", Text, "", "FILE", "a file with the hashes of tokens that callers may bear, a line of `kalpa token` each", expanded},
	{"auth.issuer", "auth-issuer", Text, "", "URL", "whose tokens (JWT) callers may bear: an OpenID Connect or OAuth issuer, whose keys are discovered", issuer},
	{"auth.audience", "auth-audience", List, []string(nil), "AUDIENCE", "what such a token must be meant for: one of these in its aud (repeatable)", filled},
	{"auth.jwks_url", "auth-jwks-url", Text, "", "URL", "where the issuer's keys are, instead of where it says that they are", issuer},
	{"auth.algorithms", "auth-algorithm", List, DefaultAlgorithms, "ALG", "how such a token may be signed (repeatable)", algorithm},
	{"auth.scopes", "auth-scope", List, []string(nil), "SCOPE", "what such a token must be granted: all of these in its scope (repeatable)", filled},
	{"auth.leeway", "auth-leeway", Duration, DefaultLeeway, "DURATION", "how far the issuer's clock may be off", nil},
	{"auth.resource", "auth-resource", Text, "", "URL", "this host's address as its clients know it, for them to ask tokens for; by default the one they connect to", issuer},
	{"max_connections", "max-connections", Count, DefaultConnections, "N", "connections at once; beyond it one on which nothing is asked is closed, else the new one", nil},
	{"max_rate", "max-rate", CountOrNone, DefaultRate, "N", "requests a second of one caller, twice as many at once after a pause: of a subject, or without credentials of an address; this machine's are not counted; 0: any", nil},
	{"max_session_rate", "max-session-rate", CountOrNone, DefaultSessionRate, "N", "requests a second of one session, twice as many at once after a pause, of callers that are counted; 0: any", nil},
	{"max_open_rate", "max-open-rate", CountOrNone, DefaultOpenRate, "N", "sessions that one caller that is counted may open in a minute, twice as many at once after a pause; 0: any", nil},
	{"isolates", "isolates", Count, 4, "N", "groups of sessions that share a heap and are reset together", nil},
	{"heap", "heap", SizeOrNone, int64(0), "SIZE", "what the sessions of one isolate may hold, their servers' memory included; 0: an equal share of three quarters of the machine's memory", nil},
	{"reclaim", "reclaim", Bool, true, "", "past three quarters of its heap an isolate ends what nobody needs, least recently used first; false: it is reset when the heap is full, whoever is in it", nil},
	{"admin", "admin", Text, "", "ADDRESS", "where kalpa's commands, health checks and Prometheus connect: a loopback HOST:PORT, or unix:/path/of.sock; off when empty", adminAddress},
	{"admin_token_file", "admin-token-file", Text, "", "FILE", "a file with the token that requests to the admin address must bear; KALPA_ADMIN_TOKEN holds one as well", expanded},
	{"trace_file", "trace-file", Text, "", "FILE", "a file that spans are appended to, a line of JSON each; off when empty", expanded},
	{"log.level", "log-level", Text, "info", "debug|info|warn|error", "the least of the log lines that are written", oneOf("debug", "info", "warn", "error")},
	{"log.format", "log-format", Text, "text", "text|json", "how log lines on stderr look", oneOf("text", "json")},
}

// SharedKeys stand at the top of a file for all servers, and under a server for that
// one.
var SharedKeys = slices.Concat(PolicyKeys, LimitKeys)

// ServerKeys is every key of one server under `servers`.
var ServerKeys = slices.Concat(OwnKeys, SharedKeys)

// OwnKeys is every key that only one server can have.
var OwnKeys = []Setting{
	{"command", "", Text, "", "", "the program that is started for each session and speaks MCP on stdin and stdout", filled},
	{"args", "", List, []string(nil), "", "its arguments", nil},
	{"env", "", Map, map[string]string(nil), "", "variables set in its environment", variable},
	{"inherit", "", List, []string(nil), "", "variables passed on to it from the host's environment; a * at the end takes all that begin so", variable},
	{"dir", "", Text, "", "", "its working folder; the host's own when not set", folder},
	{"plugin", "", Text, "", "", "instead of a command: the name of a plugin that this program has", nil},
	{"early", "", Text, "", "", "calls that may begin while they are being stored: `never`, or those of `read-only` tools, which is the default for plugins and not for commands; read [what that means](hosting.md#calls-that-begin-early) first", oneOf("never", "read-only")},
	{"reexecute", "", Text, "", "", "lost calls that are run again by themselves: `never` (the default), those of `read-only` tools, or of `idempotent` ones too; read [what that means](hosting.md#lost-calls-that-are-run-again) first", oneOf("never", "read-only", "idempotent")},
}

// parse reads a value that is written as one text.
func (s *Setting) parse(raw string) (any, error) {
	if raw == "" && s.Flag != "" && s.Default == "" {
		return "", nil // as if it were not set
	}
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
	case CountOrNone:
		return orNone(count(raw))
	case Size:
		return size(raw)
	case SizeOrNone:
		return orNone(size(raw))
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

func issuer(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not a URL, such as https://id.example", raw)
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		return fmt.Errorf("%q is not https: whoever is on the way could change what is read there", raw)
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return fmt.Errorf("%q has more than a host and a path", raw)
	}
	return nil
}

// algorithm takes the signatures that are made with a key of the issuer's alone. Those
// with a shared secret (HS256) are left out: a public key would be taken for it.
func algorithm(raw string) error {
	return oneOf("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")(raw)
}
