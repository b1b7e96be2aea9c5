package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// Network carries HTTP exchanges between model clients and the front of a host.
// Each direction of an exchange keeps its order, as TCP does; two exchanges
// overtake one another.
type Network struct {
	s    *Scheduler
	rand *rand.Rand
	// Latency is how long a piece is on its way.
	Latency func() time.Duration
	// Window is how much a response may be ahead of a client that does not read, in
	// bytes; past it the front's write blocks.
	Window int
	// Server is where requests arrive: nil while no host listens.
	Server *Listener
	// flushed is told what a front has sent, before it is on its way.
	flushed func(*Exchange, []byte)
	// dropped is told what was on its way when its connection broke.
	dropped func([]byte)
	// arrived is told of each request that has reached a host.
	arrived func(*Exchange)
	// blocked is told of each write that waits for its client to read.
	blocked func()

	sent uint64 // exchanges
	open []*Exchange
}

// Listener is a host's end: its process, and what serves requests in it.
type Listener struct {
	Process *Process
	Handler http.Handler
}

// NewNetwork returns a network without a server.
func NewNetwork(s *Scheduler) *Network {
	n := &Network{s: s, rand: s.Rand("network"), Window: 1 << 20}
	n.Latency = func() time.Duration { return time.Duration(100+n.rand.IntN(2000)) * time.Microsecond }
	return n
}

// Request is what a client sends.
type Request struct {
	Method string
	Header map[string]string
	Body   []byte
}

// Piece is a part of a response, in order: the head, data, the end.
type Piece struct {
	Status int // with the head
	Header http.Header
	Data   []byte
	// Err ends the response: io.EOF where the server has ended it.
	Err error
}

// errConnection is how a client sees that its connection is gone.
var errConnection = errors.New("connection reset by peer")

// Exchange is one request and its response.
type Exchange struct {
	n       *Network
	number  uint64 // in the order in which they were sent
	client  *Process
	request Request
	inbox   []Piece // arrived, and not read
	waiting interface{ Set() }
	clear   time.Time // nothing arrives before what was sent before it

	// The server's side.
	ctx    *Context
	p      *Process
	unread int
	room   interface{ Set() }
	head   bool
	header http.Header
	body   []byte // written and not flushed
	over   bool   // the server's side is done, or cut
	broken bool   // the client can hear that the connection is gone
	lost   []byte // what was on its way to the client when it broke
	// Duplicate: it is a copy that something on the way has made, whose response
	// nobody reads.
	Duplicate bool
}

// Send sends a request for a client. The response is read with Exchange.Read.
func (n *Network) Send(client *Process, r Request) *Exchange {
	x := &Exchange{n: n, client: client, request: r, header: http.Header{}, ctx: NewContext()}
	n.sent++
	x.number = n.sent
	n.open = append(n.open, x)
	n.s.After(n.Latency(), x.arrive)
	return x
}

// Repeat sends a copy of a request, as proxies and libraries do that try again.
func (n *Network) Repeat(r Request) *Exchange {
	x := n.Send(nil, r)
	x.Duplicate = true
	return x
}

// arrive begins the exchange in the server.
func (x *Exchange) arrive() {
	l := x.n.Server
	if x.over {
		return
	}
	if l == nil || l.Process.Dead() {
		x.fail(errors.New("connection refused"))
		return
	}
	x.p = l.Process
	if x.n.arrived != nil {
		x.n.arrived(x)
	}
	r, err := http.NewRequestWithContext(x.ctx, x.request.Method, "http://kalpa.example/mcp", bytes.NewReader(x.request.Body))
	if err != nil {
		panic(err)
	}
	// In any order: they are set by name.
	for k, v := range x.request.Header {
		r.Header.Set(k, v)
	}
	x.p.Go(func() {
		l.Handler.ServeHTTP((*response)(x), r)
		x.finish()
	})
}

// finish ends the response in order.
func (x *Exchange) finish() {
	if x.over {
		return
	}
	(*response)(x).WriteHeader(http.StatusOK)
	_ = x.flush() // a client that is gone hears nothing of the end either
	x.deliver(Piece{Err: io.EOF})
	x.end()
}

func (x *Exchange) end() {
	x.over = true
	for i, o := range x.n.open {
		if o == x {
			x.n.open = append(x.n.open[:i], x.n.open[i+1:]...)
			break
		}
	}
}

