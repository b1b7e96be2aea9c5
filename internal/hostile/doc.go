// Command hostile measures what a client that does no harm sees while others do: the
// latency of its calls alone, and beside each of the attacks in attacks.go, on the real
// program in its own process.
//
//	make hostile
//	go run ./internal/hostile -for 10s -only idle
//
// The attackers run in this process, on the same machine: what they take of its
// processors is a part of what is measured. Each attack is measured in rounds, and each
// round alone first: what counts is the median of the rounds' ratios, since one pause of
// the disk is more than one call in a hundred. The shorter rounds are, the more the
// attack's beginning counts: a thousand connections opened at once are a tenth of a
// second's work. A last measurement, after the rounds, tells whether the attack has left
// anything behind. The exit code is 1 when that median is more than -most, or when a call
// of the client failed.
package main
