package session

import (
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// A stream's id says what opened it, so that an event id that has left storage
// still tells what the client wants resumed.
func postStream(minted string) string { return "p" + minted }
func getStream(minted string) string  { return "g" + minted }

// append stores an event at the end of a stream's log and sends it, if the
// stream is attached and has caught up. answers is the id that it answers.
func (s *state) append(st *stream, m wire.Message, answers wire.ID, o *out) {
	n := int64(len(m.Bytes()))
	if answers == "" && st.bytes+n > s.cfg.MaxLog/4 && !s.shorten(st, o) {
		s.drop(st, m, o)
		return
	}
	st.seq++
	st.last = EventID{st.id, s.epoch, st.seq}
	o.put(eventKey(st.last), m.Bytes())
	st.bytes += n
	s.logBytes += n
	if st.socket != nil && !st.replaying {
		o.do(push{st.socket, Frame{ID: st.last.String(), Data: m.Bytes(), Answers: answers}})
		st.sent = st.last
		s.sweepAfter(s.now) // it is flushed in a moment, and this commit may as well say so
	}
	if answers != "" && st.post && st.socket == nil {
		s.listenLater(grace-s.now.Sub(st.detached), o)
	}
	if answers == "" && len(st.owes) > 0 {
		o.do(reached{actor.BetweenEvents, st.owes[0]})
	}
	s.relieve(o)
}

// shorten makes room in the log of a stream that is full of notifications: what
// has reached the client goes before its retention is over. False: nothing has.
func (s *state) shorten(st *stream, o *out) bool {
	if st.flushed.Stream == "" || !st.trimmed.Less(st.flushed) {
		return false
	}
	st.trimmed = st.flushed
	o.trims = append(o.trims, trim{st, st.flushed, false})
	return true
}

// drop gives up a message that no log has room for. A runtime that asks is told.
func (s *state) drop(st *stream, m wire.Message, o *out) {
	s.logger().Warn("message dropped: its stream's log is full", "stream", st.id, "bytes", st.bytes, "method", m.Method())
	if a, asked := s.asks[m.ID()]; asked {
		s.settleAsk(m.ID(), a, OutcomeUndelivered, s.now, o)
		o.do(deliver{s.rt.gen, wire.NewError(a.id, wire.InternalError, "the client does not read its stream", nil)})
	}
}

// relieve makes room in a session's log: delivered events go, oldest first,
// before their retention is over. What was not delivered stays.
func (s *state) relieve(o *out) {
	if s.cfg == nil {
		return // a server that is not configured any more has no bounds; nothing new comes
	}
	for over := s.logBytes - s.cfg.MaxLog/2; over > 0 && len(s.marks) > 0; {
		over -= s.trimFirst(o)
	}
}

// trimFirst deletes what was flushed first, and returns how many bytes that
// frees, if they are known.
func (s *state) trimFirst(o *out) int64 {
	m := s.marks[0]
	s.marks[0] = mark{}
	s.marks = s.marks[1:]
	st := s.streams[m.upto.Stream]
	switch {
	case m.whole && m.born && st == nil:
		// All keys are known, and nothing needs to be read.
		for seq := uint64(1); seq <= m.upto.Seq; seq++ {
			o.delete(eventKey(EventID{m.upto.Stream, m.upto.Epoch, seq}))
		}
		o.delete(prefixStream + m.upto.Stream)
		o.do(kept{m.upto.Stream, m.upto})
		s.logBytes -= m.bytes
		return m.bytes
	case st == nil && m.whole:
		st = &stream{id: m.upto.Stream, post: true}
	case st == nil:
		return 0
	}
	o.trims = append(o.trims, trim{st, m.upto, m.whole})
	return st.bytes
}

// bind attaches a socket to a stream, unbind detaches it.
func (s *state) bind(st *stream, sock *Socket) {
	st.socket, st.loaded = sock, false
	set(&s.sockets, sock, st)
}

func (s *state) unbind(st *stream) {
	if st.socket != nil {
		delete(s.sockets, st.socket)
		st.socket, st.replaying = nil, false
		if st.recalled {
			delete(s.streams, st.id)
		}
	}
}

// carrier is the stream that carries an answer: the one of its POST as long as
// the client is attached to it or could resume it, else the one that a GET
// opened.
func (s *state) carrier(st *stream) *stream {
	if st.socket == nil && !st.resumable() && s.get != nil && s.get.socket != nil {
		return s.get
	}
	return st
}

// prime gives the client an event id to resume from, before there is an event.
func (s *state) prime(st *stream, o *out) {
	at := EventID{st.id, s.epoch, st.seq}
	o.do(push{st.socket, Frame{ID: at.String()}})
	st.sent = at
}

// finish ends the exchange of a POST's stream that owes nothing and has caught
// up.
func (s *state) finish(st *stream, o *out) {
	if !st.post || !st.answered() || st.replaying {
		return
	}
	if st.socket != nil {
		o.do(endSocket{st.socket, End{Kind: Final}})
		if st.done() {
			s.unbind(st) // nothing is left to be confirmed
		}
	}
	if st.last.Seq == 0 { // all of it was taken back: its row stays for a while, so that it is not taken for new
		st.last = EventID{st.id, s.epoch, 0}
		st.flushed, st.flushedAt = st.last, s.now
		s.unbind(st)
		s.touch(st)
		s.mark(st, s.now, o)
	}
}

// attach makes a socket the one that a stream is written to, from the event
// after a position on. A socket it had before is superseded.
func (s *state) attach(st *stream, sock *Socket, after EventID, now time.Time, o *out) {
	s.supersede(st, o)
	s.bind(st, sock)
	st.replaying, st.sent = true, after
	if after.Epoch != 0 && (st.flushed.Stream == "" || st.flushed.Less(after)) && !st.last.Less(after) {
		s.confirm(st, after, now, o) // who holds an event's id has it
	}
	o.do(openSocket{sock, Opening{Streaming: true}})
	o.reads = append(o.reads, read{st: st, after: after, socket: sock})
}

func (s *state) supersede(st *stream, o *out) {
	if st.socket != nil {
		o.do(endSocket{st.socket, End{Kind: Parked}})
		s.unbind(st)
	}
}

// onGet opens a stream, or resumes one.
func (s *state) onGet(g *Get, now time.Time, o *out) {
	if r := s.check(g.Caller, ""); r != nil {
		if st, after := s.left(g); st != nil {
			s.attach(st, g.Socket, after, now, o)
		} else {
			refuse(g.Socket, r, o)
		}
		return
	}
	if g.After != "" {
		after, err := ParseEventID(g.After)
		if err != nil {
			refuse(g.Socket, Refuse(400, "", wire.InvalidRequest, "Last-Event-ID: %v", err), o)
			return
		}
		st := s.streams[after.Stream]
		if st != nil && IsTold(g.After) {
			after = s.told(st, now, o)
		}
		switch {
		case st == nil && after.Stream[0] == 'p':
			s.recall(after, g.Socket, o)
			return
		case st != nil && st.post && st.answered() && !after.Less(st.last):
			// Nothing is left of this stream to come back for. A stream that opened only to
			// end would have the client come back again.
			conclude(g.Socket, Opening{}, o)
			return
		case st != nil:
			s.attach(st, g.Socket, after, now, o)
			s.unheard(g.Socket, now, o)
			return
		}
	}
	if st := s.streams[getStream(g.Stream)]; st != nil { // passed on by its front, which has written nothing
		s.attach(st, g.Socket, EventID{Stream: st.id}, now, o)
	} else {
		s.openGet(g, now, o)
	}
	s.unheard(g.Socket, now, o)
}

// left is the stream of a session that has ended that a client of it comes back to, if
// an answer is left on it that the client does not have: such as that its initialize
// was lost.
func (s *state) left(g *Get) (*stream, EventID) {
	after, err := ParseEventID(g.After)
	if err != nil || s.meta == nil || !s.meta.Ended || s.meta.Server != g.Caller.Server || s.meta.Principal.Subject != g.Caller.Principal.Subject {
		return nil, after
	}
	if st := s.streams[after.Stream]; st != nil && st.post && !IsTold(g.After) && after.Less(st.last) {
		return st, after
	}
	return nil, after
}

// told discharges what a front has answered as its last resort: the client knows,
// and must not be told again. It returns the end of the log.
func (s *state) told(st *stream, now time.Time, o *out) EventID {
	for _, r := range slices.Clone(st.owes) {
		s.settleRow(r, o)
		r.lost = ReasonUnanswered
		o.settle(r, wire.Message{})
	}
	if st.last.Seq > 0 {
		s.confirm(st, st.last, now, o)
	} else {
		s.finish(st, o)
	}
	return st.last
}

// recall reads a stream back that was delivered to its end, for a client that
// comes once more within the retention.
func (s *state) recall(after EventID, sock *Socket, o *out) {
	st := &stream{id: after.Stream, post: true, recalled: true, replaying: true}
	set(&s.streams, st.id, st)
	s.bind(st, sock)
	o.reads = append(o.reads, read{st: st, after: after, socket: sock})
}

// openGet opens a new GET stream. It takes the place of the one before, and
// carries what that had not sent.
func (s *state) openGet(g *Get, now time.Time, o *out) {
	st := &stream{id: getStream(g.Stream), prime: s.meta.Version >= priming}
	s.bind(st, g.Socket)
	old := s.get
	set(&s.streams, st.id, st)
	s.get = st
	s.touch(st)
	s.store(st, o) // a batch of its own, if need be
	o.do(openSocket{g.Socket, Opening{Streaming: true}})
	if st.prime {
		s.prime(st, o)
	}
	if old != nil {
		s.supersede(old, o)
		old.over, old.flushedAt = true, now
		s.touch(old)
		if old.last.Seq == 0 { // nothing to come back for
			s.forget(old)
			s.get = st
			o.delete(prefixStream + old.id)
		} else {
			s.addMark(mark{upto: EventID{old.id, max(old.last.Epoch, s.epoch), old.seq}, at: now, whole: true})
		}
		if old.sent.Less(old.last) {
			o.reads = append(o.reads, read{st: old, after: old.sent})
		}
	}
}

// unheard gives the GET stream that a client has just opened, or come back to, what
// no stream could carry: messages that were held, and answers whose own stream
// can't be resumed.
func (s *state) unheard(sock *Socket, now time.Time, o *out) {
	if s.get == nil || s.get.socket != sock {
		return
	}
	for _, h := range s.held {
		o.delete(heldKey(h.n))
		s.append(s.get, h.msg, "", o)
	}
	s.held, s.heldBytes = nil, 0
	var left, later []read
	again := time.Duration(-1) // until the first of those that are left to their clients is not any more
	// In any order: what is taken is sorted below, and of the times the least counts.
	for _, p := range s.streams {
		if !p.post || !p.flushed.Less(p.last) {
			continue
		}
		waits := p.resumable() && now.Sub(p.detached) < grace
		if wait := grace - now.Sub(p.detached); waits && p.socket == nil && (again < 0 || wait < again) {
			again = wait
		}
		r := read{st: p, after: p.flushed, carry: carry{lost: waits}}
		if p.loaded && now.Sub(p.detached) < headStart {
			later = append(later, r)
		} else {
			left = append(left, r)
		}
	}
	if again >= 0 {
		s.listenLater(again, o)
	}
	byStream := func(a, b read) int { return strings.Compare(a.st.id, b.st.id) }
	slices.SortFunc(left, byStream)
	slices.SortFunc(later, byStream)
	s.readSome(left, o)
	if len(later) > 0 {
		o.do(readLater{later, headStart})
	}
}

// listenLater has the GET stream looked at again: a client that holds one open all
// the time must get there what it did not come back for.
func (s *state) listenLater(after time.Duration, o *out) {
	if s.get != nil && s.get.socket != nil && !s.listening {
		s.listening = true
		o.do(listenLater{max(after, 0)})
	}
}

// headStart is what the front of a POST has to pass its exchange on after a reset,
// before a GET carries the answers. A front that comes later is not needed any more:
// its client has been told.
const headStart = 250 * time.Millisecond

// grace is how long a POST's stream that was cut is left for its client to
// resume, before a fresh GET carries its results. That an execution was lost is
// said at once: the client may have no other way left.
const grace = 10 * time.Second

// toGet moves to the GET stream what nobody came back for: the answers of a
// POST's stream, and what a superseded GET stream had not sent. An answer stays
// on its POST's stream while a live request has the same id: a client that uses one id
// again must not take the old answer for the new. What was on a GET stream stays on
// one: nobody looks at a superseded stream again.
func (s *state) toGet(p page, o *out) {
	kept, before := p.carry.kept, p.from
	for _, f := range p.frames {
		if f.Answers == "" && p.st.post {
			continue
		}
		m, err := wire.Parse(f.Data)
		if err != nil {
			s.logger().Error("a stored event does not parse", "event", f.ID, "error", err)
			continue
		}
		if s.get == nil || p.carry.lost && !lostExecution(m) || p.st.post && slices.ContainsFunc(s.live, func(r *owed) bool { return r.ID == f.Answers }) {
			kept = true
			s.listenLater(grace, o)
			continue
		}
		if n := int64(len(f.Data)); o.moved > 0 && o.moved+n > maxMoved {
			o.do(readLater{[]read{{st: p.st, after: before, carry: carry{p.carry.lost, kept}}}, 0})
			return
		}
		s.append(s.get, m, f.Answers, o)
		if e, err := ParseEventID(f.ID); err == nil {
			n := int64(len(f.Data))
			o.moved += n
			p.st.bytes -= n
			s.logBytes -= n
			o.delete(eventKey(e))
			before = e
		}
	}
	switch {
	case p.more:
		o.reads = append(o.reads, read{st: p.st, after: p.last, carry: carry{p.carry.lost, kept}})
	case p.st.post && p.st.answered() && !kept:
		// Delivered to its end, in another way; its row stays as long as any other's, so
		// that a front which passes the POST on finds it.
		p.st.flushed, p.st.flushedAt = p.st.last, s.now
		s.touch(p.st)
		s.mark(p.st, s.now, o)
	}
}

// maxMoved bounds what one batch moves to the GET stream, in bytes. The rest
// follows when that is durable.
const maxMoved = 16 << 20

// readsAtOnce is how many streams one batch is moved from.
const readsAtOnce = 64

// readSome reads the first of many, and leaves the rest to a batch of their own. A
// stream that its client has come back for meanwhile is left to it.
func (s *state) readSome(reads []read, o *out) {
	n := min(len(reads), readsAtOnce)
	for _, r := range reads[:n] {
		if r.after.Less(r.st.flushed) {
			r.after = r.st.flushed
		}
		if r.st.socket == nil && s.streams[r.st.id] == r.st && r.after.Less(r.st.last) {
			o.reads = append(o.reads, r)
		}
	}
	if n < len(reads) {
		o.do(readLater{reads[n:], 0})
	}
}

func lostExecution(m wire.Message) bool {
	return m.IsError() && gjson.GetBytes(m.Error(), "code").Int() == int64(wire.LostExecution)
}

// onAttach goes on with the exchange of a POST whose incarnation is gone.
func (s *state) onAttach(a *Attach, now time.Time, o *out) {
	p := a.Post
	p.Socket = a.Socket
	id := postStream(p.Stream)
	st := s.streams[id]
	if st == nil && !s.wasHere(id) {
		// The POST was never admitted: admit it now.
		s.onPost(&p, now, o)
		return
	}
	// A session that has ended meanwhile still delivers what it has answered.
	if r := s.check(p.Caller, ""); r != nil && s.alive() {
		refuse(a.Socket, r, o)
		return
	}
	after := EventID{Stream: id}
	if a.After != "" {
		var err error
		if after, err = ParseEventID(a.After); err != nil || after.Stream != id {
			refuse(a.Socket, Refuse(400, "", wire.InvalidRequest, "%q is not an event of the stream", a.After), o)
			return
		}
	}
	if st == nil {
		s.recall(after, a.Socket, o)
		return
	}
	s.attach(st, a.Socket, after, now, o)
}

// wasHere tells whether a stream that is not in memory was admitted once: all of it
// has reached its client, and its retention is not over.
func (s *state) wasHere(stream string) bool {
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.whole && m.upto.Stream == stream })
}