// fail ends the exchange as the client sees it.
func (x *Exchange) fail(err error) {
	x.deliver(Piece{Err: err})
	x.end()
}

// Cut breaks the connection: what is on its way to the client is lost as well, and
// both sides hear of it after a while.
func (x *Exchange) Cut() {
	if x.over {
		return
	}
	x.end()
	x.clear = time.Time{}
	x.deliver(Piece{Err: errConnection})
	x.n.s.After(x.n.Latency(), func() { x.ctx.Cancel(context.Canceled) })
}

// Leave is how a client ends the exchange that it does not want any more.
func (x *Exchange) Leave() {
	if x.over {
		return
	}
	x.end()
	x.n.s.After(x.n.Latency(), func() {
		if x.p != nil {
			x.p.Go(func() { x.ctx.Cancel(context.Canceled) })
		}
	})
}

// crashed breaks the connections of a process that is gone.
func (n *Network) crashed(p *Process) {
	for _, x := range append([]*Exchange(nil), n.open...) {
		if x.p == p {
			x.fail(errConnection)
		}
	}
}

// deliver puts a piece on its way to the client.
func (x *Exchange) deliver(p Piece) {
	if x.client == nil {
		return
	}
	at := x.n.s.now.Add(x.n.Latency())
	if !at.After(x.clear) {
		at = x.clear.Add(time.Nanosecond)
	}
	x.clear = at
	was := x.over
	x.n.s.After(at.Sub(x.n.s.now), func() {
		if x.broken && !was {
			x.lost = append(x.lost, p.Data...)
			if x.n.dropped != nil {
				x.n.dropped(p.Data)
			}
			return
		}
		x.broken = x.broken || errors.Is(p.Err, errConnection)
		x.inbox = append(x.inbox, p)
		if x.waiting != nil {
			x.waiting.Set()
		}
	})
}

// Read waits for the next piece of the response, at most for d; false when none
// has come. It is called in an event of the client.
func (x *Exchange) Read(d time.Duration) (Piece, bool) {
	woken := x.client.Signal()
	x.waiting = woken
	late := false
	timer := x.client.AfterFunc(d, func() { late = true; woken.Set() })
	defer timer.Stop()
	for len(x.inbox) == 0 {
		if late {
			return Piece{}, false
		}
		woken.Wait()
	}
	p := x.inbox[0]
	x.inbox = x.inbox[1:]
	x.unread -= len(p.Data)
	if x.room != nil {
		x.room.Set()
	}
	return p, true
}

// response is the server's side of an exchange, as a front sees it.
type response Exchange

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	x := (*Exchange)(r)
	if x.head || x.over {
		return
	}
	x.head = true
	x.deliver(Piece{Status: status, Header: x.header.Clone()})
}

func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.over {
		return 0, errConnection
	}
	r.body = append(r.body, b...)
	return len(b), nil
}

// FlushError implements what http.ResponseController looks for.
func (r *response) FlushError() error {
	r.WriteHeader(http.StatusOK)
	return (*Exchange)(r).flush()
}

// SetWriteDeadline does nothing: a write may block for writeLimit.
func (r *response) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: bodies arrive whole.
func (r *response) SetReadDeadline(time.Time) error { return nil }

// writeLimit is how long a front waits for a client that does not read.
const writeLimit = 30 * time.Second

// flush sends what was written. It blocks on a client that does not read.
func (x *Exchange) flush() error {
	if x.over {
		return errConnection
	}
	if len(x.body) == 0 {
		return nil
	}
	late := false
	if x.client != nil && x.unread > x.n.Window {
		room := x.p.Signal()
		x.room = room
		if x.n.blocked != nil {
			x.n.blocked()
		}
		timer := x.p.AfterFunc(writeLimit, func() { late = true; room.Set() })
		x.ctx.AfterFunc(room.Set)
		for x.unread > x.n.Window && !late && !x.over {
			room.Wait()
		}
		x.room = nil
		timer.Stop()
		if late {
			return os.ErrDeadlineExceeded
		}
	}
	if x.over {
		return errConnection
	}
	b := x.body
	x.body = nil
	if x.n.flushed != nil {
		x.n.flushed(x, b)
	}
	x.unread += len(b)
	x.deliver(Piece{Data: b})
	return nil
}
