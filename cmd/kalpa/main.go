// Command kalpa hosts MCP servers with durable sessions. See the root package of
// this module for how to make a kalpa with plugins of one's own.
package main

import "github.com/kalpahost/kalpa"

func main() { kalpa.Main() }
