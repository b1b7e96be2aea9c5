package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Resumer is the client of one session, while its host is broken and killed. It reads
// streams and comes back to them as the official TypeScript client does, holds a GET
// open all the time, and keeps all that it has seen for a judge. It never fails a test
// by itself.
type Resumer struct {
	C    Client // its session and version are set when it is open
	name string // its requests' ids begin with it, so that no two clients have the same

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	calls []*Attempt
	byID  map[string]*Attempt
	seen  []Sighting
	bad   []string
	ended bool // the session
}

// pause is how long a resumer waits before it comes back to a stream.
const pause = 50 * time.Millisecond

// Attempt is one request.
type Attempt struct {
	ID   string // as JSON
	Tool string // that it calls; empty: none
	Want string // the text of its result; empty: any number
	post *post
	// answered is closed by the first answer.
	answered chan struct{}
}

// post is what one POST has carried, and how that went. It is guarded by the mutex of
// its resumer.
type post struct {
	attempts []*Attempt
	begun    time.Time
	fate     fate
	stream   string    // as far as the client knows it
	broke    bool      // its body has ended without all answers
	left     time.Time // when the client stopped reading
}

// lost: nobody can tell whether it was accepted, or it is an initialize of which the
// client has no event: it can't come back to that, and has no other stream yet.
func (p *post) lost() bool {
	return p.fate == unsure || p.broke && p.stream == "" && p.attempts[0].Tool == ""
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

// Sighting is an event that came to a client.
type Sighting struct {
	at    time.Time
	place place
	of    *post // or the one whose stream was resumed; nil on a GET
	frame Frame
	m     Message
}

// NewResumer makes a resumer of a client that may have a session. It ends with ctx, or
// by End.
func NewResumer(ctx context.Context, c *Client, name string) *Resumer {
	r := &Resumer{C: *c, name: name, byID: map[string]*Attempt{}}
	r.ctx, r.stop = context.WithCancel(ctx)
	return r
}

// Open opens a session, and listens. It tries until it has one.
func (r *Resumer) Open(version string) error {
	for r.Sleep() {
		x, err := r.C.Do(r.ctx, http.MethodPost, Initialize("0", version), nil)
		if err != nil {
			continue
		}
		var m Message
		for f := range x.Frames {
			if f.Data != "" {
				_ = unmarshal(f.Data, &m) // what is no message is no result
			}
		}
		if r.C.Session = x.Header.Get("Mcp-Session-Id"); m.Result == nil || r.C.Session == "" {
			r.C.Session = ""
			continue
		}
		r.C.Version = version
		r.Tell(Notification("notifications/initialized"))
		r.Listen()
		return nil
	}
	return r.ctx.Err()
}

// Tell sends what has no answer, until somebody has taken it. It returns the status; 0
// when the resumer has ended.
func (r *Resumer) Tell(body string) (status int) {
	for r.Sleep() {
		x, err := r.C.Do(r.ctx, http.MethodPost, body, nil)
		if err == nil {
			x.Close()
			return x.Status
		}
	}
	return 0
}

// End leaves, and returns when nothing more can come.
func (r *Resumer) End() {
	r.stop()
	r.running.Wait()
}

// Call calls a tool. It returns when it is known what becomes of the request: it may
// be answered later.
func (r *Resumer) Call(tool, arguments, want string, progress bool) *Attempt {
	a := r.Attempt(tool, want)
	body := Call(a.ID, tool, arguments)
	if progress {
		body = CallWithToken(a.ID, tool, arguments, a.ID)
	}
	r.Post(body, a)
	return a
}

// Attempt makes a request, which has an id that no other has.
func (r *Resumer) Attempt(tool, want string) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &Attempt{ID: fmt.Sprintf(`"%s.%d"`, r.name, len(r.calls)), Tool: tool, Want: want, answered: make(chan struct{})}
	r.calls = append(r.calls, a)
	r.byID[a.ID] = a
	return a
}

