package session

import (
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

// step is the whole of a session's decisions: it takes an event and changes the
// state, and what must be written, read and done about it goes into o. It is
// pure: time comes in, nothing is started or waited for.
func (s *state) step(event any, now time.Time, o *out) {
	s.now = now
	s.refresh()
	switch e := event.(type) {
	case *Post:
		s.onPost(e, now, o)
	case *Get:
		s.onGet(e, now, o)
	case *Attach:
		s.onAttach(e, now, o)
	case *Delete:
		s.onDelete(e, now, o)
	case *Flushed:
		s.onFlushed(e, now, o)
	case *Expire:
		s.onExpire(e, now, o)
	case *Gone:
		s.onGone(e, now, o)
	case *operation:
		e.err = e.do(s, o)
	case built:
		s.onBuilt(e, now, o)
	case fromRuntime:
		s.onMessage(e, now, o)
	case endStream:
		s.onEndStream(e, o)
	case exited:
		s.onExited(e, now, o)
	case closed:
		s.onClosed(e, now, o)
	case page:
		s.onPage(e, o)
	case readLater:
		s.readSome(e.reads, o)
	case ring:
		s.onRing(now, o)
	case pressure:
		s.onPressure(now, o)
	case listen:
		s.listening = false
		if s.get != nil && s.get.socket != nil {
			s.unheard(s.get.socket, now, o)
		}
	case tidy:
		s.tidying = false
		s.tidy(o)
		s.shed()
	case drain:
		s.draining = true
		s.rest(now, o)
	case hasten:
		s.endGeneration(LostTo(shutdown), closedShutdown, now, o)
		for _, id := range sortedKeys(s.streams) {
			s.supersede(s.streams[id], o)
		}
	}
	if s.draining && len(s.live) == 0 {
		s.rest(now, o)
	}
	s.saveStreams(o)
	if s.draining {
		s.tidy(o)
	}
	if len(s.behind) > 0 && !s.tidying {
		s.tidying = true
		o.do(tidyLater{})
	}
}

// tidy writes the stream rows that are behind in a batch of their own: no other
// came along to carry them, and what has reached the client must not reach it
// again after a crash.
func (s *state) tidy(o *out) {
	for _, st := range s.behind {
		if st.dirty && s.streams[st.id] == st {
			st.dirty = false
			s.store(st, o)
			if st.done() && st.socket == nil {
				delete(s.streams, st.id) // storage has all that is left of it
			}
		}
	}
	clear(s.behind)
	s.behind = s.behind[:0]
}

// store writes a stream's row if it says anything new.
func (s *state) store(st *stream, o *out) {
	r := st.row()
	if st.stored != nil && *st.stored == r {
		return
	}
	st.stored = &r
	o.put(prefixStream+st.id, encode(r))
	o.do(kept{st.id, st.flushed})
}

// saveStreams writes the stream rows that are behind if there is a batch that can
// carry them; by themselves they are not worth a commit at once.
func (s *state) saveStreams(o *out) {
	if len(o.puts)+len(o.deletes) == 0 || o.clear {
		return
	}
	s.tidy(o)
}

// touch marks a stream's row as behind.
func (s *state) touch(st *stream) {
	if !st.dirty {
		st.dirty = true
		s.behind = append(s.behind, st)
	}
}

// activityGrain is how much earlier than it was an incarnation may take the last use to
// be of a session that it finds in storage: less is not worth a row with every message.
const activityGrain = time.Second

// activity notes that a request or a reply was seen.
func (s *state) activity(now time.Time, o *out) {
	s.active = now
	if d := now.Sub(s.activeStored); d < 0 || d >= activityGrain {
		s.activeStored = now
		o.put(keyActivity, encodeTime(now))
	}
}

// refuse answers an event with a status and an error, and nothing else.
func refuse(sock *Socket, r *Refusal, o *out) { conclude(sock, Opening{Refusal: r}, o) }

// conclude answers an event with its Opening alone.
func conclude(sock *Socket, opening Opening, o *out) {
	o.do(openSocket{sock, opening})
	o.do(endSocket{sock, End{Kind: Final}})
}

// check decides whether a caller may use the session.
func (s *state) check(c Caller, id wire.ID) *Refusal {
	switch {
	case !s.alive(), s.meta.Server != c.Server:
		return Refuse(404, id, wire.InvalidRequest, "There is no session with this id at this path: it has ended, never was, or is another server's. Start a new one with initialize, without an Mcp-Session-Id header.")
	case s.meta.Principal.Subject != c.Principal.Subject:
		return Refuse(403, id, wire.InvalidRequest, "the session belongs to another caller")
	case s.configured(s.meta.Server) == nil:
		return Refuse(503, id, wire.InternalError, "the server %q is not configured on this host any more", s.meta.Server)
	}
	return nil
}
