package stdio

// Enforcement is how a host bounds the memory of its children.
type Enforcement struct {
	Running bool // a host runs, and has children or has had some: it is about that one
	// Bound: the system keeps the limit of each child, by control groups. Else children
	// are looked at about once a second.
	Bound bool
	// Why says why it is not so.
	Why string
}
