package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// resumer is the client of one session, while its host is broken and killed. It reads
// streams and comes back to them as the official TypeScript client does, holds a GET
// open all the time, and keeps all that it has seen for a judge. It never fails a test
// by itself.
type resumer struct {
	c    client
	name string // its requests' ids begin with it, so that no two clients have the same

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	calls []*attempt
	byID  map[string]*attempt
	seen  []sighting
	bad   []string
	ended bool // the session
}

// pause is how long a resumer waits before it comes back to a stream.
const pause = 50 * time.Millisecond

// attempt is one request.
type attempt struct {
	id   string // as JSON
	tool string // that it calls; empty: none
	want string // the text of its result; empty: any number
	post *post
	// answered is closed by the first answer.
	answered chan struct{}
}

// post is what one POST has carried, and how that went. It is guarded by the mutex of
// its resumer.
type post struct {
	attempts []*attempt
	begun    time.Time
	fate     fate
	stream   string    // as far as the client knows it
	broke    bool      // its body has ended without all answers
	left     time.Time // when the client stopped reading
}

// lost: nobody can tell whether it was accepted, or it is an initialize of which the
// client has no event: it can't come back to that, and has no other stream yet.
func (p *post) lost() bool {
	return p.fate == unsure || p.broke && p.stream == "" && p.attempts[0].tool == ""
}

// fate is what a client knows of a request's acceptance.
type fate int

const (
	unsure   fate = iota // the connection broke before there was an answer
	accepted             // 200
	refused              // 503: not accepted
)

// place is where something was seen.
type place int

const (
	onPost    place = iota // in the body of an attempt's POST
	onResumed              // in that of a GET that resumed its stream
	onGet                  // in that of any other GET
)

func (p place) String() string { return [...]string{"its POST", "its resumed stream", "a GET"}[p] }

// sighting is an event that came to a client.
type sighting struct {
	at    time.Time
	place place
	of    *post // or the one whose stream was resumed; nil on a GET
	frame frame
	m     message
}

// newResumer opens a session and listens.
func newResumer(t testing.TB, url, name, version string) *resumer {
	t.Helper()
	c := newClient(t, url)
	c.connect(version)
	r := resume(c, name)
	r.listen()
	return r
}

// resume makes a resumer of a client that may have a session.
func resume(c *client, name string) *resumer {
	r := &resumer{c: *c, name: name, byID: map[string]*attempt{}}
	r.ctx, r.stop = context.WithCancel(c.t.Context())
	c.t.Cleanup(r.end)
	return r
}

// end leaves, and returns when nothing more can come.
func (r *resumer) end() {
	r.stop()
	r.running.Wait()
}

// call calls a tool. It returns when it is known what becomes of the request: it may
// be answered later.
func (r *resumer) call(tool, arguments, want string, progress bool) *attempt {
	a := r.attempt(tool, want)
	body := call(a.id, tool, arguments)
	if progress {
		body = callWithToken(a.id, tool, arguments, a.id)
	}
	r.post(body, a)
	return a
}

// attempt makes a request, which has an id that no other has.
func (r *resumer) attempt(tool, want string) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &attempt{id: fmt.Sprintf(`"%s.%d"`, r.name, len(r.calls)), tool: tool, want: want, answered: make(chan struct{})}
	r.calls = append(r.calls, a)
	r.byID[a.id] = a
	return a
}

// post posts requests until somebody has taken the connection.
func (r *resumer) post(body string, attempts ...*attempt) {
	p := &post{attempts: attempts, begun: time.Now()}
	for _, a := range attempts {
		a.post = p
	}
	for {
		x, err := r.c.tryIn(r.ctx, http.MethodPost, body, nil)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) && r.sleep():
			continue // nobody has seen it
		case err != nil:
			r.set(p, unsure)
		case x.status == http.StatusServiceUnavailable:
			r.set(p, refused)
			x.close()
		default:
			r.set(p, accepted)
			if r.c.session == "" {
				r.c.session = x.header.Get("Mcp-Session-Id")
			}
			r.running.Go(func() { r.follow(x, p) })
		}
		return
	}
}

