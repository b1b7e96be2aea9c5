// Package session is the MCP session as a durable object.
//
// # The machine
//
// A session is a pure step machine: step(state, event, now) changes the state and
// yields a batch of rows and a list of effects. It never reads a clock, blocks or
// starts anything. Fronts, runtimes and alarms post events to it; one driver,
// object.go, executes its effects once the batch they rest on is durable.
//
// # What is durable
//
//	meta            who the session belongs to and what was agreed on
//	act             when a request or a reply was last seen
//	hs/...          the handshake: what a rebuilt runtime must be told
//	s/<stream>      one row for each stream that has events or owes answers
//	q/<stream>/<n>  the ledger: a row for each request that is owed an answer
//	e/<stream>/...  the log: events, stored before they are sent
//	h/<n>           messages that no stream could carry yet
//	st/<key>        the state of the runtime's own
//
// # The ledger
//
// A request is admitted by the commit that stores its row; only then does the
// front answer 200. The row is discharged once, in the commit that stores the
// answer as an event: a result, or an error that says that the execution was
// lost. Rows are stamped with the epoch and the runtime's generation: when either
// ends, what it left is answered as lost.
//
// # Streams
//
// A stream is what one POST or one GET opened. Its event ids are
// stream.epoch.sequence, and a client that comes back with one gets exactly the
// missing suffix of that stream, from storage. A stream ends final when it owes
// nothing, and parked otherwise. Events leave storage when the front has
// confirmed that they were flushed and the retention has passed.
//
// # Runtimes
//
// A runtime is none, building, ready or closing. It is built by the first
// request that needs one (single flight), told the recorded handshake, and
// reclaimed when nothing was asked for the idle time-out. Ids and progress tokens
// are rewritten toward it and restored byte for byte on the way back.
package session
