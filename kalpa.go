// Package kalpa hosts MCP servers with durable sessions.
//
// Each session is a durable object: an identity, a log of events and a ledger of
// the requests that are owed an answer, all in an embedded store. The server that
// answers, a child process or a Go plugin, is built when a session needs it and
// reclaimed when it is idle. Resets, crashes and deployments end servers, not
// sessions: the client goes on with the session it has, and every request it sent
// is answered, if only with "this execution was lost".
//
// # A host of one's own
//
// The program in cmd/kalpa hosts any MCP server that is a command. A server
// written in Go can be a part of the host instead: register it and call [Main].
//
//	package main
//
//	import (
//		"context"
//
//		sdk "github.com/modelcontextprotocol/go-sdk/mcp"
//
//		"github.com/kalpahost/kalpa"
//		"github.com/kalpahost/kalpa/mcp"
//		"github.com/kalpahost/kalpa/mcp/gosdk"
//	)
//
//	func main() {
//		server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
//		// sdk.AddTool(server, ...)
//		mcp.Register("notes", gosdk.Plugin(func(context.Context, mcp.Session) (*sdk.Server, error) {
//			return server, nil
//		}))
//		kalpa.Main()
//	}
//
// It is run as `notes serve --plugin notes`, or with a configuration file that
// names the plugin.
//
// # Objects of one's own
//
// A program may also host objects of its own classes, with or without MCP servers
// beside them:
//
//	func main() {
//		kalpa.Register(counters.Serve())
//		kalpa.Main()
//	}
//
// It is run as `counter serve`, and has its objects at /objects/CLASS/NAME/.
// Package actor says what objects are; examples/counter, examples/chat and
// examples/queue are programs to begin with.
//
// # The packages
//
//	mcp      plugins, sessions, the HTTP front
//	actor    durable objects: incarnations, isolates, gates, resets
//	alarm    one durable alarm for each object
//	storage  durable key-value storage for each object, with a fence
//	cmd      the command line
package kalpa

import (
	"context"
	"os"

	"github.com/kalpahost/kalpa/cmd"
)

// Class is a class of objects, made by Define in package actor.
type Class = cmd.Class

// Register makes classes of objects a part of the host that Main runs. Call it before
// Main; it panics when a name is taken.
func Register(classes ...Class) { cmd.Register(classes...) }

// Main is the whole program: every command and flag of cmd/kalpa, with the plugins and
// the classes that were registered before. It does not return.
func Main() {
	os.Exit(cmd.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
