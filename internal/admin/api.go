package admin

import "time"

// Target names a session, an object of any class, or an isolate.
type Target struct {
	Session string `json:"session,omitempty"`
	Class   string `json:"class,omitempty"`
	Name    string `json:"name,omitempty"`
	Isolate *int   `json:"isolate,omitempty"`
}

// Reset asks for one: POST /v1/reset. One target is named: a session, a class and
// a name, or an isolate.
type Reset struct {
	Target
	Cause  string `json:"cause,omitempty"`  // by default "aborted"
	Reason string `json:"reason,omitempty"` // for the log, and for callers of the object
}

// WasReset says what was.
type WasReset struct {
	Target        // with the isolate that the object lives in
	Cause  string `json:"cause"`
	Epoch  uint64 `json:"epoch,omitempty"` // that has ended; not of an isolate
	// Objects is how many were reset: none when nothing lived in an isolate.
	Objects int `json:"objects"`
}

// Strike is a reset that waits for a request to come to a point: POST /v1/chaos.
// What is left out of Target, Method and Tool means any.
type Strike struct {
	Point string `json:"point"` // see Points
	Target
	Method string `json:"method,omitempty"` // of the request, "tools/call"
	Tool   string `json:"tool,omitempty"`   // that it calls
	Scope  string `json:"scope,omitempty"`  // "object" (default), "isolate" or "process"
	Cause  string `json:"cause,omitempty"`  // by default "aborted"; a process that ends has none
	// Probability of each chance, over 0 to 1; by default 1.
	Probability *float64 `json:"probability,omitempty"`
	Skip        int      `json:"skip,omitempty"`  // chances that pass first
	Times       *int     `json:"times,omitempty"` // how often it strikes; by default once, -1 without end
	// Hold is how long the object stands still at the point before it is struck, as
	// "200ms"; one minute at most.
	Hold string `json:"hold,omitempty"`
}

// Armed is a strike that waits. Skip is what is left of it.
type Armed struct {
	Number int   `json:"number"` // by which it is taken back
	Struck int64 `json:"struck"` // how often it has struck
	Strike
}

// Strikes is the answer of GET /v1/chaos, oldest first.
type Strikes struct {
	Strikes []Armed `json:"strikes"`
}

// Disarmed is the answer of DELETE /v1/chaos: how many were taken back.
type Disarmed struct {
	Disarmed int `json:"disarmed"`
}

// Isolate is one of GET /v1/isolates.
type Isolate struct {
	Number    int   `json:"number"`
	Objects   int64 `json:"objects"`    // in memory
	Resident  int64 `json:"resident"`   // sessions of them that have a runtime
	Heap      int64 `json:"heap"`       // charged, in bytes
	HeapLimit int64 `json:"heap_limit"` // in bytes
}

// Isolates is the answer of GET /v1/isolates, by number.
type Isolates struct {
	Isolates []Isolate `json:"isolates"`
}

// Session is one of GET /v1/sessions.
type Session struct {
	ID       string    `json:"id"`
	Server   string    `json:"server"`
	State    string    `json:"state"` // resident, active, resting, ended or unreadable: see session.Presence
	Isolate  int       `json:"isolate"`
	Epoch    uint64    `json:"epoch,omitempty"` // of its incarnation; none when it is at rest
	Owed     int       `json:"owed"`            // requests that it has accepted and not answered
	Created  time.Time `json:"created,omitzero"`
	Activity time.Time `json:"activity,omitzero"` // the last request, reply or answer
}

// Sessions is a page of GET /v1/sessions?limit=N&after=ID, in the order of ids.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	// Next is the `after` of the page that follows; empty: this is the last.
	Next string `json:"next,omitempty"`
}

// Limits of a page of sessions.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// DefaultAddress is where a client looks for a host when nobody says where.
const DefaultAddress = "127.0.0.1:9090"
