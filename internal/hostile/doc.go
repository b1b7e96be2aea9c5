// Command hostile measures what a client that does no harm sees while others do: the
// latency of its calls alone, and beside each of the attacks in attacks.go, on the real
// program in its own process.
//
//	make hostile
//	go run ./internal/hostile -for 10s -only idle
//
// The attackers run in this process, on the same machine: what they take of its
// processors is a part of what is measured. A second measurement alone, after each
// attack, tells whether it has left anything behind. The exit code is 1 when the p99
// beside an attack is more than -most times that alone.
package main
