package actor

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/alarm"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// ErrClientGone: nobody takes the response, or the WebSocket's frames, any more.
var ErrClientGone = errors.New("the client has gone away")

// HeaderCause names, in a response that is the host's own, what has become of the
// object: see [Cause.String].
const HeaderCause = "Kalpa-Cause"

// ServeHTTP passes a request to the object, whose *T has to be an [http.Handler].
// It is an event like any other: it runs in turns, and no byte of the response
// leaves before what the object has written until then is durable.
//
// The object gets the whole body with the request: slow clients hold up nothing.
// What its handler writes leaves at its awaits, at its end and with
// [http.ResponseController.Flush], which makes a commit of what has been written so
// far. A Write that finds [Web].MaxUnsent bytes waiting for the client awaits, as
// State.Await does. The request's context ends with the client's connection, and
// with the incarnation.
//
// When the object is reset, and nothing has been sent, the response is a 503 or, where
// sending the request again is not likely to help, a 500, and its header Kalpa-Cause
// says why. When something has been sent the connection is broken, by
// [http.ErrAbortHandler]. A request that is known not to have begun when its object
// was reset for a transient cause is passed on again.
func (s Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.pass(w, r, r.URL) }

// pass is ServeHTTP for a request that the object sees at another address.
func (s Stub) pass(w http.ResponseWriter, r *http.Request, at *url.URL) {
	if s.h == nil {
		http.Error(w, errNoHost.Error()+"; a stub comes from Host.Stub", http.StatusInternalServerError)
		return
	}
	w, r, over := s.h.observe(w, r, s.id)
	if over != nil {
		defer over()
	}
	up := linkOf(r.Context())
	if err := up.admit(s.id); err != nil {
		s.h.refuse(w, err)
		return
	}
	me := up.holder()
	if me == nil {
		s.serve(r.Context(), w, r, at, up)
		return
	}
	var aborted any
	if err := me.Await(r.Context(), func(ctx context.Context) error {
		defer func() { aborted = recover() }() // the baton comes first
		s.serve(ctx, w, r, at, up)
		return nil
	}); err != nil {
		s.h.refuse(w, err)
	} else if aborted != nil {
		panic(aborted)
	}
}

func (s Stub) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, at *url.URL, up *link) {
	body, ok := s.h.readBody(w, r)
	if !ok {
		return
	}
	if body != nil {
		defer s.h.bodies.Add(-int64(cap(body)))
	}
	begun := s.h.o.Clock.Now()
	for n := 1; ; n++ {
		x := &exchange{h: s.h, id: s.id, r: r, at: at, body: body, up: up, wake: s.h.o.Runner.Signal()}
		end, err := x.run(ctx, w)
		if end != undelivered {
			return
		}
		pause, again := again(n, s.h.o.Clock.Now().Sub(begun), err, false, false, alarm.Jitter(s.id, n))
		if !again || !s.h.sleep(ctx, pause) {
			s.h.refuse(w, err)
			return
		}
	}
}

// run passes the exchange's request to the object and writes what comes back, to
// its end.
func (x *exchange) run(ctx context.Context, w http.ResponseWriter) (outcome, error) {
	if err := x.h.send(x.id, envelope{event: x}); err != nil {
		return undelivered, err
	}
	defer x.left()
	rc := http.NewResponseController(w)
	sent := false
	for {
		if !run.WaitDone(ctx, x.h.o.Runner, x.wake) {
			x.lose(context.Cause(ctx))
		}
		parts, end, err, gone := x.take()
		for _, p := range parts {
			if gone {
				break
			}
			sent = true
			_ = rc.SetWriteDeadline(x.h.patience()) // recorders have none
			if err := p.write(w, rc); err != nil {
				x.lose(err)
				gone = true
			}
			x.taken(len(p.bytes))
		}
		switch {
		case gone:
			return answered, nil
		case end == under:
		case end == undelivered:
			return end, err
		case end == lost && sent, end == answered && err != nil:
			panic(http.ErrAbortHandler)
		case end == lost:
			x.h.refuse(w, err)
			return end, err
		case x.upgrade != nil:
			x.connect(w)
			return end, nil
		default:
			return end, nil
		}
	}
}

