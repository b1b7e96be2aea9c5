// Command everything is a kalpa host with the plugin "everything": an MCP server with
// one of everything, as the official conformance suite wants it.
//
//	go run ./examples/everything serve --plugin everything
package main

import (
	"github.com/kalpahost/kalpa"
	"github.com/kalpahost/kalpa/examples/everything/fixture"
	"github.com/kalpahost/kalpa/mcp"
)

func main() {
	mcp.Register("everything", fixture.Plugin())
	kalpa.Main()
}
