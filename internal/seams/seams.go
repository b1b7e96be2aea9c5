// Package seams names the parts of kalpa that a test can take out, to show what
// they are there for: a test that can't fail shows nothing. A seam is a value
// that is handed down, never a global. All is in place in the zero value.
package seams

// Alarm takes parts of the derivation of an object's alarm out.
type Alarm struct {
	// NoReassert: the sources are not consulted; the framework's answer is written
	// as it is.
	NoReassert bool
	// NoRelease: the release of the last keep-alive makes no turn.
	NoRelease bool
	// DeleteLast: when the framework wants no alarm it says so after the sources
	// have been consulted, not before.
	DeleteLast bool
}