// refuse answers for an object that did not. What it says of the object is the
// cause: what is behind that is not for everybody.
func (h *Host) refuse(w http.ResponseWriter, err error) {
	status, cause, text := http.StatusInternalServerError, CauseOf(err), "The object could not be reached."
	switch {
	case errors.Is(err, ErrNoClass):
		status, text = http.StatusNotFound, "There is no class of that name."
	case errors.Is(err, storage.ErrInvalid):
		status, text = http.StatusBadRequest, "That is not the name of an object: it has 1 to "+strconv.Itoa(storage.MaxName)+" bytes of UTF-8, none of them zero."
	case errors.Is(err, ErrCycle), errors.Is(err, ErrTooDeep):
		status, text = http.StatusLoopDetected, "Objects that wait for one another call in a circle."
	case cause != NoCause:
		text = cause.Sentence()
		w.Header().Set(HeaderCause, cause.String())
		if cause.Transient() || cause.Retryable() || cause.Overloaded() {
			status = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		}
	}
	if status >= http.StatusInternalServerError {
		h.log.Warn("a request was not answered by its object", "status", status, "error", err)
	}
	http.Error(w, text, status)
}

// readBody reads the body of a request, and answers itself if it can't. The capacity
// of what it returns counts in bodies.
func (h *Host) readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, true
	}
	most := h.o.Web.MaxBody
	if r.ContentLength > most {
		w.Header().Set("Connection", "close")
		http.Error(w, "The body is larger than "+strconv.FormatInt(most, 10)+" bytes.", http.StatusRequestEntityTooLarge)
		return nil, false
	}
	_ = http.NewResponseController(w).SetReadDeadline(h.patience()) // recorders have none
	in := http.MaxBytesReader(w, r.Body, most)
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength, 64<<10) + 1 // one more, to see the end without growing
	}
	for {
		if h.bodies.Add(size-int64(cap(body))) > h.o.Web.MaxBodies {
			h.bodies.Add(-size)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "The host holds as many requests as it can. Send it again a little later.", http.StatusServiceUnavailable)
			return nil, false
		}
		body = append(make([]byte, 0, size), body...)
		for len(body) < cap(body) {
			n, err := in.Read(body[len(body):cap(body)])
			body = body[:len(body)+n]
			if err == io.EOF {
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
				return body, true
			}
			if err == nil {
				continue
			}
			h.bodies.Add(-size)
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				http.Error(w, "The body is larger than "+strconv.FormatInt(most, 10)+" bytes.", http.StatusRequestEntityTooLarge)
			} else {
				http.Error(w, "The body did not come to its end.", http.StatusBadRequest)
			}
			return nil, false
		}
		size = min(2*size, most+1)
	}
}

// patience is when a client that does nothing is cut off.
func (h *Host) patience() time.Time {
	return time.Now().Add(h.o.Web.Patience) //nolint:forbidigo // deadlines of connections are the system clock's
}

// exchange is a request on its way to an object, and the response on its way back:
// the object's side gives parts of it through the output gate, and the side that has
// the connection takes them.
type exchange struct {
	h    *Host
	id   storage.ID
	r    *http.Request
	at   *url.URL // the address as the object sees it
	body []byte
	up   *link
	wake run.Signal // of the connection's side

	mu      sync.Mutex
	end     outcome
	err     error
	parts   []part
	room    run.Signal // of the object's side, once it waits for the client
	unsent  int        // bytes that the object has written and the client has not taken
	gone    error
	context *requestContext // nil: it has not begun
	upgrade *socket
	done    bool // the connection's side has left
}

// part is some of a response.
type part struct {
	status int // 0: not the first
	header http.Header
	bytes  []byte
	flush  bool
}

