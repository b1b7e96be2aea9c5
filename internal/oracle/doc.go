// Package oracle compares kalpa with the real runtime of durable objects, workerd.
//
// # Programs
//
// A program is a text: some objects, and what happens to them, in order. It runs
// twice, as a Durable Object class in JavaScript (worker.mjs) and as a class of
// package actor (kalpa.go), each of which does what the ops say and traces what it
// saw. What is seen on workerd is recorded in the program's file and is never
// written by hand; [Compare] holds kalpa against it. A difference that is meant
// stands in differences.txt with the decision that says why, and the file then
// holds what kalpa shows as well.
//
//	What the program shows, in a line. More lines may follow.
//	-- program --
//	object a
//	  alarm 1
//	    throw boom
//	call 1 a
//	  put x 1
//	  setAlarm +50ms
//	alarm a 2
//	-- workerd --
//	object a
//	  incarnation 1
//	  1 put x 1
//	  ...
//	clients
//	  1 ok
//
// The steps of a program are in program.go. "call 1 a" sends an event with the
// label 1 to the object a and waits for its outcome; "send" does not wait, and
// neighbouring ones are sent together, in order. What is indented below them are
// ops, which are those of the platform's API (put, list, transaction, block for
// blockConcurrencyWhile, ...). A caught error of an op is traced and the event goes
// on; with ! before it, the op's error is the event's. With ~ the event does not
// wait for the op. "wait p" waits for something that is not the object's own until
// the step "release p"; "reached p" is the step that knows that it does. So a
// program says how events interleave, and nothing is left to time.
//
// An object's handlers stand below "object": constructor, alarm, connect, message
// and close, or "alarm 2" for what happens the second time.
//
// "backend kv" takes the runtime's older storage, in memory, which enforces the
// limits that the platform has documented for years; the newer one leaves them to
// the platform.
//
// # Traces
//
// Each object's lines are in the order in which it did things, which is the
// runtime's to decide; what clients saw is in the order of the program. A trace is
// beside all gates: a line is seen even when its event's writes are dropped.
// Errors are shown with the properties by which callers tell them apart.
//
// # What kalpa runs on
//
// A host with a clock that the driver moves, and a disk on which a commit takes a
// moment and whose power the step "restart" cuts: what leaves an object too early
// is caught at it. A program with ops that kalpa_ops.go does not have is pending,
// and the test says when it no longer is.
//
// # Running
//
// go test runs all programs on kalpa. make oracle runs them on workerd too, and
// fails when that shows something else than was recorded; make oracle-record
// writes it down.
package oracle
