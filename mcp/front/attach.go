package front

import (
	"errors"
	"net/http"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// link is the state of an exchange whose session was reset, until its next
// incarnation has taken the exchange over. Exchanges take turns, so that the
// reset of a full isolate does not bring all its sessions back in one moment: an
// exchange waits for its turn up to AttachWait, and has then AttachLimit.
type link struct {
	place   *place    // nil: the link is whole
	holds   bool      // it is this exchange's turn
	giveUp  time.Time // zero: the link is whole
	retryAt time.Time // the next attempt, zero when one is under way
	tries   int       // since a frame was written
	cause   error     // of the last break
}

// broken reacts to a socket that ended before the exchange was over.
func (x *exchange) broken(err error) (over bool) {
	l := &x.link
	if err != nil {
		l.cause = err
	}
	x.openBy = time.Time{}
	x.opened = false
	now := x.now()
	if !l.giveUp.IsZero() { // not even taken over: in the same turn again
		l.retryAt = now.Add(l.pause())
		return false
	}
	l.giveUp = now.Add(x.f.o.AttachWait)
	l.place = x.f.turns.ask(x.woken.Set)
	return l.called() && x.attach()
}

// called reports that the exchange has waited for its turn, and that it has come.
func (l *link) called() bool { return l.place != nil && !l.holds && l.place.came() }

// attach passes the exchange on to the next incarnation. The caller has just got
// its turn, or holds it.
func (x *exchange) attach() (over bool) {
	l := &x.link
	now := x.now()
	if !l.holds {
		l.holds = true
		l.giveUp = now.Add(x.f.o.AttachLimit)
		if wait := l.pause(); wait > 0 {
			l.retryAt = now.Add(wait)
			return false
		}
	}
	l.tries++
	l.retryAt = time.Time{}
	x.f.count.attaches.Add(1)
	x.socket = x.newSocket()
	err := x.send(x.again(x.socket, x.last))
	switch {
	case err == nil:
		return false
	case errors.Is(err, session.ErrUnknown):
		return x.vanished()
	default:
		l.cause = err
		l.retryAt = now.Add(l.pause())
		return false
	}
}

// vanished ends an exchange whose session is not there any more.
func (x *exchange) vanished() bool {
	switch {
	case x.out != nil:
		x.lastResort(session.Lost(session.ReasonEnded))
	case x.r.Method == http.MethodDelete: // as it was to be
		x.w.WriteHeader(x.status)
	case x.creates: // it never came to be
		x.no = busy(x.about, "The session could not be made. %s Send initialize again in a moment.", x.link.loss().Sentence)
	default:
		x.no = unknown(x.about)
	}
	return true
}

// pause is the time before the next attempt: none before the first, then growing.
func (l *link) pause() time.Duration {
	if l.tries == 0 {
		return 0
	}
	return 25 * time.Millisecond << min(l.tries-1, 3)
}

// next is the deadline that the link waits for, zero for none.
func (l *link) next() time.Time {
	if !l.retryAt.IsZero() && l.retryAt.Before(l.giveUp) {
		return l.retryAt
	}
	return l.giveUp
}

// whole ends the link's turn: the exchange has been taken over, or is over.
func (l *link) whole() {
	if l.place != nil {
		l.place.leave()
	}
	l.holds, l.place, l.giveUp, l.retryAt = false, nil, time.Time{}, time.Time{}
}

// loss is what is said about requests that no incarnation has taken over: the
// cause of the break where it is known.
func (l *link) loss() session.Loss {
	if c := actor.CauseOf(l.cause); c != actor.NoCause {
		return session.LostTo(c)
	}
	return session.Lost(session.ReasonUnanswered)
}

// lastResort answers what is still owed without the session, which can't be
// reached. This is the one place where a client may be told the same twice: the
// last event's id carries a mark by which the session learns, when the client
// resumes, that it has been told.
func (x *exchange) lastResort(why session.Loss) {
	why.Started = true // nothing proves that it has not
	at, err := session.ParseEventID(x.last)
	if err == nil {
		why.Epoch = at.Epoch
	}
	answers := x.owes.lost(why)
	if len(answers) > 0 {
		x.answer(answers[0].Bytes())
	}
	x.f.count.lastResorts.Add(int64(len(answers)))
	x.f.o.Logger.WarnContext(x.ctx, "exchange ended without its session", "server", x.f.o.Server, "session", x.id,
		"answered", len(answers), "reason", why.Reason, "cause", x.link.cause)
	const status = http.StatusServiceUnavailable
	switch {
	case x.out != nil && len(answers) == 0:
		x.leave(x.retry())
	case x.out != nil:
		for i, m := range answers {
			var id string
			if i == len(answers)-1 && x.last != "" {
				id = at.Told()
			}
			if x.out.event(id, m.Bytes()) != nil {
				return // the client is gone
			}
		}
		x.end(0)
	case len(answers) == 0:
		x.no = refuse(status, x.about, wire.InternalError, "%s Send the request again in a moment.", why.Sentence)
		x.no.with("Retry-After", "1")
	default:
		// Not 503, nor Retry-After: what sends a request again by itself on these must
		// not repeat what may have started.
		writeJSON(x.w, http.StatusInternalServerError, x.document(answers))
	}
}

// document is the body that answers requests in JSON: as they came, one or a batch.
func (x *exchange) document(ms []wire.Message) []byte {
	if !x.batch {
		return ms[0].Bytes()
	}
	b := []byte{'['}
	for i, m := range ms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m.Bytes()...)
	}
	return append(b, ']')
}

// park ends the response for the client to resume. A client that holds no event
// id can't, so what it is owed is answered instead, which may take a moment.
func (x *exchange) park(why session.Loss, retry time.Duration) (over bool) {
	if x.brief && len(x.held) > 0 {
		x.start() // for the event id that it has
	}
	if x.unread() {
		return x.settle(why)
	}
	x.leave(retry)
	x.gone() // the socket may have ended at its bound, which the session does not see
	return true
}

// leave ends the stream for the client to resume.
func (x *exchange) leave(retry time.Duration) {
	x.f.count.parked.Add(1)
	x.outcome = parked
	x.end(retry)
}

// unread: the client has nothing to resume the exchange from.
func (x *exchange) unread() bool { return len(x.owes) > 0 && x.last == "" || x.out == nil }

// end sends what is written, with the hint when to resume, before the body ends.
func (x *exchange) end(retry time.Duration) {
	if retry > 0 {
		x.out.retry(retry)
	}
	if err := x.out.flush(); err != nil {
		x.f.o.Logger.DebugContext(x.ctx, "stream cut", "server", x.f.o.Server, "session", x.id, "err", err)
	}
}

// retry is the front's own hint, for those versions whose clients know it.
func (x *exchange) retry() time.Duration {
	if x.caller.Version < versionRetry {
		return 0
	}
	return x.f.o.Retry
}
