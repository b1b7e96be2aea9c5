package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// Socket is the link between a front's open HTTP exchange and its session. The
// front makes one for each exchange, sends it along with an event, waits to hear
// of OnReady, and takes what the session has put in. What is put in and not yet taken
// is bounded; past the bound the socket ends parked, and the client resumes.
//
// The session puts in, in this order: one Opening, any number of Frames, one End.
type Socket struct {
	mu      sync.Mutex
	ready   func() // nil: nobody waits
	limit   int
	pending int
	next    Delivery
	ended   bool
}

// Delivery is what a front takes from a socket at once.
type Delivery struct {
	Opening *Opening // at most once, before everything else
	Frames  []Frame
	End     *End // at most once, after everything else
}

// Opening says what became of the event that carried the socket.
type Opening struct {
	// Refusal, if not nil, is the whole answer.
	Refusal *Refusal
	// Streaming: frames will follow. False for what is answered by a status alone.
	Streaming bool
	// Outcome is what became of the question that the event has answered: the action
	// of the first answer, or that it came too late. Empty for everything else.
	Outcome string
}

// Refusal is an HTTP status and the JSON-RPC error that explains it.
type Refusal struct {
	Status int
	Body   wire.Message
	// Limit is the setting that the request would exceed; empty: it is refused for
	// something else.
	Limit string
}

// Refuse builds a Refusal.
func Refuse(status int, id wire.ID, code wire.Code, format string, a ...any) *Refusal {
	return &Refusal{Status: status, Body: wire.NewError(id, code, fmt.Sprintf(format, a...), nil)}
}

// beyond builds the Refusal of a request that exceeds a limit, named as in Policy and
// Server.
func beyond(limit string, status int, id wire.ID, format string, a ...any) *Refusal {
	r := Refuse(status, id, wire.InternalError, format, a...)
	r.Limit = limit
	return r
}

// Frame is one event of a stream.
type Frame struct {
	// ID is the event id: stream.epoch.sequence.
	ID string
	// Data is one JSON-RPC message; empty in the event that only primes the client
	// with an id.
	Data []byte
	// Answers is the id of the request that the frame answers, empty for others.
	Answers wire.ID
}

// EndKind tells how a socket ended.
type EndKind uint8

const (
	// Final: the stream owes nothing; all frames are in.
	Final EndKind = iota + 1
	// Parked: the stream goes on elsewhere or later; the client may resume it.
	Parked
	// Broken: the incarnation is gone. What is owed is still owed.
	Broken
)

// End is the last thing on a socket.
type End struct {
	Kind EndKind
	// Err is the reason of a Broken end.
	Err error
	// Retry is how long the client should wait before it resumes a Parked stream;
	// zero says nothing to it.
	Retry time.Duration
}

// DefaultPending is the bound of a socket in bytes.
const DefaultPending = 8 << 20

// NewSocket returns a socket that holds at most limit bytes; 0 means
// DefaultPending.
func NewSocket(limit int) *Socket {
	if limit == 0 {
		limit = DefaultPending
	}
	return &Socket{limit: limit}
}

// OnReady has f called whenever there may be something to take, from any goroutine.
// It must not block.
func (s *Socket) OnReady(f func()) {
	s.mu.Lock()
	s.ready = f
	late := s.next.Opening != nil || len(s.next.Frames) > 0 || s.next.End != nil
	s.mu.Unlock()
	if late {
		f()
	}
}

// Take returns what has been put in since the last call. It never blocks.
func (s *Socket) Take() Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.next
	s.next, s.pending = Delivery{}, 0
	return d
}

func (s *Socket) put(f func()) {
	s.mu.Lock()
	if !s.ended {
		f()
	}
	ready := s.ready
	s.mu.Unlock()
	if ready != nil {
		ready()
	}
}

// Open puts the Opening in.
func (s *Socket) Open(o Opening) { s.put(func() { s.next.Opening = &o }) }

// Push puts a frame in. A frame past the bound ends the socket parked instead.
func (s *Socket) Push(f Frame) {
	s.put(func() {
		n := len(f.Data) + len(f.ID) + 64
		if s.pending > 0 && s.pending+n > s.limit {
			s.next.End, s.ended = &End{Kind: Parked}, true
			return
		}
		s.pending += n
		s.next.Frames = append(s.next.Frames, f)
	})
}

// End puts the End in; nothing can follow. The first End counts.
func (s *Socket) End(e End) { s.put(func() { s.next.End, s.ended = &e, true }) }
