// Command counter hosts counters: objects that count, each under a name of its own.
//
//	go run ./examples/counter serve
package main

import "github.com/kalpahost/kalpa"

func main() {
	kalpa.Register(counters.Serve())
	kalpa.Main()
}
