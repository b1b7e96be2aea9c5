package sim

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/storage"
)

// Lane is a party to the life of a request.
type Lane string

// The lanes, from the outside to the inside. A moment of the World's concerns all.
const (
	AtClient  Lane = "client"
	AtFront   Lane = "front"
	AtSession Lane = "session"
	AtRuntime Lane = "runtime"
	AtDisk    Lane = "disk"
	AtWorld   Lane = ""
)

// Moment is one step of a tale: something that goes from one lane to another, or, when
// they are the same, that happens there.
type Moment struct {
	At       time.Duration // since the start of the world
	From, To Lane
	Text     string
	Bad      bool // a reset, a refusal, a loss
}

// Tale is the life of one request.
type Tale struct {
	Client, Tool, ID string
	Outcome          string
	Moments          []Moment
}

// tales keeps what happens to each request, until one is chosen. It is nil, and does
// nothing, in a world that is not recorded.
type tales struct {
	w       *World
	streams map[string]string          // what request a POST's stream is of
	sockets map[*session.Socket]string // and a front's socket
	moments []told
}

// told is a moment, and whose it is: of a request, or else of a session, or else of
// all.
type told struct {
	Moment
	n, session string
	isolate    string // all of its sessions'; empty for any
}

func newTales(w *World) *tales {
	return &tales{w: w, streams: map[string]string{}, sockets: map[*session.Socket]string{}}
}

func (t *tales) tell(n, session string, from, to Lane, bad bool, format string, a ...any) {
	if t == nil {
		return
	}
	at := t.w.s.now.Sub(t.w.start)
	t.moments = append(t.moments, told{Moment: Moment{at, from, to, fmt.Sprintf(format, a...), bad}, n: n, session: session})
}

// world tells of what concerns all.
func (t *tales) world(text string) { t.tell("", "", AtWorld, AtWorld, true, "%s", text) }

// isolate tells of what concerns all that live in one.
func (t *tales) isolate(n, text string) {
	if t != nil {
		t.tell("", "", AtSession, AtSession, true, "%s", text)
		t.moments[len(t.moments)-1].isolate = n
	}
}

// request is the one that a POST's stream is of. Sessions put a letter before the id that
// a front has minted.
func (t *tales) request(stream string) string {
	if n := t.streams[stream]; n != "" || stream == "" {
		return n
	}
	return t.streams[stream[1:]]
}

// of tells of a request.
func (t *tales) of(n string, from, to Lane, format string, a ...any) {
	if n != "" {
		t.tell(n, "", from, to, false, format, a...)
	}
}

// answered tells what a client was told.
func (t *tales) answered(r *request, ownStream bool) {
	where := ""
	if !ownStream {
		where = ", on another stream"
	}
	t.tell(r.n, "", AtClient, AtClient, r.lost != nil, "%s%s", r.outcome(), where)
}

func (r *request) outcome() string {
	switch {
	case r.lost != nil:
		return fmt.Sprintf("lost: %s, started %v", r.lost.Reason, r.lost.Started)
	case r.answers > 0 && r.value == "":
		return "answered with an error"
	case r.answers > 0:
		return "answered: " + r.value
	case r.refused:
		return "refused"
	}
	return "not answered"
}

// flushed tells of the events that a front sends.
func (t *tales) flushed(b []byte) {
	if t == nil {
		return
	}
	for event := range strings.SplitSeq(string(b), "\n\n") {
		var id, data string
		for line := range strings.SplitSeq(event, "\n") {
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				id = v
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = v
			}
		}
		e, err := session.ParseEventID(id)
		n := t.request(e.Stream)
		if err != nil || n == "" {
			continue
		}
		what, bad := content(data)
		if session.IsTold(id) {
			what += ", as the front's last resort"
		}
		t.tell(n, "", AtFront, AtClient, bad, "event %s: %s", position(e), what)
	}
}

// content says what a message is.
func content(data string) (what string, bad bool) {
	switch m := gjson.Parse(data); {
	case data == "":
		return "its id", false
	case m.Get("error").Exists():
		return "error " + m.Get("error.code").String(), true
	case m.Get("result").Exists():
		return "result", false
	case m.Get("method").Exists():
		return m.Get("method").String(), false
	}
	return "?", true
}

// position is the place of an event in its stream.
func position(e session.EventID) string { return epoch(e.Epoch) + "/" + fmt.Sprint(e.Seq) }

// epoch is an epoch as people can compare it: the host's start, and the count within.
func epoch(e uint64) string { return fmt.Sprintf("%d.%d", e>>32, e&0xffffffff) }

// taleSessions is what a front sees of the sessions, and tells of it.
type taleSessions struct {
	session.Sessions
	t *tales
}

func (s taleSessions) Send(ctx context.Context, id string, event session.Event) error {
	t := s.t
	switch e := event.(type) {
	case *session.Post:
		if len(e.Messages) == 1 {
			if n := gjson.GetBytes(e.Messages[0].Params(), "arguments.n").String(); n != "" {
				t.streams[e.Stream], t.sockets[e.Socket] = n, n
				t.of(n, AtFront, AtSession, "Post")
			}
		}
	case *session.Attach:
		if n := t.request(e.Post.Stream); n != "" {
			t.sockets[e.Socket] = n
			t.of(n, AtFront, AtSession, "Attach%s", after(e.After))
		}
	case *session.Get:
		if at, err := session.ParseEventID(e.After); err == nil && t.request(at.Stream) != "" {
			t.sockets[e.Socket] = t.request(at.Stream)
			t.of(t.request(at.Stream), AtFront, AtSession, "Get%s", after(e.After))
		}
	case *session.Expire:
		t.of(t.request(e.Stream), AtFront, AtSession, "Expire: it has taken too long")
	case *session.Flushed:
		if at, err := session.ParseEventID(e.Event); err == nil && t.request(at.Stream) != "" {
			t.of(t.request(at.Stream), AtFront, AtSession, "Flushed up to %s", position(at))
		}
	case *session.Gone:
		if n := t.sockets[e.Socket]; n != "" {
			t.of(n, AtFront, AtSession, "Gone: the client has left")
		}
	}
	return s.Sessions.Send(ctx, id, event)
}

