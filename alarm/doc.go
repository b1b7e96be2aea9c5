// Package alarm fires the durable alarms of objects: at most one for each object,
// at least once, never before its time.
//
// # Concepts
//
// The alarm is a row in the object's storage, committed together with the data
// it was set with, and a row in an index ordered by time. The [Dispatcher] walks
// that index: it asks the [Target] to run what is due, and is told when the row
// has been dealt with. It keeps in memory only what is under way, so a million
// pending alarms cost nothing and a restart reads no more than what is due.
//
// # Guarantees
//
//   - An alarm that was acknowledged fires, however late, also after a restart.
//   - It never fires before its time by the wall clock, which may jump either way:
//     the clock is looked at once a second at least while an alarm is pending.
//   - One object's alarm is never run twice at the same time.
//   - The time that the dispatcher works by is never later than the row's (the crash
//     rule): the store reports an alarm that is set before its commit is confirmed.
//
// # Failure
//
// A handler's failure is the object's to record: its row is set to the next
// retry, see [Backoff]. A failure to reach the object at all is the
// dispatcher's: it waits in memory, see [BackoffUncounted], and the row stays as
// it is.
//
// # Concurrency
//
// All decisions are made in [Dispatcher.Step], which can be driven by hand;
// [Dispatcher.Start] runs it on one goroutine, until [Dispatcher.Stop].
package alarm
