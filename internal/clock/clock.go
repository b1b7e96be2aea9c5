// Package clock is how time reaches the code that decides: as a value that is
// passed in. Production uses [Real]; tests use [Fake]; the simulator brings its
// own.
package clock

import "time"

// Clock tells the time and arms timers.
type Clock interface {
	// Now is the wall clock's reading, with a monotonic part where there is one.
	Now() time.Time
	// AfterFunc calls f once, d from now, on a goroutine of the clock's.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is an armed AfterFunc.
type Timer interface {
	// Stop disarms the timer; false means that it has fired or was stopped before.
	Stop() bool
}

// Real is the system's clock.
var Real Clock = realClock{}

type realClock struct{}

func (realClock) Now() time.Time                            { return time.Now() }
func (realClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
