// Package storage keeps the durable state of objects: a small ordered key-value
// space for each, one alarm row, and the fence that lets only the newest
// incarnation of an object write.
//
// # Concepts
//
// An object is named by an [ID]: its class and its name. Each life of an object
// in memory is an incarnation, and its number is the epoch. [Store.Claim] begins
// an incarnation and returns an epoch greater than any that was ever returned
// for that object; from then on a [Batch] that carries an older epoch is refused
// with [ErrStaleEpoch].
//
// A Batch is the unit of atomicity: rows and the alarm land together or not at
// all. Batches of all objects pass through one [Committer], which merges those
// that wait into one group, so that many commits share one fsync.
//
// # Order
//
// Claims, batches and releases of an object take effect in the order in which they
// were submitted, and their callbacks run in that order too. So do those of different
// objects, but for batches that linger. Of the batches of a
// broken incarnation a prefix may land; never a later one without an earlier
// one. A callback runs on the committer's goroutine: it must not block.
//
// # Durability
//
// A batch's callback runs when the batch is durable: with [Sync], after an
// fsync; with [Relaxed], after the operating system has the bytes, so that the
// batch survives the death of the process and not that of the machine. It is a
// property of the whole store.
//
// What has been submitted may be read before it is durable. Nothing may leave an
// object on the strength of such a read: the output gate in package actor waits.
//
// # Failure
//
// A failed write or fsync is final. The store ends the process through the
// Fatal option rather than go on with a log of unknown content: an fsync that
// failed is never tried again.
package storage
