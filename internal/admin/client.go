package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client talks to one host's admin listener. Its errors are *Error where the host
// has answered, or where something is known of why it has not.
type Client struct {
	address, base, token string
	http                 *http.Client
}

// NewClient makes a client of the host at an address: HOST:PORT, unix:/path, or the
// http or https URL of something in front of one. The token may be empty.
func NewClient(address, token string) (*Client, error) {
	c := &Client{address: address, token: token}
	// No proxy: what is on this machine is not reached by one, and a token is nobody
	// else's.
	transport := &http.Transport{TLSHandshakeTimeout: 10 * time.Second}
	var d net.Dialer
	path, unix := strings.CutPrefix(address, "unix:")
	switch u, err := url.Parse(address); {
	case unix && path != "":
		c.base = "http://kalpa"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		c.base = u.Scheme + "://" + u.Host
	default:
		host, port, err := net.SplitHostPort(address)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
			return nil, fmt.Errorf("%q is not the address of an admin listener", address)
		}
		if host == "" {
			host = "127.0.0.1"
		}
		c.base = "http://" + net.JoinHostPort(host, port)
	}
	c.http = &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Reset breaks a session, an object or an isolate, at once.
func (c *Client) Reset(ctx context.Context, r Reset) (*WasReset, error) {
	return ask[WasReset](ctx, c, http.MethodPost, "/v1/reset", r)
}

// Arm sets a strike.
func (c *Client) Arm(ctx context.Context, s Strike) (*Armed, error) {
	return ask[Armed](ctx, c, http.MethodPost, "/v1/chaos", s)
}

// Strikes lists the strikes that wait.
func (c *Client) Strikes(ctx context.Context) (*Strikes, error) {
	return ask[Strikes](ctx, c, http.MethodGet, "/v1/chaos", nil)
}

// Disarm takes a strike back.
func (c *Client) Disarm(ctx context.Context, number int) (*Disarmed, error) {
	return ask[Disarmed](ctx, c, http.MethodDelete, "/v1/chaos/"+strconv.Itoa(number), nil)
}

// DisarmAll takes back all strikes.
func (c *Client) DisarmAll(ctx context.Context) (*Disarmed, error) {
	return ask[Disarmed](ctx, c, http.MethodDelete, "/v1/chaos", nil)
}

// Isolates lists the isolates.
func (c *Client) Isolates(ctx context.Context) (*Isolates, error) {
	return ask[Isolates](ctx, c, http.MethodGet, "/v1/isolates", nil)
}

// Sessions lists at most limit sessions after an id; 0 is DefaultPage.
func (c *Client) Sessions(ctx context.Context, after string, limit int) (*Sessions, error) {
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return ask[Sessions](ctx, c, http.MethodGet, "/v1/sessions?"+q.Encode(), nil)
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

func ask[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or given up
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode != http.StatusOK {
		e := &Error{}
		if json.Unmarshal(raw, e) != nil || e.Text == "" {
			return nil, c.stranger(response.Status)
		}
		e.Status = response.StatusCode
		return nil, e
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, c.stranger("an answer that is not its own")
	}
	return v, nil
}

// unreachable says why a host did not answer, where that can be known.
func (c *Client) unreachable(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which nobody has typed
	}
	e := &Error{Text: fmt.Sprintf("no answer from %s: %v", c.address, err), Err: err}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		e.Text = "no host listens on " + c.address
		e.Hint = "kalpa serve --admin " + c.address + " starts one; the admin listener is off without --admin, and a host that has it says where in its first lines"
	case errors.Is(err, syscall.EACCES):
		e.Hint = "the socket is for the user who runs the host"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Hint = "the host has ended, or closed the connection; what was asked may have been done"
	}
	return e
}

// stranger is the error of an answer that no admin listener gives.
func (c *Client) stranger(what string) error {
	return &Error{Text: fmt.Sprintf("%s does not answer as a host's admin listener does: %s", c.address, what),
		Hint: "its address is the one behind `admin` in the host's first lines, not the one that MCP clients use"}
}
