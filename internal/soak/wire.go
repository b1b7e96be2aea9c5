package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client sends what it is told and shows the bytes that come back. Every request has a
// connection of its own, as if no proxy ever kept one open.
type Client struct {
	URL     string
	Session string // sent as Mcp-Session-Id when not empty
	Version string // sent as MCP-Protocol-Version when not empty
	HTTP    *http.Client
}

// Patience is how long a client waits for the end of a response.
const Patience = 20 * time.Second

// NewClient returns a client without a session.
func NewClient(url string) *Client {
	return &Client{URL: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: Patience}}}
}

// Exchange is one HTTP request and what has come of it so far.
type Exchange struct {
	Status int
	Header http.Header
	Frames <-chan Frame // closed at the end of the body
	Err    error        // how the body ended; read it after Frames is closed
	Cancel context.CancelFunc
}

// Close leaves, as a client does whose connection is cut.
func (x *Exchange) Close() {
	x.Cancel()
	for range x.Frames { // until the reader has ended
	}
}

// Frame is one event of a stream, one line of comment or retry, or a whole body that is
// no stream.
type Frame struct {
	Raw     string // as it came, without the empty line
	ID      string // of the event
	Event   string
	Data    string
	Retry   string
	Comment bool
}

// Message is a JSON-RPC message whose id keeps its bytes.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Error is that of a response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Text is the text of a tool's first content.
func (m Message) Text() string {
	var r struct{ Content []struct{ Text string } }
	if json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// Do makes a request with the headers of a well-behaved client, changed by header: an
// empty value takes one away.
func (c *Client) Do(ctx context.Context, method, body string, header map[string]string) (*Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	req, err := http.NewRequestWithContext(ctx, method, c.URL, strings.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	h := req.Header
	if method == http.MethodPost {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Body, req.ContentLength = http.NoBody, 0
		h.Set("Accept", "text/event-stream")
	}
	if c.Session != "" {
		h.Set("Mcp-Session-Id", c.Session)
	}
	if c.Version != "" {
		h.Set("MCP-Protocol-Version", c.Version)
	}
	for name, value := range header {
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			h.Del(name)
		default:
			h.Set(name, value)
		}
	}
	resp, err := c.HTTP.Do(req) //nolint:bodyclose // the reader below closes it
	if err != nil {
		cancel()
		return nil, err
	}
	frames := make(chan Frame, 1<<12)
	x := &Exchange{Status: resp.StatusCode, Header: resp.Header, Frames: frames, Cancel: cancel}
	go func() { // ends with the body, which ends with ctx at the latest
		defer cancel()
		defer resp.Body.Close() //nolint:errcheck // it has been read
		defer close(frames)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			x.Err = readFrames(resp.Body, frames)
			return
		}
		var all []byte
		if all, x.Err = io.ReadAll(resp.Body); len(all) > 0 {
			frames <- Frame{Raw: string(all), Data: string(all)}
		}
	}()
	return x, nil
}

// readFrames splits a stream into its events.
func readFrames(r io.Reader, frames chan<- Frame) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var f Frame
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && (line != "" || f.Raw != "") {
				return fmt.Errorf("the stream ends within an event: %.100q", f.Raw+line)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			if f.Raw != "" {
				frames <- f
			}
			f = Frame{}
			continue
		}
		if f.Raw != "" {
			f.Raw += "\n"
		}
		f.Raw += line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			f.Comment = true
		case "id":
			f.ID = value
		case "event":
			f.Event = value
		case "data":
			f.Data += value
		case "retry":
			f.Retry = value
		}
	}
}

// Request is a request's text; id is JSON.
func Request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// Call is the text of a call of a tool, and CallWithToken of one that asks for progress.
func Call(id, tool, arguments string) string {
	return Request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// CallWithToken is a call that asks for progress.
func CallWithToken(id, tool, arguments, token string) string {
	return Request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}`, tool, arguments, token))
}

// Notification is a notification's text.
func Notification(method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
}

// Initialize is the text of the request that opens a session.
func Initialize(id, version string) string {
	return Request(id, "initialize", fmt.Sprintf(
		`{"protocolVersion":%q,"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}`, version))
}
