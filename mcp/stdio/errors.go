package stdio

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed: the runtime, or the plugin, was closed.
var ErrClosed = errors.New("stdio: closed")

// StartError says why a server could not be started.
type StartError struct {
	Command string
	Err     error
	// Hint says what to do about it; may be empty.
	Hint string
}

func (e *StartError) Error() string {
	s := e.Reason()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Reason is the error without its hint.
func (e *StartError) Reason() string { return fmt.Sprintf("can't start %q: %v", e.Command, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// ExitError says how a server ended.
type ExitError struct {
	Command string
	// Reason is why the host ended it; empty when it ended by itself.
	Reason string
	// Code is the exit status, -1 when a signal ended the server.
	Code int
	// Signal is the name of the signal that ended the server; may be empty.
	Signal string
	// Tail is the end of what the server wrote to stderr.
	Tail string
	// Err is mcp.ErrMemoryLimit or mcp.ErrCPULimit when it was ended for that.
	Err error
}

func (e *ExitError) Unwrap() error { return e.Err }

// how says how it ended, in words that follow "the server".
func (e *ExitError) how() string {
	switch {
	case e.Reason != "":
		return e.Reason
	case e.Signal != "":
		return "was ended by signal " + e.Signal
	default:
		return fmt.Sprintf("exited with status %d", e.Code)
	}
}

func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server %q %s", e.Command, e.how())
	if e.Tail == "" {
		b.WriteString(", and wrote nothing to stderr")
	} else {
		fmt.Fprintf(&b, "; the end of its stderr:\n%s", e.Tail)
	}
	return b.String()
}
