package mcp

import "errors"

// ErrReset is what a runtime gets when its session has gone on without it: the
// incarnation was reset, or the runtime was closed or replaced.
var ErrReset = errors.New("the session was reset")

// What a runtime may have been ended for: an error that it passes to Session.Exited
// wraps one of these, and what it owed is answered as lost for that reason.
var (
	ErrMemoryLimit = errors.New("the server exceeded its memory limit")
	ErrCPULimit    = errors.New("the server exceeded its processor time")
)
