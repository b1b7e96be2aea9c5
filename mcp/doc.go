// Package mcp hosts MCP sessions on durable objects.
//
// A session is an object: it has an identity, a log of events and a ledger of
// the requests it owes an answer to, all durable. What answers its requests is
// its runtime: an MCP server that a [Plugin] builds when the session needs one
// and that is reclaimed when the session is idle.
//
// # Writing a plugin
//
// Most plugins need no more than a function that registers tools on an
// mcp.Server of the official Go SDK: see package gosdk. Servers in other
// languages run as child processes: see package stdio. A [Plugin] of one's own
// gives full control: Build returns a [Runtime] that takes the client's messages
// and answers through [Session.Send].
//
// # The parts
//
//	mcp/wire     messages that keep their raw bytes
//	mcp/session  the session object: ledger, replay, handshake, runtimes
//	mcp/front    the HTTP side: Streamable HTTP, streams, limits
//	mcp/stdio    child processes as runtimes
//	mcp/gosdk    Go functions as runtimes
//	mcp/demo     the server that runs without any configuration
package mcp
