// Package gosdk hosts MCP servers written in Go with the official SDK
// (github.com/modelcontextprotocol/go-sdk).
//
//	mcp.Register("notes", gosdk.Plugin(func(ctx context.Context, s mcp.Session) (*sdk.Server, error) {
//		server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
//		sdk.AddTool(server, &sdk.Tool{Name: "add"}, addNote)
//		return server, nil
//	}))
//
// # One server, or one for each session
//
// The function is called when a session needs a runtime. It may return the same
// server every time: each session is a connection of its own to it, and costs
// little (some 6 kB). What a handler keeps for a session then belongs into the
// session's [mcp.State], which it finds through [SessionFrom]. Or it may return a
// new server each time, which can keep things in variables as long as the runtime
// lives; give its options a shared SchemaCache, or every session pays for the
// reflection on its tools.
//
// Memory is gone when a session has been idle for a while, and after a reset; only
// the State stays. A handler that runs when that happens has its context cancelled,
// and the client is told that the execution was lost.
//
// # Messages
//
// Whatever a handler sends with its own context (progress, log messages, sampling,
// elicitation, a list of roots) belongs to the request that it answers and takes the
// same stream. What is sent with another context (resource updates, changed lists)
// takes the client's own stream.
//
// RequestExtra.CloseSSEStream works where the host can do it: it ends the request's
// HTTP response early and lets the client come back for the rest.
//
// # Middleware
//
// Add middleware to a server before it is returned for the first time: the package adds
// its own then, which should be the outermost. A server that is also served in another
// way works too; return it here before it has its first session there, or its tool calls
// take the SDK's slower way.
//
// # Failure
//
// A handler that panics takes nothing down: the panic is logged with its stack and
// the client gets an internal error. So does a result that can't be encoded, and a
// handler that ends its goroutine. The SDK's errors without a code become internal
// errors. Fatal errors of the Go runtime (a concurrent map write, a stack that
// overflows, memory exhausted) can't be caught: they end the process with all its
// sessions. A server that may do that belongs into a process of its own, see package
// stdio.
//
// # Closing
//
// Closing a runtime cancels the context of every handler and waits for them to
// return, as long as the context given to Close lasts. A handler that ignores its
// context is then abandoned: Go can't stop a goroutine. It can send nothing any more,
// but it keeps its memory and its processor time until it returns.
//
// A handler must not close its own ServerSession, which would wait for the handler.
//
// # Concurrency
//
// The SDK runs requests of one session concurrently, notifications and initialize in
// order. Handlers of a shared server run for all its sessions at once.
package gosdk
