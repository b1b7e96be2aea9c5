package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Keys of a session's rows.
const (
	keyMeta        = "meta"
	keyActivity    = "act"
	keyInitialize  = "hs/initialize"  // params of the client's initialize
	keyResult      = "hs/result"      // result of the runtime's answer to it
	keyInitialized = "hs/initialized" // the client's notification, whole
	keyLevel       = "hs/level"       // params of the last logging/setLevel that succeeded
	keyRepeatable  = "hs/repeatable"  // names of the tools whose lost calls may be run again
	prefixSub      = "hs/sub/"        // + URI: params of resources/subscribe
	prefixStream   = "s/"
	prefixOwed     = "q/"
	prefixEvent    = "e/"
	prefixHeld     = "h/"
	prefixState    = "st/"
)

// meta is the session itself.
type meta struct {
	Server    string        `json:"server"`
	Principal mcp.Principal `json:"principal"`
	Created   time.Time     `json:"created"`
	// Version is the protocol revision agreed on, empty until initialize is answered.
	Version string `json:"version,omitempty"`
	// Ended: the session is over for good; its rows are about to go.
	Ended bool `json:"ended,omitempty"`
}

// owed is a ledger row: a request that was admitted and not yet answered.
type owed struct {
	ID      wire.ID   `json:"id"` // raw, as the client wrote it
	Method  string    `json:"method"`
	Tool    string    `json:"tool,omitempty"`
	Token   wire.ID   `json:"token,omitempty"` // the client's progress token, raw
	Epoch   uint64    `json:"epoch"`
	Gen     uint64    `json:"gen"`               // generation of the runtime that it goes to
	Started bool      `json:"started,omitempty"` // it may have reached the runtime
	At      time.Time `json:"at"`
	// Kept is the message, where it may be run again if it is lost.
	Kept []byte `json:"kept,omitempty"`
	// Again: it was lost once, and is run again.
	Again bool `json:"again,omitempty"`

	stream *stream
	ord    int
	out    int64        // its id toward the runtime; 0: answered by the session itself
	msg    wire.Message // until it is sent
	size   int64
	since  time.Time     // At, on the clock of the incarnation, which does not jump
	paused time.Time     // since when it waits for a person; zero when it does not
	waited time.Duration // for persons, before that
	told   []byte        // its params, where a rebuilt runtime must be told them
	lost   string        // the reason, once it is answered as lost
	why    Loss          // how it was lost the first time, until it is sent again
	trace  trace.SpanContext
}

func (r *owed) key() string { return fmt.Sprintf("%s%s/%03d", prefixOwed, r.stream.id, r.ord) }

// streamRow is what is stored of a stream.
type streamRow struct {
	// Flushed is the last event that a front has confirmed, and At when it did.
	Flushed string    `json:"flushed,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Done: it owes nothing and all of it is flushed.
	Done bool `json:"done,omitempty"`
	// Over: a GET stream that another has taken the place of.
	Over bool `json:"over,omitempty"`
	// Prime: the client knows how to resume from an event without data.
	Prime bool `json:"prime,omitempty"`
}

// EventKey is the key of an event's row, for who looks at the rows from outside.
func EventKey(e EventID) string { return eventKey(e) }

// eventKey orders the events of a stream as their ids are ordered.
func eventKey(e EventID) string {
	return fmt.Sprintf("%s%s/%014x%08x", prefixEvent, e.Stream, e.Epoch, e.Seq)
}

// parseEventKey reads what eventKey wrote.
func parseEventKey(key string) (e EventID, err error) {
	stream, pos, ok := strings.Cut(strings.TrimPrefix(key, prefixEvent), "/")
	if !ok || len(pos) != 22 {
		return e, fmt.Errorf("session: %q is not the key of an event", key)
	}
	e.Stream = stream
	_, err = fmt.Sscanf(pos, "%014x%08x", &e.Epoch, &e.Seq)
	return e, err
}

func heldKey(n uint64) string { return fmt.Sprintf("%s%08x", prefixHeld, n) }

// encodeTime is encode for what is written most often.
func encodeTime(t time.Time) []byte {
	b, err := t.MarshalJSON()
	if err != nil {
		panic("session: " + err.Error()) // only the years that clocks show
	}
	return b
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("session: " + err.Error()) // only types of this package
	}
	return b
}