// pageLimit is how many events a replay reads at once.
const pageLimit = 1000

// onPage sends a page of a replay. The page after it is read when this one has
// been flushed, so that a long log never waits in memory.
func (s *state) onPage(p page, o *out) {
	st := p.st
	if p.socket == nil {
		s.toGet(p, o)
		return
	}
	if st.socket != p.socket || !st.replaying {
		return // superseded meanwhile
	}
	if st.recalled && st.sent.Stream == "" {
		if len(p.frames) == 0 {
			s.unbind(st)
			conclude(p.socket, Opening{}, o)
			return
		}
		o.do(openSocket{p.socket, Opening{Streaming: true}})
	}
	for _, f := range p.frames {
		o.do(push{st.socket, f})
	}
	if len(p.frames) > 0 {
		st.sent = p.last
	}
	if p.more {
		st.pageEnd = p.last
		return
	}
	st.replaying = false
	if st.recalled {
		st.last = p.last
	}
	s.finish(st, o)
	if st.prime && !(st.post && st.answered()) && !st.sent.Less(st.last) {
		s.prime(st, o) // else a client that is cut off again before an event comes has no id
	}
}

// onFlushed notes what has reached the client: it may leave storage when the
// retention has passed.
func (s *state) onFlushed(f *Flushed, now time.Time, o *out) {
	e, err := ParseEventID(f.Event)
	if err != nil {
		return
	}
	st := s.streams[e.Stream]
	if st == nil || st.socket != f.Socket && !st.loaded {
		return // superseded, or gone
	}
	switch {
	case st.recalled:
		st.flushed = e
	case st.flushed.Stream == "" || st.flushed.Less(e):
		s.confirm(st, e, now, o)
	}
	if st.replaying && !e.Less(st.pageEnd) && st.pageEnd.Stream != "" {
		o.reads = append(o.reads, read{st: st, after: st.pageEnd, socket: st.socket})
		st.pageEnd = EventID{}
	}
	if st.done() && !st.replaying { // a page that is not the last is no end
		s.unbind(st)
	}
}

