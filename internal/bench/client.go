package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	patience = time.Minute // with one answer
	maxBody  = 16 << 20
)

// client is one MCP session over one connection that is kept alive, for what is done
// one by one. Where many call at a time, a load does. It is for one goroutine.
type client struct {
	host, path string
	session    string
	conn       net.Conn // nil: not connected
	in         *bufio.Reader
	out        []byte
	id         int64
}

func newClient(endpoint string) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	return &client{host: u.Host, path: u.RequestURI()}, nil
}

// open makes a new session.
func open(endpoint string) (*client, error) {
	c, err := newClient(endpoint)
	if err == nil {
		err = c.initialize()
	}
	if err == nil {
		err = c.notify(initialized)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// resume is a client of a session that there is.
func resume(endpoint, session string) (*client, error) {
	c, err := newClient(endpoint)
	if err == nil {
		c.session, c.id = session, 1<<20 // ids that it has not had
	}
	return c, err
}

func (c *client) initialize() error {
	_, err := c.request(appendRequest(nil, c.next(), "initialize", initialization))
	if err == nil && c.session == "" {
		err = fmt.Errorf("initialize was answered without a session id")
	}
	return err
}

// call calls a tool and checks that it answers with this text.
func (c *client) call(tool, arguments, want string) error {
	a, err := c.request(appendCall(nil, c.next(), tool, arguments))
	if err == nil {
		err = a.says(want)
	}
	return err
}

// next is the id of the next request.
func (c *client) next() int64 {
	c.id++
	return c.id
}

// request sends the request with the newest id and wants its one answer.
func (c *client) request(message []byte) (a answer, err error) {
	messages, err := c.post(message)
	if err == nil {
		a, err = pick(messages, c.id)
	}
	return a, err
}

// notify sends what nobody answers.
func (c *client) notify(message string) error {
	messages, err := c.post([]byte(message))
	if err == nil && len(messages) > 0 {
		err = fmt.Errorf("a notification was answered: %.200s", messages[0])
	}
	return err
}

// post sends a message and returns those that come back.
func (c *client) post(message []byte) (messages [][]byte, err error) {
	r, err := c.send(appendPost(c.out[:0], c.host, c.path, c.session, message))
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() {
		if !keep {
			c.close()
		}
	}()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if r.StatusCode >= 300 {
		return nil, fmt.Errorf("status %d: %.200s", r.StatusCode, body)
	}
	if c.session == "" {
		c.session = r.Header.Get("Mcp-Session-Id")
	}
	keep = !r.Close
	return payload(body), nil
}

// send sends a request as it is, and returns the answer's head. The body is the
// caller's.
func (c *client) send(request []byte) (r *http.Response, err error) {
	c.out = request
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.host, patience); err != nil { //nolint:noctx // it has a time-out
			c.conn = nil
			return nil, err
		}
		c.in = bufio.NewReaderSize(c.conn, 64<<10)
	}
	err = c.conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.conn.Write(request)
	}
	if err == nil {
		r, err = http.ReadResponse(c.in, nil)
	}
	if err != nil {
		c.close()
	}
	return r, err
}

func (c *client) close() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close() // nothing of it is wanted any more
		c.conn = nil
	}
}
