// Package check verifies a store that nobody has open, and explains what it finds.
//
// The engine's files are looked at by storage/pebble: the logs record by record, every
// block of every table. Then every row is read: whether it decodes, as its class has
// it, and whether the rows that repeat each other agree: alarms and their index both
// ways, epochs and boots, a session's ledger and its streams.
//
// Nothing in the folder is changed, and nothing is kept in memory but the rows of one
// object's schedules or streams.
package check
