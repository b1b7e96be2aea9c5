package actor

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// socket is a WebSocket as the host holds it. One goroutine reads the connection and
// one writes it; the object is told by events.
type socket struct {
	h      *Host
	id     storage.ID
	tags   []string
	set    *socketSet
	wake   run.Signal // of the writer
	room   run.Signal // of the reader, when the object is behind
	ctx    context.Context
	cancel context.CancelFunc // what the reader waits for

	mu         sync.Mutex
	conn       *websocket.Conn // nil: not yet
	raw        net.Conn
	attachment []byte
	responded  time.Time
	out        []frame
	unsent     int  // what messages take that are not yet written
	waiting    int  // messages that the object has not got
	unhandled  int  // their bytes
	open       bool // neither side has closed it
	listed     bool // it is the object's
	told       bool // the object was, or is being, told of its end
	ending     bool // a close frame is queued: nothing follows
	over       bool // the reader has ended
}

// frame is a message on its way out, or the close.
type frame struct {
	m     Message
	close bool
	code  int
	text  string
}

// maxWaiting is how many messages of one client may wait for the object before the
// connection is not read on: the queue is there for others, too.
const maxWaiting = 16

// connect makes the connection and begins to serve it.
func (x *exchange) connect(w http.ResponseWriter) {
	c := x.upgrade
	if !x.h.sockets.begun(c) {
		x.h.refuse(w, &Error{Op: "accept WebSocket", ID: c.id, Cause: Shutdown})
		return
	}
	if !c.kept() {
		x.h.sockets.over(c)
		x.h.refuse(w, &Error{Op: "accept WebSocket", ID: c.id, Cause: Superseded})
		return
	}
	hw := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(hw, x.r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin was looked at
	if err != nil {
		x.h.sockets.over(c)
		c.lost()
		return
	}
	conn.SetReadLimit(int64(x.h.o.Web.MaxMessage))
	c.mu.Lock()
	c.conn, c.raw = conn, hw.conn
	c.mu.Unlock()
	c.wake.Set()
	x.h.o.Runner.Go(c.read)
	x.h.o.Runner.Go(c.write)
}

// hijacked keeps the connection that is taken over, so that it can be cut.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (w *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		_ = conn.SetDeadline(time.Time{}) // what was left of the request's
	}
	w.conn = conn
	return conn, rw, err
}

// frameCost is about what a message on its way out takes beside its bytes: small ones
// fill memory, too.
const frameCost = 64

// hold counts bytes that are to be sent; false: there are too many.
func (c *socket) hold(n, most int) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.open || !c.listed:
		return false, ErrClosed
	case c.unsent+n > most:
		c.open = false
		return false, nil
	}
	c.unsent += n + frameCost
	return true, nil
}

// push has a frame written. Nothing follows a close.
func (c *socket) push(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue(f)
}

func (c *socket) queue(f frame) {
	if c.ending || c.over {
		return
	}
	c.ending = f.close
	c.out = append(c.out, f)
	c.wake.Set()
}

// closing says that the object closes it; false: it is closed already.
func (c *socket) closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.open
	c.open = false
	return was
}

func (c *socket) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open && c.listed
}

// kept: it is still the object's.
func (c *socket) kept() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed
}

// leave takes it from the object, which will hear no more of it.
func (c *socket) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.listed = false, false
}

// drop takes it from the object, which will hear no more of it, and closes it. What
// has passed the gate is sent first.
func (c *socket) drop(f frame) {
	c.mu.Lock()
	c.open, c.listed = false, false
	c.queue(f)
	c.mu.Unlock()
	c.cancel()
	c.room.Set()
}

// cut ends the connection at once.
func (c *socket) cut() {
	c.mu.Lock()
	raw := c.raw
	c.mu.Unlock()
	if raw != nil {
		_ = raw.Close()
	}
}

// remove takes it from the object's list: it has ended.
func (c *socket) remove() {
	c.mu.Lock()
	c.open, c.listed = false, false
	c.mu.Unlock()
	c.cancel()
	s := c.h.sockets
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range c.set.list {
		if other == c {
			c.set.list = append(c.set.list[:i:i], c.set.list[i+1:]...)
			break
		}
	}
	if len(c.set.list) == 0 && s.of[c.id] == c.set && c.set.asked == nil {
		delete(s.of, c.id)
	}
}