// confirm notes that the client has a stream up to an event, of which the retention
// begins.
func (s *state) confirm(st *stream, upto EventID, now time.Time, o *out) {
	st.flushed, st.flushedAt = upto, now
	s.touch(st)
	if st.last.Seq > 0 {
		s.mark(st, now, o)
	}
}

// mark queues what was flushed for its retention.
func (s *state) mark(st *stream, now time.Time, o *out) {
	defer s.relieve(o)
	if st.done() {
		s.addMark(mark{upto: st.last, at: now, whole: true, born: st.born, bytes: st.bytes})
		return
	}
	if n := len(s.marks); n > 0 && s.marks[n-1].upto.Stream == st.id && !s.marks[n-1].whole && now.Sub(s.marks[n-1].at) < s.cfg.Retention/8 {
		s.marks[n-1].upto = st.flushed
		return
	}
	s.addMark(mark{upto: st.flushed, at: now})
}

// addMark queues what was flushed last.
func (s *state) addMark(m mark) {
	s.marks = append(s.marks, m)
	s.sweepAfter(m.at)
}

// onGone detaches a socket that its front has stopped reading. What it owes is
// still owed, and kept for the client to resume.
func (s *state) onGone(g *Gone, now time.Time, o *out) {
	st := s.sockets[g.Socket]
	if st == nil {
		return
	}
	s.unbind(st)
	st.detached = now
	switch {
	case !st.post:
		st.sent = st.flushed // what was not confirmed may never have arrived: a next GET carries it
	case !st.flushed.Less(st.last):
	case st.resumable():
		s.listenLater(grace, o)
	default:
		s.listenLater(0, o) // what is open already carries what has been answered meanwhile
	}
}

// onEndStream parks a request's stream because its runtime asks for it. The
// stream keeps its socket until the front says Gone: the flush of the event that
// the client resumes from is confirmed through it.
func (s *state) onEndStream(e endStream, o *out) {
	if e.gen != s.rt.gen || s.rt.phase != ready {
		return
	}
	if r := s.rt.rows[outID(e.about)]; r != nil && r.stream.socket != nil && r.stream.resumable() {
		o.do(endSocket{r.stream.socket, End{Kind: Parked, Retry: e.retry}})
	}
}
