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
	s := fmt.Sprintf("can't start %q: %v", e.Command, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

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
}

func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server %q ", e.Command)
	switch {
	case e.Reason != "":
		b.WriteString(e.Reason)
	case e.Signal != "":
		fmt.Fprintf(&b, "was ended by signal %s", e.Signal)
	default:
		fmt.Fprintf(&b, "exited with status %d", e.Code)
	}
	if e.Tail == "" {
		b.WriteString(", and wrote nothing to stderr")
	} else {
		fmt.Fprintf(&b, "; the end of its stderr:\n%s", e.Tail)
	}
	return b.String()
}
