package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// What a WebSocket may carry beside its messages. The limits are those of the
// platform whose semantics these are.
const (
	MaxTags         = 10       // of one WebSocket
	MaxTag          = 256      // bytes of a tag
	MaxAttachment   = 16 << 10 // bytes of an attachment's JSON
	MaxAutoResponse = 2048     // bytes of a request, or of the answer, of SetAutoResponse
	maxReason       = 123      // bytes of a close's reason, by the protocol
)

var (
	// ErrWebSocket: the request is not one for a WebSocket, was answered already, or
	// comes from a page of a foreign origin.
	ErrWebSocket = errors.New("not acceptable as a WebSocket")
	// ErrTag: there are too many tags, or one is too long.
	ErrTag = errors.New("not a tag")
	// ErrClosed: the WebSocket is closed.
	ErrClosed = errors.New("the WebSocket is closed")
	// ErrClose: a close can't have that code or reason.
	ErrClose = errors.New("not a close")
	// ErrText: what is sent as text is not UTF-8, at which a client breaks the connection
	// off.
	ErrText = errors.New("not UTF-8")
	// ErrSlow: the client does not take what is sent, and the WebSocket is closed.
	ErrSlow = errors.New("the client takes too little of what is sent to it")
)

// What an object may implement to be told of its WebSockets. An error is logged; the
// object and the WebSocket go on, and what was written stays.
type (
	// WebSocketMessager is told of messages. Without it they are dropped.
	WebSocketMessager interface {
		WebSocketMessage(ctx context.Context, ws *WebSocket, m Message) error
	}
	// WebSocketCloser is told that a WebSocket has closed, whoever began it. It is
	// listed until this has returned.
	WebSocketCloser interface {
		WebSocketClose(ctx context.Context, ws *WebSocket, c Close) error
	}
	// WebSocketFailer is told that a client broke the protocol or sent a message that
	// is too large; its WebSocket is closed. It is listed until this has returned.
	WebSocketFailer interface {
		WebSocketError(ctx context.Context, ws *WebSocket, err error) error
	}
)

// Message is a message of a WebSocket.
type Message struct {
	Binary bool
	Data   []byte
}

// Text is the message's text.
func (m Message) Text() string { return string(m.Data) }

// Close is how a WebSocket was closed.
type Close struct {
	// Code and Reason are those that the client's close frame has; 1005 when that has
	// no code, 1006 when there was no close frame.
	Code   int
	Reason string
	// Clean: there was a close frame.
	Clean bool
}

// WebSocket is the object's end of a WebSocket. The host holds the connection: it
// outlives the eviction of an idle object, with tags and attachment, and a message
// makes the next incarnation, which finds it by [State.WebSockets]. A reset closes
// it, with code 1012 and the cause's sentence; the host's shutdown closes it with 1001.
//
// Its methods belong to the object's code, as those of its State do.
type WebSocket struct {
	s *State
	c *socket
}

// AcceptWebSocket makes a WebSocket of a request that the object's handler has got
// (w and r are the handler's, and nothing has been written to w). The connection is
// made when the handler has returned, and what it wrote is durable; frames that are
// sent before wait for that. When it can't be made after all, the object is told of
// a close with code 1006.
//
// Tags find it again, with [State.WebSockets]: at most MaxTags of MaxTag bytes.
func (s *State) AcceptWebSocket(w http.ResponseWriter, r *http.Request, tags ...string) (*WebSocket, error) {
	if _, err := s.holder(); err != nil {
		return nil, err
	}
	const op = "accept WebSocket"
	var own []string
	for _, tag := range tags {
		if len(tag) > MaxTag {
			return nil, s.fail(op, fmt.Errorf("%w: %.20q... is longer than the max tag length (%d bytes)", ErrTag, tag, MaxTag), "")
		}
		if !slices.Contains(own, tag) {
			own = append(own, tag)
		}
	}
	if len(own) > MaxTags {
		return nil, s.fail(op, fmt.Errorf("%w: a WebSocket cannot have more than %d tags", ErrTag, MaxTags), "")
	}
	res, ok := w.(*response)
	switch {
	case !ok || res.me == nil || res.me.state != s:
		return nil, s.fail(op, ErrWebSocket, "pass on the ResponseWriter that the object's handler has got")
	case res.x.upgrade != nil:
		return nil, s.fail(op, fmt.Errorf("%w: it was accepted already", ErrWebSocket), "")
	case res.status != 0 || res.over:
		return nil, s.fail(op, fmt.Errorf("%w: the request was answered already", ErrWebSocket), "accept it before anything is written")
	case !wantsWebSocket(r):
		return nil, s.fail(op, fmt.Errorf("%w: it does not ask for an upgrade", ErrWebSocket), "answer it with status 426, or see what is between the client and the host")
	case !s.inc.h.o.Web.OriginChecked && foreign(r):
		return nil, s.fail(op, fmt.Errorf("%w: a page of %.100q asks for it", ErrWebSocket, r.Header.Get("Origin")), "answer it with status 403, or check origins before the host and set Options.Web.OriginChecked")
	}
	c, err := s.inc.h.sockets.accept(s.inc, own)
	if err != nil {
		return nil, err
	}
	res.x.mu.Lock()
	res.x.upgrade = c
	res.x.mu.Unlock()
	return &WebSocket{s, c}, nil
}

func wantsWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && r.Header.Get("Sec-WebSocket-Key") != ""
}

// foreign: a page has sent the request that does not come from where it went.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	_, host, _ := strings.Cut(origin, "://")
	return origin != "" && !strings.EqualFold(host, r.Host)
}

// WebSockets are the object's, those that have all of the tags, in the order in which
// they were accepted.
func (s *State) WebSockets(tags ...string) ([]*WebSocket, error) {
	if _, err := s.holder(); err != nil {
		return nil, err
	}
	var all []*WebSocket
	for _, c := range s.inc.h.sockets.list(s.inc.id) {
		if !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(c.tags, tag) }) {
			all = append(all, &WebSocket{s, c})
		}
	}
	return all, nil
}

// SetAutoResponse has the host answer each text message that equals request with
// response, on all of the object's WebSockets. Such a message does not reach the
// object, nor wake it. It is in force when what the object has written is durable,
// until it is replaced or cleared, or the object is reset, or evicted with no
// WebSocket: constructors set it.
func (s *State) SetAutoResponse(request, response string) error {
	const hint = "at most 2,048 bytes each"
	if len(request) > MaxAutoResponse {
		return s.fail("set auto response", fmt.Errorf("%w: the request has %d bytes", ErrTooLarge, len(request)), hint)
	}
	if len(response) > MaxAutoResponse {
		return s.fail("set auto response", fmt.Errorf("%w: the response has %d bytes", ErrTooLarge, len(response)), hint)
	}
	if !utf8.ValidString(request) || !utf8.ValidString(response) {
		return s.fail("set auto response", fmt.Errorf("%w: the request or the response", ErrText), "both are text messages")
	}
	return s.autoResponse(&autoResponse{request, response})
}

// ClearAutoResponse ends what SetAutoResponse began.
func (s *State) ClearAutoResponse() error { return s.autoResponse(nil) }

func (s *State) autoResponse(a *autoResponse) error {
	t, err := s.holder()
	if err != nil {
		return err
	}
	if set := s.inc.h.sockets.answer(s.inc, a); set != nil {
		t.out(func() { set.auto.Store(a) })
	}
	return nil
}

// AutoResponse is what SetAutoResponse has set; ok: it has.
func (s *State) AutoResponse() (request, response string, ok bool) {
	if _, err := s.holder(); err != nil {
		return "", "", false
	}
	if a := s.inc.h.sockets.answers(s.inc.id); a != nil {
		return a.request, a.response, true
	}
	return "", "", false
}

// Tags are those that it was accepted with.
func (w *WebSocket) Tags() []string { return slices.Clone(w.c.tags) }

// Send sends a text message. It leaves when what the object has written is durable.
//
// When more than [Web].MaxUnsent bytes wait for the client, each message counted with
// 64 more than it has, the WebSocket is closed
// with code 1013, and Send fails with an error that wraps ErrSlow: a client is cut off
// rather than left with a gap that it can't see.
func (w *WebSocket) Send(text string) error { return w.send(Message{Data: []byte(text)}) }

// SendBinary sends a binary message: see Send.
func (w *WebSocket) SendBinary(data []byte) error { return w.send(Message{true, slices.Clone(data)}) }

func (w *WebSocket) send(m Message) error {
	t, err := w.s.holder()
	if err != nil {
		return err
	}
	if !m.Binary && !utf8.Valid(m.Data) {
		return w.s.fail("send", fmt.Errorf("%w: a text message", ErrText), "SendBinary sends any bytes")
	}
	most := w.s.inc.h.o.Web.MaxUnsent
	if len(m.Data) > most {
		return w.s.fail("send", fmt.Errorf("%w: a message of %d bytes, and %d is the most that may wait for a client", ErrTooLarge, len(m.Data), most), "send it in parts")
	}
	switch ok, err := w.c.hold(len(m.Data), most); {
	case err != nil:
		return w.s.fail("send", err, "")
	case !ok:
		w.c.push(frame{close: true, code: 1013, text: "The client takes too little of what is sent to it."})
		return w.s.fail("send", fmt.Errorf("%w: more than %d bytes wait for it", ErrSlow, most), "the client has to connect again")
	}
	t.out(func() { w.c.push(frame{m: m}) })
	return nil
}

