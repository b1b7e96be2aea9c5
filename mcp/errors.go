package mcp

import "errors"

// ErrReset is what a runtime gets when its session has gone on without it: the
// incarnation was reset, or the runtime was closed or replaced.
var ErrReset = errors.New("the session was reset")
