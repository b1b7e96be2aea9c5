package conn

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Ahead is how long a request takes, at least, before what comes behind it is read, and
// so before its client is seen to leave: once, and at most twice that.
const Ahead = 100 * time.Millisecond

// Listener accepts connections that are cheap for a server.
type Listener struct{ net.Listener }

// NewListener makes the connections of a listener cheap.
func NewListener(l net.Listener) *Listener { return &Listener{l} }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

// conn is a connection whose deadlines are kept here, and whose reader ahead waits here.
type conn struct {
	net.Conn
	read, write side
	writing     sync.Mutex // one write goes to its end before the next

	// Under read's lock.
	wake    sync.Cond // the reader ahead waits
	ahead   bool      // there is one
	looked  bool      // at him, by the timer
	due     bool      // he is to read
	closed  bool
	timer   *time.Timer // looks at him
	ticking bool        // it is armed
}

func newConn(inner net.Conn) *conn {
	c := &conn{Conn: inner}
	c.read.tell, c.write.tell = inner.SetReadDeadline, inner.SetWriteDeadline
	c.wake.L = &c.read.mu
	return c
}

// Read implements net.Conn. One byte is what a server reads ahead, and without a deadline:
// it means to wait.
func (c *conn) Read(p []byte) (n int, err error) {
	if len(p) == 1 {
		if err = c.await(); err != nil {
			return 0, err
		}
	}
	for again := c.read.begin(&err); again; again = c.read.end(&err) {
		n, err = c.Conn.Read(p)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for again := c.write.begin(&err); again; again = c.write.end(&err) {
		var more int
		more, err = c.Conn.Write(p[n:])
		n += more
	}
	return n, err
}

// await returns when it is time to read, or not to any more.
func (c *conn) await() error {
	c.read.mu.Lock()
	defer c.read.mu.Unlock()
	if c.ahead {
		return nil // one waits already, as for a server; others read
	}
	c.ahead, c.looked, c.due = true, false, false
	for !c.due && !c.closed && c.read.wanted.IsZero() {
		if !c.ticking {
			c.tick()
		}
		c.wake.Wait()
	}
	c.ahead = false
	if !c.due && !c.closed && !c.read.wanted.After(time.Now()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.read.mu.Lock()
	c.closed = true
	c.wake.Signal()
	c.read.mu.Unlock()
	return c.Conn.Close()
}

// tick has the timer look. One that is armed is left alone: it looks at who is there then.
func (c *conn) tick() {
	c.ticking = true
	if c.timer == nil {
		c.timer = time.AfterFunc(Ahead, c.look)
	} else {
		c.timer.Reset(Ahead)
	}
}

// look has a reader read who was there at the last look.
func (c *conn) look() {
	c.read.mu.Lock()
	defer c.read.mu.Unlock()
	switch c.ticking = false; {
	case c.ahead && c.looked:
		c.due = true
		c.wake.Signal()
	case c.ahead:
		c.looked = true
		c.tick()
	}
}

// CloseWrite ends what is written, as a server does before it leaves a request unread.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	defer c.wake.Signal()
	return c.read.want(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.write.want(t) }

// side is a direction of a connection with its deadline. What the system was told is
// never later than what is wanted, unless nobody is under way who would wait too long. It
// may be earlier: then who is under way finds out, tells it anew, and goes on.
type side struct {
	mu           sync.Mutex
	tell         func(time.Time) error
	wanted, told time.Time // zero: none
	under        int       // way: how many read, or write
}

// want sets the deadline.
func (s *side) want(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = t
	if s.under > 0 && s.late() {
		return s.now()
	}
	return nil
}

// late reports whether the system would end a call too late.
func (s *side) late() bool {
	return !s.wanted.IsZero() && (s.told.IsZero() || s.wanted.Before(s.told))
}

// now tells the system.
func (s *side) now() error {
	s.told = s.wanted
	return s.tell(s.wanted)
}

// begin is called before a call, and says whether to do it.
func (s *side) begin(err *error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late() {
		*err = s.now()
	}
	if *err == nil {
		s.under++
	}
	return *err == nil
}

// end is called after it, and says whether to do the rest of it: it was ended too early.
func (s *side) end(err *error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(*err, os.ErrDeadlineExceeded) && (s.wanted.IsZero() || s.wanted.After(time.Now())) {
		if *err = s.now(); *err == nil {
			return true
		}
	}
	s.under--
	return false
}
