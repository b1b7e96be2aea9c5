package session

import (
	"log/slog"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// state is a session in memory: what storage holds, and what a runtime and open
// sockets add to it.
type state struct {
	id      string
	epoch   uint64
	servers *roster
	share   share // of the requests that are under way on the server
	seams   seams.Session
	cfg     *Server      // nil when the server is not configured any more
	log     *slog.Logger // the service's
	said    *said

	meta         *meta // nil: there is no such session
	initParams   []byte
	result       []byte
	initialized  []byte
	level        []byte
	subs         map[string][]byte
	repeatable   map[string]bool // tools whose lost calls may be run again; nil: nothing is known
	active       time.Time       // the last request, reply or answer
	activeStored time.Time       // as the row has it
	now          time.Time       // of the step

	streams map[string]*stream
	sockets map[*Socket]*stream
	behind  []*stream // whose row is behind
	tidying bool      // a tidy is on its way
	// listening: a listen is on its way.
	listening bool
	get       *stream   // the GET stream that unrelated messages go to
	live      []*owed   // requests that wait for an answer, in the order of admission
	marks     []mark    // what has been flushed and waits for the retention to pass
	sweep     time.Time // when the first of them is to go, or of what is about to be flushed; zero: there is none
	// liveBytes is the size of the requests in live.
	liveBytes int64

	held     []heldRow
	heldNext uint64
	// heldBytes is the size of the messages in held.
	heldBytes int64
	logBytes  int64

	rt      runtime
	asks    map[wire.ID]*ask // requests of the runtime's to the client, by our id
	askNext uint64
	// approvals are the questions to a person, open or settled, oldest first.
	approvals []*approval
	draining  bool
}

type heldRow struct {
	n   uint64
	msg wire.Message
}

// phase is where a runtime is in its life.
type phase uint8

const (
	none     phase = iota
	building       // Build is under way, or initialize not yet answered
	ready
	closing // Close is under way
)

// runtime is the session's runtime; each generation is another one.
type runtime struct {
	phase   phase
	gen     uint64
	since   time.Time // when the phase began
	next    int64     // the last id given to a request toward it
	rows    map[int64]*owed
	own     map[int64]string // requests of the session's own: id to method
	waiting []wire.Message   // notifications and replies for when it is ready
	noted   int64            // what these weigh
	queue   []*owed          // requests for when it is ready; then, for when its tools are known
	list    *toolList        // its tools, while they are asked for
	// asked: it was asked for its tools. called: one of them was called. readOnly are the
	// names of those that change nothing, see has; nil: nothing is known.
	asked, called bool
	readOnly      []byte
}

// stream is what one POST or GET opened.
type stream struct {
	id     string
	post   bool
	prime  bool
	owes   []*owed // unanswered, in order
	seq    uint64  // of the last event of this epoch
	last   EventID // the last event stored; Seq 0 when there is none
	socket *Socket // nil: detached
	// replaying: events come from storage page by page until the socket has caught
	// up; next is where the next page begins, pageEnd the event whose flush asks for it.
	replaying bool
	pageEnd   EventID
	sent      EventID // the last event pushed to a socket
	flushed   EventID // the last event that a front has confirmed
	flushedAt time.Time
	detached  time.Time
	over      bool       // a GET stream that another has taken the place of
	dirty     bool       // its row may be behind
	stored    *streamRow // its row as it was put last by this incarnation; nil: it was not
	born      bool       // opened in this epoch: its events are 1 to seq
	loaded    bool       // left by an incarnation that is gone, whose socket may still confirm
	recalled  bool       // read back from storage for a client that came once more
	bytes     int64
	trimmed   EventID // what a full log was last trimmed to
}

func (st *stream) answered() bool { return len(st.owes) == 0 }

// done reports that all of a POST's stream has reached the client.
func (st *stream) done() bool {
	return st.post && st.answered() && !st.flushed.Less(st.last) && st.flushed.Stream != ""
}

// resumable: the client has seen an event id of this stream, or was sent one
// before everything else.
func (st *stream) resumable() bool { return st.prime || st.flushed.Stream != "" }

func (st *stream) row() streamRow {
	r := streamRow{Done: st.done(), Prime: st.prime, Over: st.over, At: st.flushedAt}
	if st.flushed.Stream != "" {
		r.Flushed = st.flushed.String()
	}
	return r
}

// read asks for a page of a stream's events after a position; the driver answers
// with a page event in the same turn.
type read struct {
	st     *stream
	after  EventID
	socket *Socket
	carry  carry
}

// carry says how a page without a socket is to be moved to the GET stream.
type carry struct {
	lost bool // only what says that an execution was lost
	kept bool // an earlier page had answers that stay
}

// trim asks for a stream's events up to a position to be deleted, and with whole
// the stream's row as well.
type trim struct {
	st    *stream
	upto  EventID
	whole bool
}

// effect is something to do when the batch is durable.
type effect interface{ isEffect() }

type (
	openSocket struct {
		sock    *Socket
		opening Opening
	}
	push struct {
		sock  *Socket
		frame Frame
	}
	endSocket struct {
		sock *Socket
		end  End
	}
	// build asks for a runtime. The first of a session does not wait until the session
	// is durable.
	build struct {
		gen   uint64
		first bool
	}
	// deliver passes a message to the runtime of a generation.
	deliver struct {
		gen uint64
		msg wire.Message
	}
	// begin is deliver that does not wait until the batch is durable, unless something
	// older does: what a client has said in order arrives in order.
	begin struct {
		gen uint64
		msg wire.Message
	}
	// reached says that a request has come to a point at which a reset can be
	// provoked. Unlike the others it does not wait when it is before the commit.
	reached struct {
		point actor.Point
		row   *owed // nil: of no request
	}
	// kept says that a row tells of what was flushed of a stream; of an empty one,
	// that nothing is left of the session.
	kept struct {
		stream string
		upto   EventID
	}
	// departed says that nothing is left of the session.
	departed struct{ server, subject string }
	// happened says what has become of the session, for who watches.
	happened struct{ kind, why string }
	// listenLater asks for a listen after a time.
	listenLater struct{ after time.Duration }
	// tidyLater asks for a tidy in tidyAfter.
	tidyLater struct{}
	// readLater asks for reads in batches of their own; it comes back as an event, after
	// a time.
	readLater struct {
		reads []read
		after time.Duration
	}
	// opened says that the handshake with a generation is over.
	opened struct{ gen uint64 }
	// closeRuntime asks for the runtime of a generation to be closed; closed comes back.
	closeRuntime struct {
		gen  uint64
		why  ending
		err  error         // of a build that failed
		idle time.Duration // since the last request or reply
	}
)

func (openSocket) isEffect()   {}
func (push) isEffect()         {}
func (endSocket) isEffect()    {}
func (build) isEffect()        {}
func (begin) isEffect()        {}
func (deliver) isEffect()      {}
func (opened) isEffect()       {}
func (closeRuntime) isEffect() {}
func (reached) isEffect()      {}
func (kept) isEffect()         {}
func (happened) isEffect()     {}
func (departed) isEffect()     {}
func (listenLater) isEffect()  {}
func (tidyLater) isEffect()    {}
func (readLater) isEffect()    {}

// Events that the driver and runtimes post.
type (
	// built: Build has returned.
	built struct {
		gen uint64
		err error
	}
	// fromRuntime is a message of the runtime's.
	fromRuntime struct {
		gen   uint64
		msg   wire.Message
		about wire.ID
	}
	// endStream: the runtime wants the client of a request to come back for its answer.
	endStream struct {
		gen   uint64
		about wire.ID
		retry time.Duration
	}
	// exited: the runtime has ended by itself, or its pipe is broken.
	exited struct {
		gen uint64
		err error
	}
	// closed: Close has returned.
	closed struct{ gen uint64 }
	// page is the answer to a read.
	page struct {
		st     *stream
		socket *Socket
		frames []Frame
		from   EventID // the position that it begins after
		last   EventID // of the last frame
		more   bool
		carry  carry
	}
	// ring is the alarm.
	ring struct{}
	// pressure: the isolate is short of memory.
	pressure struct{}
	// listen looks for what the GET stream has to carry by now.
	listen struct{}
	// tidy asks for the rows that are behind to be written.
	tidy struct{}
	// drain asks the session to come to rest; hasten, not to wait any longer.
	drain  struct{}
	hasten struct{}
)

// mark is a part of the log that has reached its client: up to an event, at a time.
type mark struct {
	upto  EventID
	at    time.Time
	whole bool  // the stream is done
	born  bool  // all of the stream is of this epoch, from its first event on
	bytes int64 // of the whole
}

// forget drops a stream whose rows are gone.
func (s *state) forget(st *stream) {
	s.unbind(st)
	delete(s.streams, st.id)
	if s.get == st {
		s.get = nil
	}
}

// logger is one that names the session.
func (s *state) logger() *slog.Logger { return s.log.With("session", s.id, "epoch", s.epoch) }

// set puts a value into a map of a session. Most of them are empty most of the time, and
// sessions at rest have none: see shed.
func set[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// rid lets go of a map that has become empty.
func rid[K comparable, V any](m *map[K]V) {
	if len(*m) == 0 {
		*m = nil
	}
}

// shed lets go of what has become empty: many sessions rest in memory.
func (s *state) shed() {
	rid(&s.streams)
	rid(&s.sockets)
	rid(&s.asks)
	rid(&s.rt.rows)
	rid(&s.rt.own)
	if len(s.behind) == 0 {
		s.behind = nil
	}
	if len(s.live) == 0 {
		s.live = nil
	}
}

// alive: the session exists and has not ended.
func (s *state) alive() bool { return s.meta != nil && !s.meta.Ended }
