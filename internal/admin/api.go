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
	// SoftLimit is the heap over which what is idle is reclaimed, in bytes; none: nothing
	// is.
	SoftLimit int64 `json:"soft_limit,omitempty"`
	// Holders are the objects that hold most of the heap, the largest first, where they
	// are asked for.
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is an object that holds a part of an isolate's heap. Sessions are of the class
// mcp-session, and their names are their ids.
type Holder struct {
	Class string `json:"class"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // charged
	// Abandoned: it was reset, and a turn of it that overran goes on.
	Abandoned bool `json:"abandoned,omitempty"`
}

// MaxHolders bounds the holders of each isolate that can be asked for.
const MaxHolders = 100

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
	Alarm    time.Time `json:"alarm,omitzero"`    // when it wakes by itself
}

// Sessions is a page of GET /v1/sessions, in the order of ids. Parameters: limit,
// after (an id), prefix (of ids), server, state.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	// Next is the `after` of the page that follows; empty: this is the last. With a
	// filter, a page may have less than the limit and not be the last.
	Next string `json:"next,omitempty"`
}

// SessionDetail is the answer of GET /v1/sessions/{id}.
type SessionDetail struct {
	Session
	Version string    `json:"version,omitempty"` // of the protocol
	Subject string    `json:"subject,omitempty"` // whose it is
	Client  string    `json:"client,omitempty"`  // what its client calls itself
	Retry   int       `json:"retry,omitempty"`   // failed runs of the alarm
	Waiting []Waiting `json:"waiting"`           // requests that are owed an answer
	Streams []Stream  `json:"streams"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"` // of the rows
}

// Waiting is a request that waits for its answer.
type Waiting struct {
	ID         string    `json:"id"` // as its client wrote it: JSON
	Method     string    `json:"method"`
	Tool       string    `json:"tool,omitempty"`
	Stream     string    `json:"stream"`
	Since      time.Time `json:"since"`
	Epoch      uint64    `json:"epoch"`
	Generation uint64    `json:"generation,omitempty"` // of the runtime; none: it was not sent yet
	Started    bool      `json:"started"`              // it may have reached the server
	Again      bool      `json:"again,omitempty"`      // it was lost once, and is run again
}

// Stream is a stream of a session that has a row or events.
type Stream struct {
	ID      string `json:"id"`
	Events  int    `json:"events"`
	Bytes   int64  `json:"bytes"`
	Flushed string `json:"flushed,omitempty"` // the last event that has reached the client
	Done    bool   `json:"done,omitempty"`
}

// Ended is the answer of DELETE /v1/sessions/{id}.
type Ended struct {
	Session string `json:"session"`
}

// Disposed is the answer of POST /v1/sessions/{id}/dispose; with force=true, what the
// session owes is answered as lost.
type Disposed struct {
	Session string `json:"session"`
	Was     bool   `json:"was"` // there was a runtime
}

// Classes is the answer of GET /v1/classes: those of which something is stored, and
// those that the program has.
type Classes struct {
	Classes []Class `json:"classes"`
}

// Class is one of Classes.
type Class struct {
	Name       string `json:"name"`
	Registered bool   `json:"registered"` // the program can run its objects
	InMemory   int64  `json:"in_memory"`
}

// Object is one of GET /v1/objects.
type Object struct {
	Class   string    `json:"class"`
	Name    string    `json:"name"`
	Isolate int       `json:"isolate"`
	Epoch   uint64    `json:"epoch,omitempty"` // of its incarnation; none when it is at rest
	Alarm   time.Time `json:"alarm,omitzero"`
}

// Objects is a page of GET /v1/objects, by name. Parameters: class, limit, after (a
// name), prefix (of names).
type Objects struct {
	Objects []Object `json:"objects"`
	Next    string   `json:"next,omitempty"`
}

// ObjectDetail is the answer of GET /v1/object: an object and a page of its rows.
// Parameters: class, name, limit, after (the Next of the page before).
type ObjectDetail struct {
	Object
	Retry     int        `json:"retry,omitempty"` // failed runs of the alarm
	Schedules []Schedule `json:"schedules,omitempty"`
	Rows      []Row      `json:"rows"`
	Next      string     `json:"next,omitempty"`
}

// Row is a row of an object. Key and value are text where they are UTF-8, else base64;
// of a long value there is the beginning.
type Row struct {
	Key     *string `json:"key,omitempty"`
	Key64   []byte  `json:"key64,omitempty"`
	Value   *string `json:"value,omitempty"`
	Value64 []byte  `json:"value64,omitempty"`
	Size    int     `json:"size"` // of the value, in bytes
}

// Schedule is a schedule of an object.
type Schedule struct {
	ID       string    `json:"id"`
	Callback string    `json:"callback"`
	Kind     string    `json:"kind"`
	Spec     string    `json:"spec"`
	Zone     string    `json:"zone,omitempty"`
	Due      time.Time `json:"due"`
	Next     time.Time `json:"next"`
	Failed   int       `json:"failed,omitempty"`
	Running  bool      `json:"running,omitempty"`
}

// Removed is the answer of DELETE /v1/object?class=C&name=N.
type Removed struct {
	Class string `json:"class"`
	Name  string `json:"name"`
}

// Imported is the answer of POST /v1/object/import, whose body is what GET
// /v1/object/export has given; with replace=true, an object that exists is replaced.
type Imported struct {
	Class string `json:"class"`
	Name  string `json:"name"`
}

// Alarm is one of GET /v1/alarms.
type Alarm struct {
	Class string    `json:"class"`
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Retry int       `json:"retry,omitempty"` // failed runs so far
}

// Alarms is a page of GET /v1/alarms, earliest first. Parameters: limit, after (the
// Next of the page before); or class and name: that of one object.
type Alarms struct {
	Alarms []Alarm `json:"alarms"`
	Next   string  `json:"next,omitempty"`
}

// Limits of a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// DefaultAddress is where a client looks for a host when nobody says where.
const DefaultAddress = "127.0.0.1:9090"
