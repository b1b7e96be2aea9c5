package front

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// exchange is one HTTP request that a session answers. It belongs to the
// handler's goroutine, which runs it to its end.
type exchange struct {
	f      *Front
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context // the request's, without its end: for what must reach the session
	id     string          // the session's
	caller session.Caller

	// creates: the POST makes its session.
	creates bool
	// stream is the POST's, as it was minted; empty for other requests.
	stream string
	// batch: the POST's messages came in an array.
	batch bool
	// status answers a Final end without a stream; 0: the answer is a stream.
	status int
	// owes are the requests to be answered, nil where nothing ever is.
	owes owed
	// about is the id that refusals carry.
	about wire.ID
	// again makes the event that passes the exchange on to the next incarnation.
	again func(s *session.Socket, after string) session.Event

	// brief: the answer may be one JSON document, as long as nothing else has been said.
	brief bool
	held  []session.Frame // that only give event ids, while the exchange is brief
	told  bool            // it was answered by a document

	socket *session.Socket
	out    *sse   // nil until the session has opened the stream
	last   string // the last event that was written
	unsaid bool   // something is written that has not been flushed
	newer  bool   // last has not been confirmed to the session
	opened bool   // the session has taken the exchange
	// withheld: an answer that is not owed was kept back.
	withheld bool
	no       *Refusal

	span            trace.Span // of a POST; nil for all else, and when nobody takes spans
	outcome, reason string     // for it; empty: nothing out of the ordinary

	woken  run.Signal // there may be something to do
	wake   wake
	number uint64 // among the front's exchanges
	parked bool   // the front is closing, and has asked for this one to be parked

	openBy    time.Time // the session must have said what becomes of the exchange
	holdTill  time.Time // the head is flushed, though nothing has been said; zero: it waits for nothing
	quietTill time.Time // a keep-alive is due
	parkAt    time.Time // the stream is old
	expireAt  time.Time // what is owed has run out of time
	asked     asked
	link      link
}

func (f *Front) newExchange(w http.ResponseWriter, r *http.Request, caller session.Caller, id string) *exchange {
	x := &exchange{f: f, w: w, r: r, ctx: context.WithoutCancel(r.Context()), id: id, caller: caller, woken: f.o.Runner.Signal()}
	x.socket = x.newSocket()
	x.wake = wake{clock: f.o.Clock, ring: x.woken.Set}
	return x
}

func (x *exchange) newSocket() *session.Socket {
	s := session.NewSocket(x.f.o.Pending)
	s.OnReady(x.woken.Set)
	return s
}

// run sends the event and writes what the session answers, until the answer is
// complete, the client is gone or the exchange has to go on elsewhere. A Refusal
// is returned for the caller to write; then nothing has been written.
func (x *exchange) run(first session.Event) *Refusal {
	defer x.finish()
	x.openBy = x.now().Add(x.f.o.OpeningLimit)
	x.arm()
	if err := x.send(first); err != nil {
		return x.unsent(err)
	}
	x.f.add(x)
	defer x.f.remove(x)
	for over := false; !over; {
		run.WaitDone(x.r.Context(), x.f.o.Runner, x.woken)
		if over = x.look(); !over {
			x.arm()
		}
	}
	return x.no
}

// look does what there is to do, and tells whether the exchange is over. What is
// there already comes before what is late.
func (x *exchange) look() (over bool) {
	switch {
	case x.r.Context().Err() != nil:
		x.outcome = left
		x.gone()
		return true
	case x.take():
		return true
	case x.link.called() && x.attach():
		return true
	case x.wake.rang() && x.due():
		return true
	case !x.parked && x.f.isClosing():
		x.parked = true
		return x.park(session.LostTo(actor.Shutdown), x.retry())
	}
	return false
}

func (x *exchange) finish() {
	x.wake.stop()
	x.link.whole()
	if x.out != nil {
		x.out.close()
	}
}