// lost says that there never will be a connection, unless there is one.
func (c *socket) lost() {
	c.mu.Lock()
	never := c.conn == nil && !c.told
	c.told = c.told || never
	c.mu.Unlock()
	if never {
		c.h.o.Runner.Go(func() { c.tell(&arrival{c: c, closed: &Close{Code: 1006}}) })
	}
}

// handled says that the object has got a message.
func (c *socket) handled(n int) {
	c.mu.Lock()
	c.waiting--
	c.unhandled -= n
	c.mu.Unlock()
	c.room.Set()
}

// read reads the connection to its end.
func (c *socket) read() {
	defer c.h.sockets.over(c)
	for {
		kind, data, err := c.conn.Read(context.Background())
		if err != nil {
			c.ended(err)
			return
		}
		m := Message{kind == websocket.MessageBinary, data}
		if a := c.set.auto.Load(); a != nil && !m.Binary && m.Text() == a.request {
			c.respond(a)
			continue
		}
		c.mu.Lock()
		c.waiting++
		c.unhandled += len(data)
		c.mu.Unlock()
		if c.tell(&arrival{c: c, m: m}) {
			c.catchUp()
		}
	}
}

// respond answers in the object's place.
func (c *socket) respond(a *autoResponse) {
	ok, err := c.hold(len(a.response), c.h.o.Web.MaxUnsent)
	switch {
	case err != nil:
	case !ok:
		c.push(frame{close: true, code: 1013, text: ErrSlow.Error()})
	default:
		c.mu.Lock()
		c.responded = c.h.o.Clock.Now()
		c.mu.Unlock()
		c.push(frame{m: Message{Data: []byte(a.response)}})
	}
}

// catchUp waits while too much waits for the object.
func (c *socket) catchUp() {
	for {
		c.mu.Lock()
		ahead := c.listed && (c.waiting >= maxWaiting || c.unhandled >= c.h.o.Web.MaxMessage)
		c.mu.Unlock()
		if !ahead {
			return
		}
		c.room.Wait()
	}
}

// tell passes an event to the object. While too many wait for that, it tries again:
// the client is held up.
func (c *socket) tell(a *arrival) bool {
	const least, most = 10 * time.Millisecond, time.Second
	for pause := least; ; pause = min(2*pause, most) {
		if !c.kept() {
			return false
		}
		err := c.h.Send(c.id, a, func(error) { c.untold(a) })
		if err == nil {
			return true
		}
		switch {
		case CauseOf(err) == Shutdown:
			c.drop(frame{close: true, code: 1001, text: Shutdown.Sentence()})
			return false
		case !CauseOf(err).Overloaded():
			c.untold(a)
			return false
		}
		if !c.h.sleep(c.ctx, pause) {
			return false
		}
	}
}

// untold says that the object did not get an event: its incarnation was reset, or
// could not be made.
func (c *socket) untold(a *arrival) {
	if a.last() {
		c.remove()
		return
	}
	c.handled(len(a.m.Data))
}

// ended is told why the reader has ended, and tells the object.
func (c *socket) ended(err error) {
	c.mu.Lock()
	c.open, c.over = false, true
	told := c.told
	c.told = true
	c.mu.Unlock()
	c.wake.Set()
	a := &arrival{c: c}
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		a.closed = &Close{int(closed.Code), closed.Reason, true}
	case disconnected(err):
		a.closed = &Close{Code: 1006}
	default:
		a.failed = err
	}
	c.cut()
	_ = c.conn.CloseNow()
	if !told {
		c.tell(a)
	}
}

// disconnected: the connection ended, and not for what the client has sent.
func disconnected(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &op)
}

// write writes the connection, until it has ended.
func (c *socket) write() {
	for {
		c.wake.Wait()
		c.mu.Lock()
		frames, over := c.out, c.over
		c.out = nil
		c.mu.Unlock()
		if over {
			return
		}
		for _, f := range frames {
			if f.close {
				_ = c.conn.Close(websocket.StatusCode(f.code), f.text) // the reader sees what comes of it
				return
			}
			kind := websocket.MessageText
			if f.m.Binary {
				kind = websocket.MessageBinary
			}
			ctx, cancel := context.WithTimeout(context.Background(), c.h.o.Web.Patience)
			err := c.conn.Write(ctx, kind, f.m.Data)
			cancel()
			if err != nil {
				c.cut() // the reader tells of it
				return
			}
			c.mu.Lock()
			c.unsent -= len(f.m.Data) + frameCost
			c.mu.Unlock()
		}
	}
}
