package session

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/mcp"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// Event is what a front sends to a session. Each is answered on its Socket, save
// Flushed and Gone, which need no answer, and Expire, whose answer is that of its POST.
type Event interface{ socket() *Socket }

// Caller is who sends an event, and where.
type Caller struct {
	Server    string // the server's name, from the path
	Principal mcp.Principal
	// Version is the MCP-Protocol-Version header, empty when absent.
	Version string
}

// Post is the body of a POST. With requests in it, the answer is a stream that
// ends Final when all are answered; without, an Opening and a Final end.
type Post struct {
	Socket   *Socket
	Caller   Caller
	Stream   string // minted by the front: see NewStream
	Messages []wire.Message
	Batch    bool // Messages came in an array
	// Create: the session does not exist yet; the one message is its initialize.
	Create bool
	// Trace is the span that the requests belong to, for the runtime to go on with.
	// Not sampled: the runtime is told nothing.
	Trace trace.SpanContext
}

// Size implements [actor.Sized].
func (e *Post) Size() (n int) {
	for _, m := range e.Messages {
		n += len(m.Bytes())
	}
	return n
}

// Size implements [actor.Sized].
func (e *Attach) Size() int { return e.Post.Size() }

// Get is a GET: a stream of its own, or with After the rest of an earlier one.
type Get struct {
	Socket *Socket
	Caller Caller
	Stream string // minted by the front; used when After is empty
	After  string // Last-Event-ID
}

// Attach resumes the exchange of a POST whose socket ended Broken.
type Attach struct {
	Socket *Socket
	Post   Post   // as it was sent
	After  string // the last event that was written to the client, empty for none
}

// Delete ends the session.
type Delete struct {
	Socket *Socket
	Caller Caller
}

// Expire asks that what a POST is still owed be answered as lost, for a front that
// waits no longer. The answers come on the socket that the POST's stream is attached
// to. A result that the session has had before it counts; one that comes after it
// does not.
type Expire struct {
	Socket *Socket // that of the exchange
	Stream string  // the POST's
	Why    Loss
}

// Flushed confirms that the frames of a socket's stream up to an event have been
// written and flushed.
type Flushed struct {
	Socket *Socket
	Event  string
}

// Gone says that the front has stopped reading a socket: the client went away.
type Gone struct{ Socket *Socket }

func (e *Post) socket() *Socket    { return e.Socket }
func (e *Get) socket() *Socket     { return e.Socket }
func (e *Attach) socket() *Socket  { return e.Socket }
func (e *Delete) socket() *Socket  { return e.Socket }
func (e *Expire) socket() *Socket  { return e.Socket }
func (e *Flushed) socket() *Socket { return e.Socket }
func (e *Gone) socket() *Socket    { return e.Socket }
