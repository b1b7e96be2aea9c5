package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutter is a TCP proxy in front of a host that cuts connections when it is told
// to, the way a network does: both sides get a reset, in the middle of whatever it
// was.
type cutter struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  map[net.Conn]bool
	pumps sync.WaitGroup
}

// behindCutter starts a proxy in front of a host and returns it with the URL to use.
func behindCutter(t testing.TB, target string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: u.Host, open: map[net.Conn]bool{}}
	c.pumps.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.cut()
		c.pumps.Wait()
	})
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cutter) accept() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.target)
		if err != nil {
			in.Close()
			continue
		}
		c.mu.Lock()
		c.open[in], c.open[out] = true, true
		c.mu.Unlock()
		c.pumps.Go(func() { c.pump(in, out) })
		c.pumps.Go(func() { c.pump(out, in) })
	}
}

// pump copies until either end is closed, and then closes both.
func (c *cutter) pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
	c.mu.Lock()
	delete(c.open, to)
	delete(c.open, from)
	c.mu.Unlock()
}

// cut resets every open connection and returns how many clients had one.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.open) / 2
	for conn := range c.open {
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, not an orderly end
		conn.Close()
	}
	clear(c.open)
	return n
}
