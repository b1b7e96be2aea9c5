package stdio

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Defaults of the limits in [Config].
const (
	// DefaultMaxLine is the longest message a server may write. Screenshots and
	// files travel as base64 in one line, so it is far above what a text needs.
	DefaultMaxLine = 16 << 20
	// DefaultStderrTail is how much of a server's last words an error carries.
	DefaultStderrTail = 4 << 10
	// DefaultCloseGrace is how long a server may take to end after its stdin was
	// closed, which is how MCP asks it to.
	DefaultCloseGrace = time.Second
	// DefaultTermGrace is how long it may take after SIGTERM, before SIGKILL.
	DefaultTermGrace = time.Second
)

// Bounds that are not worth a setting.
const (
	// brokenGrace is the time between a child's closing stdout or stdin and its
	// exit: most often the first is only a part of the second.
	brokenGrace = 500 * time.Millisecond
	// drainWait is the longest silence on a pipe whose writers should all be gone.
	// It passes only when a process that got away holds the pipe open.
	drainWait = time.Second
	// killWait is how long a killed child may take to be gone before Close says
	// that it is stuck (in an uninterruptible system call).
	killWait = 10 * time.Second
	// logBurst and logRate bound what one child can make the host log.
	logBurst, logRate = 200, 50
	// keptLine is the most that is kept of a line to write the next one in, in bytes.
	keptLine = 4 << 10
	// maxLogLine is the longest piece of a child's output in one log record.
	maxLogLine = 2 << 10
)

// Config says which server is run, and how. Only Command is required.
type Config struct {
	// Command is looked for in PATH unless it contains a slash; a relative path is
	// relative to Dir.
	Command string
	Args    []string
	// Env is added to the child's environment, which is otherwise small: see
	// [Inherited].
	Env map[string]string
	// Inherit names further variables that the child gets from the host's
	// environment, such as secrets that should not stand in a configuration. A
	// trailing * takes all that begin so.
	Inherit []string
	// Dir is the working folder; empty means the host's.
	Dir string
	// RunDir is a folder for the record of living children, which [Sweep] reads at
	// the next start. Plugins with the same RunDir share one supervisor. Empty
	// means no record: then nothing cleans up after a host whose supervisor was
	// killed as well.
	RunDir string

	// Limits are what one server may take.
	Limits Limits
	// CrashLimit is how many servers may end in a row before they have said anything,
	// until the next starts are put off; 0: any number. See [Plugin.Status].
	CrashLimit int

	MaxLine    int           // bytes; 0 means DefaultMaxLine
	StderrTail int           // bytes; 0 means DefaultStderrTail
	CloseGrace time.Duration // 0 means DefaultCloseGrace
	TermGrace  time.Duration // 0 means DefaultTermGrace

	// StderrLevel is the level at which the child's stderr is logged (zero: info).
	StderrLevel slog.Level
	// Logger is for what belongs to no session; nil means slog.Default.
	Logger *slog.Logger

	// noCgroup makes a system that has cgroups look like one that has not.
	noCgroup bool
}

func (c *Config) setDefaults() {
	if c.MaxLine == 0 {
		c.MaxLine = DefaultMaxLine
	}
	if c.StderrTail == 0 {
		c.StderrTail = DefaultStderrTail
	}
	if c.CloseGrace == 0 {
		c.CloseGrace = DefaultCloseGrace
	}
	if c.TermGrace == 0 {
		c.TermGrace = DefaultTermGrace
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// Validate reports all that is wrong with a configuration by itself; whether the
// command exists is for [Plugin.Check].
func (c *Config) Validate() error {
	var errs []error
	if c.Command == "" {
		errs = append(errs, errors.New("stdio: no command is given"))
	}
	for _, s := range append([]string{c.Command, c.Dir}, c.Args...) {
		if strings.ContainsRune(s, 0) {
			errs = append(errs, fmt.Errorf("stdio: %q contains a zero byte", s))
		}
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			errs = append(errs, fmt.Errorf("stdio: the environment variable %q can't be set", name))
		}
	}
	errs = append(errs, c.Limits.validate())
	for _, b := range []struct {
		name string
		n    int64
	}{
		{"CrashLimit", int64(c.CrashLimit)}, {"MaxLine", int64(c.MaxLine)}, {"StderrTail", int64(c.StderrTail)},
		{"CloseGrace", int64(c.CloseGrace)}, {"TermGrace", int64(c.TermGrace)},
	} {
		if b.n < 0 {
			errs = append(errs, fmt.Errorf("stdio: %s is negative", b.name))
		}
	}
	return errors.Join(errs...)
}
