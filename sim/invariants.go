package sim

// Invariants are those that a run is judged by, as DESIGN.md numbers them, and panics
// of the real code.
var Invariants = []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12", "I13", Panicked}