func after(event string) string {
	if e, err := session.ParseEventID(event); err == nil {
		return " after event " + position(e)
	}
	return ""
}

// taleStore is the store that a host writes to, and tells of it.
type taleStore struct {
	storage.Store
	t *tales
}

func (s taleStore) Claim(id storage.ID, done func(uint64, bool, error)) {
	s.Store.Claim(id, func(e uint64, fresh bool, err error) {
		if err == nil {
			s.t.tell("", id.Name, AtSession, AtSession, false, "incarnation %s begins", epoch(e))
		}
		done(e, fresh, err)
	})
}

func (s taleStore) Release(id storage.ID, e uint64) {
	s.t.tell("", id.Name, AtSession, AtSession, true, "incarnation %s ends", epoch(e))
	s.Store.Release(id, e)
}

func (s taleStore) Submit(b *storage.Batch, done func(error)) {
	about := s.t.batch(b)
	for _, r := range about {
		s.t.of(r.n, AtSession, AtDisk, "commit: %s", r.what)
	}
	s.Store.Submit(b, func(err error) {
		for _, r := range about {
			if err != nil {
				s.t.tell(r.n, "", AtDisk, AtSession, true, "refused: %v", err)
			} else {
				s.t.of(r.n, AtDisk, AtSession, "durable")
			}
		}
		done(err)
	})
}

// rowsOf is what a batch does to a request.
type rowsOf struct{ n, what string }

// batch says what a batch does to requests. What is known here of a session's keys is
// that the ledger's begin with q/ and events with e/, and that the stream follows.
func (t *tales) batch(b *storage.Batch) (about []rowsOf) {
	say := func(key, ledger, event string) {
		kind, rest, _ := strings.Cut(key, "/")
		stream, _, _ := strings.Cut(rest, "/")
		n, what := t.request(stream), map[string]string{"q": ledger, "e": event}[kind]
		if n == "" || what == "" {
			return
		}
		if i := slices.IndexFunc(about, func(r rowsOf) bool { return r.n == n }); i >= 0 {
			about[i].what += ", " + what
			return
		}
		about = append(about, rowsOf{n, what})
	}
	for _, e := range b.Puts {
		say(e.Key, "ledger row", "event")
	}
	for _, key := range b.Deletes {
		say(key, "row discharged", "")
	}
	if a := b.Alarm; a != nil && !a.At.IsZero() {
		for i := range about {
			about[i].what += ", alarm at " + clockTime(a.At.Sub(t.w.start))
		}
	}
	return about
}

// clockTime is a time since the start of a world, as pictures and tales show it.
func clockTime(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// tale is the life of the request that is most worth looking at; nil when there was
// none.
func (t *tales) tale() *Tale {
	r := t.worth()
	if r == nil {
		return nil
	}
	from := r.sent.Sub(t.w.start)
	to := t.w.s.now.Sub(t.w.start)
	if r.answers > 0 {
		to = r.done.Sub(t.w.start)
	}
	isolate := ""
	if t.w.host.actors != nil {
		isolate = fmt.Sprint(t.w.isolateOf(r.client.session))
	}
	tale := &Tale{Client: fmt.Sprintf("%s (%s)", r.client.name, r.client.kind), Tool: r.tool, ID: r.id, Outcome: r.outcome()}
	for _, m := range t.moments {
		switch {
		case m.At < from, m.At > to && m.n != r.n, m.At > to+time.Second:
		case m.isolate != "" && m.isolate != isolate:
		case m.n == r.n, m.n == "" && (m.session == "" || m.session == r.client.session):
			tale.Moments = append(tale.Moments, m.Moment)
		}
	}
	return tale
}

var numbered = regexp.MustCompile(`request (n[0-9]+)`)

// worth chooses: the request that a violation speaks of, else the first that a reset has
// lost after it had begun, else the first that was lost, else the first that has reported
// progress.
func (t *tales) worth() *request {
	if v := t.w.history.violated; v != nil {
		if m := numbered.FindStringSubmatch(v.Text); m != nil && t.w.history.byN[m[1]] != nil {
			return t.w.history.byN[m[1]]
		}
	}
	for _, want := range []func(r *request) bool{
		func(r *request) bool {
			return r.lost != nil && r.runs > 0 && r.lost.Started && r.last == 0 && isCause(r.lost.Reason)
		},
		func(r *request) bool { return r.lost != nil },
		func(r *request) bool { return r.tool == "stream" && r.answers > 0 },
		func(r *request) bool { return r.answers > 0 },
	} {
		for _, r := range t.w.history.requests {
			if r.tool != "initialize" && want(r) {
				return r
			}
		}
	}
	return nil
}

func isCause(reason string) bool { _, err := actor.ParseCause(reason); return err == nil }
