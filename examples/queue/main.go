// Command queue hosts queues of deliveries: what is posted to one is posted on to a URL,
// again and again until it is taken.
//
//	go run ./examples/queue serve
package main

import "github.com/kalpahost/kalpa"

func main() {
	kalpa.Register(queues.Serve())
	kalpa.Main()
}