func (r *resumer) set(p *post, f fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.fate, p.left = f, time.Now()
}

// gone is when the connection of an attempt's POST broke, if the client has nothing to
// come back with.
func (r *resumer) gone(a *attempt) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.post.lost() {
		return a.post.left
	}
	return time.Time{}
}

// fate is what the client knows of an attempt's.
func (r *resumer) fate(a *attempt) fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.post.fate
}

func (p *post) answered() bool {
	for _, a := range p.attempts {
		if !closed(a.answered) {
			return false
		}
	}
	return true
}

func (r *resumer) sleep() bool {
	select {
	case <-r.ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// follow reads the stream of a POST to its end, and comes back to it as the official
// client does: when it has an event's id and no result. (That an error is an answer,
// too, it does not see. And when a stream that it has resumed breaks before it has
// given an id, it has forgotten where it was, and opens a stream like any other GET's.)
func (r *resumer) follow(x *exchange, p *post) {
	last, done := r.read(x, onPost, p)
	r.mu.Lock()
	p.broke, p.left = !p.answered(), time.Now()
	r.mu.Unlock()
	for comesBack := last != ""; comesBack && !done; {
		where := onResumed
		if last == "" {
			where = onGet
		}
		x := r.get(last, p)
		if x == nil || x.status == http.StatusNoContent {
			return
		}
		last, done = r.read(x, where, p)
	}
}

// listen holds a GET open from here on.
func (r *resumer) listen() {
	r.running.Go(func() {
		for last := ""; ; {
			x := r.get(last, nil)
			switch {
			case x == nil:
				return
			case x.status == http.StatusNoContent:
				r.fault("GET after %q: status 204 on a stream that never ends", last)
				last = ""
				continue
			}
			if id, _ := r.read(x, onGet, nil); id != "" {
				last = id
			}
		}
	})
}

// get opens or resumes a stream, after a while. It is nil when the resumer has ended, or
// when the stream of a POST is not found of which all has been answered: an initialize
// that was lost has ended its session.
func (r *resumer) get(after string, p *post) *exchange {
	for r.sleep() {
		x, err := r.c.tryIn(r.ctx, http.MethodGet, "", map[string]string{"Last-Event-ID": after})
		switch {
		case err != nil:
			continue
		case x.status == http.StatusOK, x.status == http.StatusNoContent && after != "":
			return x
		case x.status == http.StatusNotFound && p != nil && p.answered():
			x.close()
			return nil
		case x.status != http.StatusServiceUnavailable && !(x.status == http.StatusNotFound && r.isOver()):
			r.fault("GET after %q: status %d", after, x.status)
		}
		x.close()
	}
	return nil
}

// read reads a body to its end. It returns the last event's id, and whether there was
// a result.
func (r *resumer) read(x *exchange, where place, p *post) (last string, result bool) {
	for f := range x.frames {
		if f.id != "" {
			last = f.id
		}
		s := sighting{at: time.Now(), place: where, of: p, frame: f}
		if f.data != "" {
			if err := unmarshal(f.data, &s.m); err != nil {
				r.fault("on %v: %v: %.100q", where, err, f.data)
				continue
			}
			result = result || s.m.Result != nil
		}
		r.saw(s)
	}
	if where == onPost && x.status != http.StatusOK && !p.answered() {
		r.fault("the POST of %s: status %d", p.attempts[0].id, x.status)
	}
	return last, result
}

func (r *resumer) saw(s sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.place == onPost && s.of.stream == "" && s.frame.id != "" {
		s.of.stream = streamOf(s.frame.id)
	}
	if s.frame.data == "" {
		return
	}
	r.seen = append(r.seen, s)
	if a := r.byID[string(s.m.ID)]; a != nil && s.m.Method == "" && !closed(a.answered) {
		close(a.answered)
	}
}

func (r *resumer) fault(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.bad = append(r.bad, fmt.Sprintf(format, a...))
	}
}

// over says that the session is about to end: it may not be found any more.
func (r *resumer) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func (r *resumer) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// account is what a judge gets.
func (r *resumer) account() account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return account{calls: r.calls, seen: r.seen, bad: r.bad}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
