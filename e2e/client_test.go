package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/soak"
)

// client is a raw MCP client: it sends what it is told and shows the bytes that
// come back. Every request has a connection of its own, as if no proxy ever kept
// one open.
type client struct {
	t       testing.TB
	url     string
	session string // sent as Mcp-Session-Id when not empty
	version string // sent as MCP-Protocol-Version when not empty
	http    *http.Client
}

// patience is how long the raw client waits for anything.
const patience = 20 * time.Second

func newClient(t testing.TB, url string) *client {
	return &client{t: t, url: url, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience}}}
}

const (
	v2024 = "2024-11-05"
	vMar  = "2025-03-26"
	vJun  = "2025-06-18"
	vNov  = "2025-11-25"
)

// exchange is one HTTP request and what has come of it so far.
type exchange struct {
	t      testing.TB
	status int
	header http.Header
	frames <-chan frame // closed at the end of the body
	err    error        // how the body ended; read it after frames is closed
	cancel context.CancelFunc
}

// frame is one event of a stream, one line of comment or retry, or a whole body
// that is no stream.
type frame struct {
	raw     string // as it came, without the empty line
	id      string // of the event
	event   string
	data    string
	retry   string
	comment bool
}

// primes tells whether the frame only gives the client an id to resume from.
func (f frame) primes() bool { return f.id != "" && f.data == "" }

// message is a JSON-RPC message whose id keeps its bytes.
type message = soak.Message

func parse(t testing.TB, data string) message {
	t.Helper()
	var m message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.Fatalf("not a JSON-RPC message: %v: %.300s", err, data)
	}
	return m
}

// do makes a request with the headers of a well-behaved client, changed by
// header; an empty value takes a header away.
func (c *client) do(method, body string, header map[string]string) *exchange {
	c.t.Helper()
	x, err := c.try(method, body, header)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return x
}

func (c *client) try(method, body string, header map[string]string) (*exchange, error) {
	return c.tryIn(c.t.Context(), method, body, header)
}

// tryIn is try with an end that may come before there is an answer.
func (c *client) tryIn(ctx context.Context, method, body string, header map[string]string) (*exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
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
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
	}
	if c.version != "" {
		h.Set("MCP-Protocol-Version", c.version)
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
	resp, err := c.http.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	frames := make(chan frame, 1<<12)
	x := &exchange{t: c.t, status: resp.StatusCode, header: resp.Header, frames: frames, cancel: cancel}
	go func() { // ends with the body, which ends with ctx at the latest
		defer cancel()
		defer resp.Body.Close()
		defer close(frames)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			x.err = readFrames(resp.Body, frames)
			return
		}
		var all []byte
		if all, x.err = io.ReadAll(resp.Body); len(all) > 0 {
			frames <- frame{raw: string(all), data: string(all)}
		}
	}()
	return x, nil
}

// readFrames splits a stream into its events.
func readFrames(r io.Reader, frames chan<- frame) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var f frame
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if err == io.EOF && (line != "" || f.raw != "") {
				return fmt.Errorf("the stream ends within an event: %.100q", f.raw+line)
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			if f.raw != "" {
				frames <- f
			}
			f = frame{}
			continue
		}
		if f.raw != "" {
			f.raw += "\n"
		}
		f.raw += line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			f.comment = true
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data += value
		case "retry":
			f.retry = value
		}
	}
}

func (c *client) post(body string) *exchange {
	c.t.Helper()
	return c.do(http.MethodPost, body, nil)
}

// get opens a stream; after is a Last-Event-ID, or empty. A stream of which nothing
// is left to come is answered by 204 instead, which is an empty one here.
func (c *client) get(after string) *exchange {
	c.t.Helper()
	x := c.do(http.MethodGet, "", map[string]string{"Last-Event-ID": after})
	if x.status != http.StatusOK && !(x.status == http.StatusNoContent && after != "") {
		c.t.Fatalf("GET: status %d: %s", x.status, x.body())
	}
	c.t.Cleanup(x.cancel)
	return x
}

// close leaves, as a client does whose connection is cut.
func (x *exchange) close() {
	x.cancel()
	for range x.frames { // until the reader has ended
	}
}

// next is the next frame that carries a message; false at the end of the stream.
func (x *exchange) next() (frame, bool) {
	x.t.Helper()
	for f := range x.frames {
		if f.data != "" {
			return f, true
		}
	}
	if errors.Is(x.err, context.DeadlineExceeded) {
		x.t.Fatalf("nothing came on the stream for %v", patience)
	}
	return frame{}, false
}

// within is like next, and says false as well when nothing came in time.
func (x *exchange) within(limit time.Duration) (frame, bool) {
	deadline := time.After(limit)
	for {
		select {
		case f, ok := <-x.frames:
			if !ok {
				return f, false
			}
			if f.data != "" {
				return f, true
			}
		case <-deadline:
			return frame{}, false
		}
	}
}

// all reads to the end of the body.
func (x *exchange) all() []frame {
	x.t.Helper()
	var all []frame
	for f := range x.frames {
		all = append(all, f)
	}
	if x.err != nil {
		x.t.Fatalf("the body does not end as it should: %v, after %d frames", x.err, len(all))
	}
	return all
}

// body is the whole body of an answer that is no stream.
func (x *exchange) body() string {
	x.t.Helper()
	var b strings.Builder
	for _, f := range x.all() {
		b.WriteString(f.raw)
	}
	return b.String()
}

// answers are the responses among frames.
func answers(t testing.TB, frames []frame) []message {
	t.Helper()
	var all []message
	for _, f := range frames {
		if f.data == "" {
			continue
		}
		if m := parse(t, f.data); m.Method == "" {
			all = append(all, m)
		}
	}
	return all
}

// answer reads an exchange to its end, which must have brought one response.
func (x *exchange) answer() message {
	x.t.Helper()
	if x.status != http.StatusOK {
		x.t.Fatalf("status %d: %s", x.status, x.body())
	}
	got := answers(x.t, x.all())
	if len(got) != 1 {
		x.t.Fatalf("%d responses on one stream, want 1", len(got))
	}
	return got[0]
}

// result reads an exchange to its end, which must have brought one result.
func (x *exchange) result() message {
	x.t.Helper()
	m := x.answer()
	if m.Error != nil {
		x.t.Fatalf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	return m
}

func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func call(id, tool, arguments string) string {
	return request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// callWithToken is a call that asks for progress.
func callWithToken(id, tool, arguments, token string) string {
	return request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}`, tool, arguments, token))
}

func notification(method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
}

func initializeRequest(version string) string {
	return request("0", "initialize", fmt.Sprintf(
		`{"protocolVersion":%q,"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}`, version))
}

// connect makes a session and returns the result of initialize.
func (c *client) connect(version string) message {
	c.t.Helper()
	c.session, c.version = "", ""
	x := c.post(initializeRequest(version))
	m := x.result()
	c.session, c.version = x.header.Get("Mcp-Session-Id"), version
	if c.session == "" {
		c.t.Fatal("initialize brought no Mcp-Session-Id")
	}
	c.tell(notification("notifications/initialized"))
	return m
}

// tell sends what has no answer.
func (c *client) tell(body string) {
	c.t.Helper()
	x := c.post(body)
	if got := x.body(); x.status != http.StatusAccepted || got != "" {
		c.t.Fatalf("status %d with body %q, want 202 and none", x.status, got)
	}
}

// session returns a client with a new session of the newest revision that has
// sessions.
func (h *host) session() *client {
	h.t.Helper()
	c := newClient(h.t, h.url)
	c.connect(vNov)
	return c
}