// Close closes it when what was sent before is sent, and what the object has written
// is durable. The object is told when the client has answered. Code is 1000, or 3000
// to 4999 for a meaning of the application's own, or another that the protocol lets
// endpoints send; reason has at most 123 bytes.
func (w *WebSocket) Close(code int, reason string) error {
	t, err := w.s.holder()
	if err != nil {
		return err
	}
	switch {
	case code < 1000 || code > 4999 || code >= 1004 && code <= 1006 || code > 1014 && code < 3000:
		return w.s.fail("close", fmt.Errorf("%w: the code is %d", ErrClose, code), "1000 is a normal end; 3000 to 4999 are free")
	case len(reason) > maxReason:
		return w.s.fail("close", fmt.Errorf("%w: the reason has %d bytes", ErrClose, len(reason)), "at most 123 fit in a frame")
	case !utf8.ValidString(reason):
		return w.s.fail("close", fmt.Errorf("%w: the reason", ErrText), "")
	}
	if w.c.closing() {
		t.out(func() { w.c.push(frame{close: true, code: code, text: reason}) })
	}
	return nil
}

// Open: neither side has closed it.
func (w *WebSocket) Open() bool { return w.c.isOpen() }

// Attach keeps a value with the WebSocket, as JSON of at most MaxAttachment bytes. It
// lasts as long as the WebSocket.
func (w *WebSocket) Attach(v any) error {
	if _, err := w.s.holder(); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	switch {
	case err != nil:
		return w.s.fail("attach", err, "")
	case len(b) > MaxAttachment:
		return w.s.fail("attach", fmt.Errorf("%w: an attachment of %d bytes", ErrTooLarge, len(b)), fmt.Sprintf("at most %d; what is larger belongs into storage", MaxAttachment))
	}
	w.c.mu.Lock()
	w.c.attachment = b
	w.c.mu.Unlock()
	return nil
}

// Attachment decodes what Attach has kept into v, a pointer; false: nothing is kept.
func (w *WebSocket) Attachment(v any) (ok bool, err error) {
	w.c.mu.Lock()
	b := w.c.attachment
	w.c.mu.Unlock()
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return true, w.s.fail("attachment", err, "")
	}
	return true, nil
}

// AutoResponded is when the host last answered by itself; zero: it never has.
func (w *WebSocket) AutoResponded() time.Time {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.c.responded
}

// arrival is the event of what came in on a WebSocket.
type arrival struct {
	c      *socket
	m      Message
	closed *Close
	failed error // it ended with an error that is the client's fault
}

// Size implements [Sized].
func (a *arrival) Size() int { return len(a.m.Data) }

// last: nothing comes after it.
func (a *arrival) last() bool { return a.closed != nil || a.failed != nil }

// enter serves incoming.
func (a *arrival) enter(t *Turn, obj any, s *State) {
	if !a.last() {
		a.c.handled(len(a.m.Data))
	}
	if !a.c.kept() {
		return // by an incarnation that was reset
	}
	ws := &WebSocket{s, a.c}
	var tell func(ctx context.Context) error
	if o, ok := obj.(WebSocketCloser); ok && a.closed != nil {
		tell = func(ctx context.Context) error { return o.WebSocketClose(ctx, ws, *a.closed) }
	}
	if o, ok := obj.(WebSocketFailer); ok && a.failed != nil {
		tell = func(ctx context.Context) error { return o.WebSocketError(ctx, ws, a.failed) }
	}
	if o, ok := obj.(WebSocketMessager); ok && !a.last() {
		tell = func(ctx context.Context) error { return o.WebSocketMessage(ctx, ws, a.m) }
	}
	if tell == nil {
		if a.last() {
			a.c.remove()
		}
		return
	}
	s.begin(t.Context(), t, nil, func(ctx context.Context) func(*Turn) {
		err := tell(ctx)
		return func(t *Turn) {
			if err != nil {
				t.inc.h.log.Warn("what a WebSocket brought was not handled", "object", t.ID().String(), "epoch", t.Epoch(), "error", err)
			}
			if a.last() {
				a.c.remove()
			}
		}
	})
}