// Post posts requests until somebody has taken the connection.
func (r *Resumer) Post(body string, attempts ...*Attempt) {
	p := &post{attempts: attempts, begun: time.Now()}
	for _, a := range attempts {
		a.post = p
	}
	for {
		x, err := r.C.Do(r.ctx, http.MethodPost, body, nil)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) && r.Sleep():
			continue // nobody has seen it
		case err != nil:
			r.set(p, unsure)
		case x.Status == http.StatusServiceUnavailable:
			r.set(p, refused)
			x.Close()
		default:
			r.set(p, accepted)
			if r.C.Session == "" {
				r.C.Session = x.Header.Get("Mcp-Session-Id")
			}
			r.running.Go(func() { r.follow(x, p) })
		}
		return
	}
}

func (r *Resumer) set(p *post, f fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.fate, p.left = f, time.Now()
}

// Gone is when the connection of an attempt's POST broke, if the client has nothing to
// come back with.
func (r *Resumer) Gone(a *Attempt) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.post.lost() {
		return a.post.left
	}
	return time.Time{}
}

// fateOf is what the client knows of an attempt's.
func (r *Resumer) fateOf(a *Attempt) fate {
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

func (r *Resumer) Sleep() bool {
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
func (r *Resumer) follow(x *Exchange, p *post) {
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
		if x == nil || x.Status == http.StatusNoContent {
			return
		}
		last, done = r.read(x, where, p)
	}
}

// Listen holds a GET open from here on.
func (r *Resumer) Listen() {
	r.running.Go(func() {
		for last := ""; ; {
			x := r.get(last, nil)
			switch {
			case x == nil:
				return
			case x.Status == http.StatusNoContent:
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
func (r *Resumer) get(after string, p *post) *Exchange {
	for r.Sleep() {
		x, err := r.C.Do(r.ctx, http.MethodGet, "", map[string]string{"Last-Event-ID": after})
		switch {
		case err != nil:
			continue
		case x.Status == http.StatusOK, x.Status == http.StatusNoContent && after != "":
			return x
		case x.Status == http.StatusNotFound && p != nil && p.answered():
			x.Close()
			return nil
		case x.Status != http.StatusServiceUnavailable && !(x.Status == http.StatusNotFound && r.isOver()):
			r.fault("GET after %q: status %d", after, x.Status)
		}
		x.Close()
	}
	return nil
}

// read reads a body to its end. It returns the last event's id, and whether there was
// a result.
func (r *Resumer) read(x *Exchange, where place, p *post) (last string, result bool) {
	for f := range x.Frames {
		if f.ID != "" {
			last = f.ID
		}
		s := Sighting{at: time.Now(), place: where, of: p, frame: f}
		if f.Data != "" {
			if err := unmarshal(f.Data, &s.m); err != nil {
				r.fault("on %v: %v: %.100q", where, err, f.Data)
				continue
			}
			result = result || s.m.Result != nil
		}
		r.saw(s)
	}
	if where == onPost && x.Status != http.StatusOK && !p.answered() {
		r.fault("the POST of %s: status %d", p.attempts[0].ID, x.Status)
	}
	return last, result
}

func (r *Resumer) saw(s Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.place == onPost && s.of.stream == "" && s.frame.ID != "" {
		s.of.stream = streamOf(s.frame.ID)
	}
	if s.frame.Data == "" {
		return
	}
	r.seen = append(r.seen, s)
	if a := r.byID[string(s.m.ID)]; a != nil && s.m.Method == "" && !closed(a.answered) {
		close(a.answered)
	}
}

func (r *Resumer) fault(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.bad = append(r.bad, fmt.Sprintf(format, a...))
	}
}

// Over says that the session is about to end: it may not be found any more.
func (r *Resumer) Over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func (r *Resumer) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Account is what a judge gets.
func (r *Resumer) Account() Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Account{Calls: r.calls, Seen: r.seen, Bad: r.bad}
}

// Answered: the first answer has come.
func (a *Attempt) Answered() bool { return closed(a.answered) }

// Answer is the first answer to an attempt.
func (r *Resumer) Answer(a *Attempt) Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if s.m.Method == "" && string(s.m.ID) == a.ID {
			return s.m
		}
	}
	return Message{}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
