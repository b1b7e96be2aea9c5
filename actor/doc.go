// Package actor hosts objects: single-threaded, addressed by name, each with
// transactional storage and one durable alarm, many of them on one shared heap.
//
// # Terms
//
// A class is a kind of object, registered once. An object is one identity of a
// class. An incarnation is one life of an object in memory, and its number is
// the epoch. An isolate is the group of incarnations that share a heap and are
// reset together. A turn is one uninterrupted stretch of an object's code.
//
// # Two kinds of class
//
// A [Machine] handles each event in one turn, from start to end, and never
// waits: it is what package mcp builds sessions on, and what a pure state
// machine fits into. Most Go programs want [Define] instead: an object whose
// code is ordinary blocking Go, with one baton for all events; only the holder of
// the baton runs, and [State.Await] gives it back while the code waits for
// something that is not the object's own. Code that never awaits runs from start to
// end where its event is taken out of the mailbox, as a machine does; where it
// awaits, another goroutine goes on with the mailbox.
//
// # Identity
//
// An object is its class and its name ([Class.ID]); what has no name yet gets one
// from [Host.NewID], 64 hex digits that [ParseID] takes back for the same class
// only. [Host.Objects] lists what is stored, and [Host.Export] and [Host.Import]
// move it.
//
// # Concurrency
//
// Storage operations keep the baton; an await, and a call to another object, which
// awaits by itself, let other events in. [State.Critical] keeps them out: the
// baton then goes to nobody while the section awaits, and the mailbox stands still.
// A constructor is the first critical section, and a [State.Transaction] is one
// whose batch is sealed when it has ended instead of at each await. A section that
// fails resets the object; what has waited fails with it, in order.
//
// # Calls
//
// A [Call] goes through a [Stub], which is an address and never goes stale. The
// context of an object's code knows its place in a chain of calls. By it a call
// awaits, leaves through the output gate, counts its depth, and finds out that it
// would come back to a critical section which waits for it.
//
// What comes of an attempt is one of three things: the object's answer; lost, when
// it was reset with the call in progress; or undelivered, when it was reset before.
// Only the last is sent again by itself, for causes that pass. [Call.DoOnce] gives
// a call an identity, whose row lands in the commits of the call's own first and
// last turn; with that what was lost may be sent again as well.
//
// # What holds
//
//   - At most one turn of an object runs at a time; other events enter only at its
//     awaits (I5).
//   - Nothing leaves an object before the writes it rests on are durable: replies,
//     calls and whatever is passed to [Turn.After] wait in the output gate. If a
//     write fails they never leave, and the object is reset (I2).
//   - The epoch grows with every activation, and storage refuses the writes of an
//     older incarnation (I4).
//   - A reset breaks every object of its isolate and no other (I10). Events in
//     flight fail with an [Error] that names the cause; the next event makes a new
//     incarnation.
//   - What waits is bounded, in number, bytes and age: [Options].MaxQueued,
//     MaxQueuedBytes and MaxQueuedFor (I12).
//
// # Placement and passivation
//
// The directory maps an identity to its incarnation. One lock for each of its
// shards decides whether an event is enqueued or held back; what is held back
// while an incarnation starts or stops comes first, in order, in the next one. An
// idle object is evicted after [Options].EvictAfter: its memory goes, its storage
// and its alarm stay.
//
// # Alarms and schedules
//
// An object sets its one alarm with [State.SetAlarm], or uses its schedule,
// [State.Schedule], whose callbacks are added to a class with [Callback] (and to a
// machine by [Callbacks]). From the first use of a schedule on the alarm is
// derived as each turn ends, and can't be set: package alarm says from what. A
// keep-alive, and a run in progress, keep an object from being evicted.
//
// # HTTP and WebSockets
//
// An object whose *T is an http.Handler serves requests: see [Stub.ServeHTTP], and
// [Host.Handler] for the addresses of those whose class asks for it. It may accept
// WebSockets ([State.AcceptWebSocket]), which the host holds: they outlive its eviction,
// and a message makes the next incarnation. What leaves, body and frames, waits in the
// output gate. [Web] has the bounds.
//
// # Underneath
//
// Each incarnation is an actor of protoactor-go; its mailbox carries tokens, and the
// events themselves wait in the directory. One goroutine at a time has the mailbox.
// The dispatcher can be replaced, which is how the simulator decides the order of
// everything.
//
// # Memory
//
// What an incarnation keeps is charged to the heap of its isolate: a little for itself,
// and what it declares ([State.Charge], [Turn.Charger]). Over [Options].SoftLimit the
// isolate asks its members, least recently used first, for what nobody needs: who rests
// is evicted, and a machine that is a [Reclaimer] gives back what it can make again. A
// charge that does not fit waits for that; where it can't help, the isolate is reset,
// and the error names the victim and the largest holders. What is not yet written is
// bounded apart: [Options].DirtyLimit for an object, whose next write waits, and
// CacheLimit for an isolate, which is reset.
//
// # The watchdog
//
// Once a second the host looks for what does not end: a turn ([Options].TurnLimit), a
// constructor, a claim, a read or a commit (30 s each). It resets the object, with the cause
// that says so. The turn itself can't be stopped: it is abandoned, fenced off and
// counted ([Host.Abandoned]), and what it has charged stays charged until it ends.
//
// # Non-goals
//
// Go can't measure an object's memory nor stop a goroutine. An isolate counts
// what is declared with Charge; a reset object's goroutine is abandoned, fenced
// off from storage and from everything that waits in its output gate.
package actor
