package session

// Early says which calls a runtime gets at once, while the row that admits them is on its
// way to the disk, and not when it is there: tools/call of a tool whose server says in its
// annotations that it changes nothing. Admission and answer then often share an fsync.
//
// Nothing else of a call changes: no byte of an answer leaves before both its row and its
// event are durable, and a session that is reset finds the row. But if the host is killed
// in the moment in which the row is on its way, the call was begun and was never accepted:
// its client may send it again, and it is begun a second time.
//
// The session asks the runtime for its tools when it is called for the second time, once
// for each generation, and again when the list has changed.
type Early string

const initializing = "initialize"

// The modes.
const (
	// EarlyNever: every call waits for its row, and nobody is asked for tools.
	EarlyNever Early = "never"
	// EarlyReadOnly: calls of tools that have readOnlyHint do not.
	EarlyReadOnly Early = "read-only"
)

// mayBegin tells whether a request may reach the runtime before its row is durable. So may
// an initialize: what it begins ends with the host.
func (s *state) mayBegin(r *owed) bool {
	if r.Method == initializing {
		return true
	}
	if s.cfg.Early != EarlyReadOnly || s.rt.readOnly == nil || r.Again {
		return false
	}
	tool, plain := plainCall(r.msg)
	return plain && has(s.rt.readOnly, tool)
}

// called notes that the runtime was called. Who calls it but once, as after a wake, does
// not pay for the list.
func (s *state) called(o *out) {
	if s.rt.called && !s.rt.asked && s.cfg.Early != EarlyNever {
		s.learn(o)
	}
	s.rt.called = true
}