func (p *part) write(w http.ResponseWriter, rc *http.ResponseController) error {
	if p.status != 0 {
		maps.Copy(w.Header(), p.header)
		w.WriteHeader(p.status)
	}
	if len(p.bytes) > 0 {
		if _, err := w.Write(p.bytes); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			return err
		}
	}
	if p.flush {
		if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// enter serves incoming.
func (x *exchange) enter(t *Turn, obj any, s *State) {
	w := &response{x: x}
	var ok bool
	if w.handler, ok = obj.(http.Handler); !ok {
		http.Error(w, "Objects of this class do not serve HTTP.", http.StatusNotImplemented)
		t.out(func() { x.finish(answered, nil) })
		return
	}
	w.hook.register(t.inc, x)
	w.ctx.init(t.Context(), x.r.Context())
	x.mu.Lock()
	x.context = &w.ctx
	if x.gone != nil {
		w.ctx.end(x.gone)
	}
	x.mu.Unlock()
	w.task.init(&w.ctx, s, t, x.up)
	w.me = &w.task.link
	w.task.does(w)
}

// lost says that the object was reset after the request had begun.
func (x *exchange) lost(err error) { x.finish(lost, err) }

// undelivered says that it has not begun.
func (x *exchange) undelivered(err error) { x.finish(undelivered, err) }

// pass adds parts that may leave; last: nothing follows, the handler has returned, and
// err is with what.
func (x *exchange) pass(parts []part, last bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.end != under:
		return
	case x.gone != nil:
	case x.parts == nil:
		x.parts = parts
	default:
		x.parts = append(x.parts, parts...)
	}
	if last {
		x.over(answered, err)
	}
	x.wake.Set()
}

// finish ends the exchange. The first end counts.
func (x *exchange) finish(end outcome, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end == under {
		x.over(end, err)
		x.wake.Set()
	}
}

// over is called with the lock.
func (x *exchange) over(end outcome, err error) {
	x.end, x.err = end, err
	x.makeRoom()
	if x.done && x.upgrade != nil {
		x.upgrade.lost()
	}
}

func (x *exchange) take() (parts []part, end outcome, err error, gone bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	parts, x.parts = x.parts, nil
	return parts, x.end, x.err, x.gone != nil
}

// taken says that the client has taken some bytes, as far as is known here.
func (x *exchange) taken(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unsent -= n
	x.makeRoom()
}

// makeRoom wakes the object's side, if that waits. Called with the lock.
func (x *exchange) makeRoom() {
	if x.room != nil {
		x.room.Set()
	}
}

// lose says that the client is gone.
func (x *exchange) lose(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone != nil {
		return
	}
	x.gone = errors.Join(ErrClientGone, err)
	if x.context != nil {
		x.context.end(x.gone)
	}
	x.wake.Set()
	x.makeRoom()
}

// left says that the connection's side is no longer there.
func (x *exchange) left() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	if x.end != under {
		run.Free(x.wake) // nobody sets it any more
	}
	if x.end == answered && x.upgrade != nil {
		x.upgrade.lost() // unless it is connected
	}
}

// held counts bytes that the object writes, if there is room for them.
func (x *exchange) held(n int) (ok bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.gone != nil:
		return false, x.gone
	case x.end != under:
		return false, x.err
	case x.unsent > 0 && x.unsent+n > x.h.o.Web.MaxUnsent:
		return false, nil
	}
	x.unsent += n
	return true, nil
}

// fits waits until there is room.
func (x *exchange) fits(n int) error {
	for {
		x.mu.Lock()
		gone, over := x.gone, x.end != under || x.unsent == 0 || x.unsent+n <= x.h.o.Web.MaxUnsent
		if x.room == nil {
			x.room = x.h.o.Runner.Signal()
		}
		room := x.room
		x.mu.Unlock()
		if gone != nil || over {
			return gone
		}
		room.Wait()
	}
}
