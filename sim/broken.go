package sim

import (
	pa "github.com/asynkron/protoactor-go/actor"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// Broken is a host in which one thing is wrong on purpose: what the checks must
// find. The real code is left as it is; what is broken is what it is given.
type Broken struct {
	Name string
	// Invariant is the one that must be found violated.
	Invariant string
	Profile   string // in which it shows
	Why       string

	World        func(w *World)
	Store        func(w *World, s storage.Store) storage.Store
	Sessions     func(w *World, s session.Sessions) session.Sessions
	Dispatcher   func(p *Process) pa.Dispatcher
	Plugin       func(w *World, p mcp.Plugin) mcp.Plugin
	ResetIsolate func(h *host) func(int, actor.Cause, error) (int, error)
}
