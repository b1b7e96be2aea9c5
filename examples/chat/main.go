// Command chat hosts chat rooms: an object for each, with WebSockets and a history.
//
//	go run ./examples/chat serve
//
// and then http://localhost:8080/objects/room/lobby/ in two windows.
package main

import "github.com/kalpahost/kalpa"

func main() {
	kalpa.Register(rooms.Serve())
	kalpa.Main()
}
