// Command bench measures kalpa from outside and writes what it found into
// docs/benchmarks.md. `make bench` runs it.
//
// It builds the program and starts it as a user would, and drives it over HTTP
// with a load of its own that checks every answer. Nothing here reaches into the
// host, with three exceptions: a store with many sessions is written by copying the
// rows of one real session through storage/pebble, since opening them one by one
// would take minutes; the stdio runtime is measured alone, in this process; and what
// is too short to be seen over a connection is measured by Go benchmarks of package actor.
//
// # Comparisons
//
// A peer is what people would use instead: a folder with a script named run, which
// starts an MCP server on $PORT. Figures of two servers compare only when both ran
// on one machine in the same minutes. So the servers of a table all run, take
// turns, several times over, and each is stopped (SIGSTOP) while it is not its
// turn; a ratio is computed within each round, and the median of the ratios is told.
//
// # Figures
//
// A figure is the median of the rounds, with minimum and maximum. A part of the
// page that was not measured in a run is left as it was: each part says when it was
// measured, and with which command.
//
// What kalpa should reach is in targets.go. Whether a target is met is computed from
// the medians, when its part is measured, and stands in the page's first table.
//
// Processes and memory are read from /proc, so it needs Linux.
package main
