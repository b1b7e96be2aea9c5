// Package sim is the simulated world: the real code under a clock, an order of
// events and a disk of its own, all drawn from one seed.
//
// So far it holds what decides when things run. A [Scheduler] is a clock.Clock
// whose time passes only between events, and its [Scheduler.Dispatcher] runs the
// mailboxes of protoactor-go one at a time: among what is ready at one moment a
// seeded generator picks. One seed gives one order of events, in every run and
// under the race detector.
//
// Nothing imports this package but commands and tests.
package sim