func (x *exchange) now() time.Time { return x.f.o.Clock.Now() }

func (x *exchange) send(e session.Event) error { return x.f.o.Sessions.Send(x.ctx, x.id, e) }

// gone tells the session that nobody reads its socket any more.
func (x *exchange) gone() { _ = x.send(&session.Gone{Socket: x.socket}) } // a session that can't hear it holds no socket

// unsent is the answer when the session could not be reached in the first place:
// nothing has been accepted.
func (x *exchange) unsent(err error) *Refusal {
	if errors.Is(err, session.ErrUnknown) {
		return unknown(x.about)
	}
	if errors.Is(err, session.ErrTooMany) {
		return refuse(http.StatusTooManyRequests, x.about, wire.InternalError, "The session can't be opened: %v.", err).with("Retry-After", "60")
	}
	x.f.o.Logger.WarnContext(x.ctx, "session can't take a request", "server", x.f.o.Server, "session", x.id, "err", err)
	return busy(x.about, "The session can't take the request now: %v. It has not been executed; send it again in a moment.", err)
}

// take writes what the session has put into the socket, and tells whether the
// exchange is over.
func (x *exchange) take() (over bool) {
	d := x.socket.Take()
	if d.Opening != nil {
		if no := d.Opening.Refusal; no != nil {
			return x.refused(no)
		}
		x.opened = true
		again := !x.link.giveUp.IsZero()
		if d.Opening.Outcome != "" {
			x.w.Header().Set(headerOutcome, d.Opening.Outcome)
		}
		x.link.whole()
		if again && x.asked.waits() && x.ask() { // who was asked may be gone
			return true
		}
		if d.Opening.Streaming {
			x.openBy = time.Time{}
			switch {
			case x.brief:
				x.quietTill = x.now().Add(x.f.o.KeepAlive)
			case x.out == nil && x.owes != nil && x.f.o.Hold > 0:
				x.holdTill = x.now().Add(x.f.o.Hold)
				fallthrough
			default:
				x.start()
			}
		} else if x.openBy.IsZero() {
			x.openBy = x.now().Add(x.f.o.OpeningLimit)
		}
	}
	wrote, err := x.write(d.Frames)
	x.newer = x.newer || wrote
	x.unsaid = x.unsaid || wrote || d.Opening != nil && x.out != nil
	if err == nil && x.unsaid && (x.holdTill.IsZero() || d.End != nil) {
		if d.End != nil && d.End.Kind == session.Final && x.opened && !x.told {
			x.out.whole()
		}
		err = x.flush(d.End == nil || d.End.Kind != session.Broken)
	}
	if err != nil {
		x.cut(err)
		return true
	}
	if x.told {
		if d.End == nil {
			x.gone()
		}
		return true
	}
	if d.End == nil {
		return false
	}
	switch {
	case d.End.Kind == session.Final && x.opened:
		if x.out == nil && x.status != 0 {
			x.w.WriteHeader(x.status)
		} else {
			x.start()
		}
		if x.withheld {
			x.gone() // what was withheld is never confirmed
		}
		return true
	case d.End.Kind == session.Parked && x.opened:
		if x.unread() {
			x.alone(session.Lost(session.ReasonUnanswered)) // the socket is over: no answer could come on it
			return true
		}
		return x.park(session.Lost(session.ReasonUnanswered), d.End.Retry)
	default:
		return x.broken(d.End.Err)
	}
}

// start begins the stream if it has not begun.
func (x *exchange) start() {
	if x.out != nil {
		return
	}
	x.out = newSSE(x.w, x.id, x.f.o.WriteLimit)
	for _, f := range x.held {
		if x.out.event(f.ID, nil) == nil { // it is only gathered
			x.last = f.ID
		}
	}
	x.brief, x.held = false, nil
}

