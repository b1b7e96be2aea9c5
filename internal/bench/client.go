package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	protocol = "2025-06-18"
	patience = time.Minute // with one answer
	maxBody  = 16 << 20
)

// client is one MCP session over one connection that is kept alive. It writes its
// requests as bytes: the driver shares the machine with what it measures, and
// net/http's client costs as much as some servers do. It is for one goroutine.
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
		err = c.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), nil)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) initialize() error {
	var a answer
	err := c.request("initialize", `{"protocolVersion":"`+protocol+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`, &a)
	if err == nil && c.session == "" {
		err = fmt.Errorf("initialize was answered without a session id")
	}
	return err
}

// call calls a tool and checks that it answers with this text.
func (c *client) call(tool, arguments, want string) error {
	var a answer
	if err := c.request("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`, &a); err != nil {
		return err
	}
	var result struct {
		IsError bool                    `json:"isError"`
		Content []struct{ Text string } `json:"content"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		return fmt.Errorf("the result of %s: %w", tool, err)
	}
	if result.IsError || len(result.Content) != 1 || result.Content[0].Text != want {
		return fmt.Errorf("%s%s answered %.200s, want %s", tool, arguments, a.Result, want)
	}
	return nil
}

type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// request sends a request and wants its one answer.
func (c *client) request(method, params string, a *answer) error {
	c.id++
	id := strconv.FormatInt(c.id, 10)
	if err := c.post([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+params+`}`), a); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if a.Error != nil || a.Result == nil || string(a.ID) != id {
		return fmt.Errorf("%s with id %s was answered with id %s, error %.200s", method, id, a.ID, a.Error)
	}
	return nil
}

// post sends a message. With a nil answer, none may come.
func (c *client) post(message []byte, a *answer) (err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.host, patience); err != nil { //nolint:noctx // it has a time-out
			return err
		}
		c.in = bufio.NewReader(c.conn)
	}
	keep := false
	defer func() {
		if !keep {
			c.close()
		}
	}()
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c.out = append(c.out[:0], "POST "+c.path+" HTTP/1.1\r\nHost: "+c.host+
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if c.session != "" {
		c.out = append(c.out, "Mcp-Session-Id: "+c.session+"\r\nMCP-Protocol-Version: "+protocol+"\r\n"...)
	}
	c.out = append(strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(message)), 10), "\r\n\r\n"...)
	if _, err := c.conn.Write(append(c.out, message...)); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err := r.Body.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if r.StatusCode >= 300 {
		return fmt.Errorf("status %d: %.200s", r.StatusCode, body)
	}
	if c.session == "" {
		c.session = r.Header.Get("Mcp-Session-Id")
	}
	keep = !r.Close
	if messages := payload(body); a != nil {
		return pick(messages, a)
	} else if len(messages) > 0 {
		return fmt.Errorf("a notification was answered: %.200s", messages[0])
	}
	return nil
}

// payload takes the messages out of a body: of one message, or of events.
func payload(body []byte) (messages [][]byte) {
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '{' {
		return [][]byte{body}
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				messages = append(messages, data)
			}
		}
	}
	return messages
}

// pick finds the one answer among messages.
func pick(messages [][]byte, a *answer) error {
	found := 0
	for _, m := range messages {
		var one answer
		if err := json.Unmarshal(m, &one); err != nil {
			return fmt.Errorf("%.200s: %w", m, err)
		}
		if one.Method == "" {
			*a = one
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("%d answers came to one request", found)
	}
	return nil
}

func (c *client) close() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close() // nothing of it is wanted any more
		c.conn = nil
	}
}
