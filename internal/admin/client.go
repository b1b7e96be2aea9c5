package admin

import (
	"bufio"
	"bytes"
	"cmp"
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
		Transport:     transport,
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

// Overview are the figures of now; with history, those of the last hour too.
func (c *Client) Overview(ctx context.Context, history bool) (*Overview, error) {
	return ask[Overview](ctx, c, http.MethodGet, "/v1/overview"+query("history", truthOf(history)), nil)
}

// SessionQuery selects sessions; see Sessions for its parameters.
type SessionQuery struct {
	After, Prefix, Server, State string
	Limit                        int // 0: DefaultPage
}

// Servers asks how each server fares.
func (c *Client) Servers(ctx context.Context) (*Servers, error) {
	return ask[Servers](ctx, c, http.MethodGet, "/v1/servers", nil)
}

// Sessions is a page of sessions.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) (*Sessions, error) {
	return ask[Sessions](ctx, c, http.MethodGet, "/v1/sessions"+query("after", q.After, "prefix", q.Prefix, "server", q.Server, "state", q.State, "limit", limitOf(q.Limit)), nil)
}

// Session is all that can be seen of a session.
func (c *Client) Session(ctx context.Context, id string) (*SessionDetail, error) {
	return ask[SessionDetail](ctx, c, http.MethodGet, "/v1/sessions/"+url.PathEscape(id), nil)
}

// EndSession ends a session for good.
func (c *Client) EndSession(ctx context.Context, id string) (*Ended, error) {
	return ask[Ended](ctx, c, http.MethodDelete, "/v1/sessions/"+url.PathEscape(id), nil)
}

// Dispose closes the runtime of a session.
func (c *Client) Dispose(ctx context.Context, id string, force bool) (*Disposed, error) {
	return ask[Disposed](ctx, c, http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/dispose"+query("force", truthOf(force)), nil)
}

// Classes are those of which something is stored or that the program has.
func (c *Client) Classes(ctx context.Context) (*Classes, error) {
	return ask[Classes](ctx, c, http.MethodGet, "/v1/classes", nil)
}

// Objects is a page of the objects of a class.
func (c *Client) Objects(ctx context.Context, class, prefix, after string, limit int) (*Objects, error) {
	return ask[Objects](ctx, c, http.MethodGet, "/v1/objects"+query("class", class, "prefix", prefix, "after", after, "limit", limitOf(limit)), nil)
}

// Object is an object and a page of its rows.
func (c *Client) Object(ctx context.Context, class, name, after string, limit int) (*ObjectDetail, error) {
	return ask[ObjectDetail](ctx, c, http.MethodGet, "/v1/object"+query("class", class, "name", name, "after", after, "limit", limitOf(limit)), nil)
}

// Export writes an object as text.
func (c *Client) Export(ctx context.Context, class, name string, w io.Writer) error {
	body, err := c.do(ctx, http.MethodGet, "/v1/object/export"+query("class", class, "name", name), nil, "")
	if err != nil {
		return err
	}
	return c.copy(w, body)
}

// Import makes an object what an export says.
func (c *Client) Import(ctx context.Context, r io.Reader, replace bool) (*Imported, error) {
	return answer[Imported](ctx, c, http.MethodPost, "/v1/object/import"+query("replace", truthOf(replace)), r, "application/x-ndjson")
}

// Remove deletes all that is stored of an object.
func (c *Client) Remove(ctx context.Context, class, name string) (*Removed, error) {
	return ask[Removed](ctx, c, http.MethodDelete, "/v1/object"+query("class", class, "name", name), nil)
}

// Alarms is a page of all alarms, earliest first; with a class and a name, that of one
// object.
func (c *Client) Alarms(ctx context.Context, class, name, after string, limit int) (*Alarms, error) {
	return ask[Alarms](ctx, c, http.MethodGet, "/v1/alarms"+query("class", class, "name", name, "after", after, "limit", limitOf(limit)), nil)
}

// Backup writes a backup of the store, as a tar archive. The whole of it has come when
// Backup returns nil.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	body, err := c.do(ctx, http.MethodGet, "/v1/backup", nil, "")
	if err != nil {
		return err
	}
	return c.copy(w, body)
}

// Events calls f with each event from the one after an id on (empty: from now on; all:
// with those that are remembered), until ctx or the host ends, or f fails.
func (c *Client) Events(ctx context.Context, after string, all bool, f func(Event) error) error {
	from := ""
	if all {
		from = "start"
	}
	body, err := c.do(ctx, http.MethodGet, "/v1/events"+query("after", after, "from", from), nil, "")
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // given up
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return c.stranger("an event that is not its own")
		}
		if err := f(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// query is the parameters that are not empty, behind a question mark.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func truthOf(b bool) string {
	if b {
		return "true"
	}
	return ""
}

func limitOf(n int) string {
	if n > 0 {
		return strconv.Itoa(n)
	}
	return ""
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
	return answer[T](ctx, c, method, path, sent, "application/json")
}

// answerTimeout bounds a question that has a short answer.
const answerTimeout = 30 * time.Second

func answer[T any](ctx context.Context, c *Client, method, path string, body io.Reader, kind string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	got, err := c.do(ctx, method, path, body, kind)
	if err != nil {
		return nil, err
	}
	defer got.Close() //nolint:errcheck // read to its end, or given up
	raw, err := io.ReadAll(io.LimitReader(got, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, c.stranger("an answer that is not its own")
	}
	return v, nil
}

// do asks, and returns the body of an answer that is one.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader, kind string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or given up
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	e := &Error{}
	if json.Unmarshal(raw, e) != nil || e.Text == "" {
		return nil, c.stranger(response.Status)
	}
	e.Status = response.StatusCode
	return nil, e
}

// copy writes all of a body, and fails when it was cut off.
func (c *Client) copy(w io.Writer, body io.ReadCloser) error {
	defer body.Close() //nolint:errcheck // read to its end, or given up
	if _, err := io.Copy(w, reading{body, c}); err != nil {
		return err
	}
	return nil
}

// reading gives errors of reading the words that a client has for them; those of
// writing stay what they are.
type reading struct {
	io.Reader
	c *Client
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.c.unreachable(err)
	}
	return n, err
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
	case errors.Is(err, context.DeadlineExceeded):
		e.Text = "the host at " + c.address + " has not answered in time"
		e.Hint = "it hangs, is stopped, or has more to do than it can: its log says what it did last; what was asked may have been done"
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