// write writes frames, and withholds an answer to what is not owed.
func (x *exchange) write(frames []session.Frame) (wrote bool, err error) {
	for _, f := range frames {
		if f.Answers != "" {
			request, owed := x.owes.answered(f.Answers)
			if !owed && x.owes != nil {
				x.withheld = true
				x.f.count.repeated.Add(1)
				x.f.o.Logger.ErrorContext(x.ctx, "answer to a request that is not owed withheld", "server", x.f.o.Server, "session", x.id, "event", f.ID, "request", f.Answers)
				continue
			}
			if x.f.o.At != nil {
				x.f.o.At(actor.BeforeFlush, x.id, request)
			}
		}
		switch {
		case x.brief && f.Answers == "" && len(f.Data) == 0:
			x.held = append(x.held, f)
			continue
		case x.brief && f.Answers != "":
			x.answer(f.Data)
			if err := x.reply(f.Data); err != nil {
				return wrote, err
			}
			wrote, x.told, x.last = true, true, f.ID
			return wrote, nil // it was all that was owed
		}
		x.start()
		if f.Answers != "" {
			x.answer(f.Data)
		}
		if len(x.owes) > 0 {
			x.holdTill = time.Time{} // else the end is about to come
		}
		if err := x.out.event(f.ID, f.Data); err != nil {
			return wrote, err
		}
		wrote, x.link.tries = true, 0
		if f.ID != "" {
			x.last = f.ID
		}
	}
	return wrote, nil
}

// flush sends what is written, and confirms that to a session that is there to hear
// it. From here on the next keep-alive is counted.
func (x *exchange) flush(there bool) error {
	x.quietTill, x.holdTill = x.now().Add(x.f.o.KeepAlive), time.Time{}
	if !x.told {
		if err := x.r.Context().Err(); err != nil {
			return err // the system would take it, and nobody would read it
		}
		if err := x.out.flush(); err != nil {
			return err
		}
	}
	if there && x.newer {
		_ = x.send(&session.Flushed{Socket: x.socket, Event: x.last}) // unconfirmed events are only kept longer
	}
	x.unsaid, x.newer = false, false
	return nil
}

// cut ends an exchange whose client does not read, or is gone.
func (x *exchange) cut(err error) {
	x.f.o.Logger.DebugContext(x.ctx, "stream cut", "server", x.f.o.Server, "session", x.id, "err", err)
	x.outcome = left
	x.gone()
}

// refused ends an exchange that the session does not want.
func (x *exchange) refused(no *session.Refusal) bool {
	if x.out == nil {
		x.no = refusalOf(no)
		return true
	}
	x.lastResort(session.Lost(session.ReasonEnded))
	return true
}

// arm sets the timer to the earliest deadline.
func (x *exchange) arm() {
	var first time.Time
	for _, t := range [...]time.Time{x.openBy, x.holdTill, x.quietTill, x.parkAt, x.expireAt, x.asked.by, x.link.next()} {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		x.wake.by(first)
	}
}

// due does what has become due, and tells whether the exchange is over.
func (x *exchange) due() (over bool) {
	now := x.now()
	past := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if past(x.holdTill) {
		if err := x.flush(x.opened); err != nil {
			x.cut(err)
			return true
		}
	}
	switch {
	case past(x.asked.by):
		x.alone(*x.asked.why)
		return true
	case past(x.openBy):
		return x.settle(session.Lost(session.ReasonUnanswered))
	case past(x.expireAt):
		return x.settle(session.Lost(session.ReasonDeadline))
	case past(x.parkAt):
		return x.park(session.Lost(session.ReasonUnanswered), x.retry())
	case past(x.link.giveUp):
		x.alone(x.link.loss())
		return true
	case past(x.link.retryAt):
		if x.attach() {
			return true
		}
	}
	if past(x.quietTill) && (x.out != nil || x.brief) {
		x.start() // a brief one takes too long to say nothing
		x.out.comment("keepalive")
		if err := x.flush(x.opened); err != nil {
			x.cut(err)
			return true
		}
	}
	return false
}
