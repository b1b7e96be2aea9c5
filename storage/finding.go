package storage

// Severity is how bad a Finding is.
type Severity string

// From the worst to the mildest.
const (
	// Damage: something that was acknowledged is lost, or can't be read.
	Damage Severity = "damage"
	// Warning: nothing is known to be lost, and something is not as it should be.
	Warning Severity = "warning"
	// Note: what an operator may want to know.
	Note Severity = "note"
)

// Finding is something that a check of a store has found, in plain words.
type Finding struct {
	Severity Severity `json:"severity"`
	About    string   `json:"about"` // a file, or an object
	What     string   `json:"what"`
	Lost     string   `json:"lost,omitempty"`
	Do       string   `json:"do,omitempty"`
}
