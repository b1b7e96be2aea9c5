// Package pebble is the storage.Store that kalpa runs on: one folder on one
// machine, in the embedded engine of the same name.
//
// Open takes a folder and leaves one that is not a kalpa store as it was. The
// layout of the keys is in package storage, in keys.go; the committer and the
// fence are there too. What is here is the engine: how it is tuned, how its
// failures end the process, and how the two durabilities are done.
//
// # Durability
//
// Every commit asks Pebble for a synced write, in both modes. With
// storage.Relaxed the sync of the log is skipped beneath Pebble, in the file
// system that it is given. Otherwise logs are written over zeros (zeros.go) and, on Linux,
// past the page cache (direct_linux.go), so that a sync is one write to the disk.
//
// # Failure
//
// An error while writing is final: Fatal is called, and ends the process. A log
// whose fsync failed has an unknown content, and trying again would only hide it
// (the kernel drops the dirty pages and reports success).
package pebble
