package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/mcp/session"
	"github.com/kalpahost/kalpa/mcp/wire"
)

// reader reads the response to one HTTP request.
type reader struct {
	c       *client
	x       *Exchange
	own     *request // that the exchange is about; nil for a GET stream
	resumed bool
	again   bool              // for what the client has got already
	got     []session.EventID // then

	headed  bool // the head of a 200 has come
	refused bool // another status
	ended   bool // the server ended the body
	late    bool // nothing has come for too long
	status  int
	header  struct{ session string }
	last    string // event id
	buf     bytes.Buffer
	json    bytes.Buffer
	sse     bool
}

// all reads until the end, or until d passes without a piece.
func (rd *reader) all(d time.Duration) {
	for {
		p, ok := rd.x.Read(d)
		if !ok {
			rd.late = true
			rd.x.Leave()
			return
		}
		if rd.c.w.notes.log != nil {
			rd.c.w.note("%s %s %s got %d %q %v", rd.c.name, rd.x.request.Method, rd.x.request.Body, p.Status, p.Data, p.Err)
		}
		switch {
		case p.Status != 0:
			rd.head(p)
		case p.Err != nil:
			rd.ended = errors.Is(p.Err, io.EOF)
			if rd.ended && !rd.sse && rd.json.Len() > 0 {
				rd.document()
			}
			return
		case rd.sse:
			rd.buf.Write(p.Data)
			rd.events()
		default:
			rd.json.Write(p.Data)
		}
		if rd.c.w.over {
			return
		}
	}
}

func (rd *reader) head(p Piece) {
	rd.status = p.Status
	rd.sse = strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream")
	rd.header.session = p.Header.Get("Mcp-Session-Id")
	switch {
	case p.Status == 200:
		rd.headed = true
		if rd.own != nil {
			rd.own.taken = true
			rd.c.w.history.session(rd.header.session).last = rd.c.w.s.now
		}
	case p.Status >= 300:
		rd.refused = true
		rd.c.w.sometimes(fmt.Sprintf("status %d", p.Status))
		if p.Status == 404 && rd.c.session != "" {
			rd.c.missing(rd.x.request.Method)
		}
	}
}

// document is a response in JSON: a refusal, or a front's last resort.
func (rd *reader) document() {
	m, err := wire.Parse(rd.json.Bytes())
	if err != nil || m.Kind() != wire.Response || rd.own == nil || rd.resumed {
		return
	}
	if lost := lostOf(m); lost != nil {
		rd.refused = false
		rd.answered(rd.own, m, true)
		return
	}
	rd.own.refused = true
	rd.c.drop(rd.own)
}

// events takes the events that have come whole.
func (rd *reader) events() {
	for {
		raw, rest, whole := bytes.Cut(rd.buf.Bytes(), []byte("\n\n"))
		if !whole {
			return
		}
		event := string(raw)
		rd.buf.Next(rd.buf.Len() - len(rest))
		var id, data string
		for line := range strings.SplitSeq(event, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "id":
				id = value
			case "data":
				data = value
			}
		}
		rd.event(id, data)
	}
}

func (rd *reader) event(id, data string) {
	lastResort := false
	if id != "" {
		rd.last = id
		lastResort = session.IsTold(id)
		if !lastResort {
			rd.inOrder(id, data)
		}
	}
	if data == "" {
		return
	}
	if rd.again {
		if e, err := session.ParseEventID(id); err == nil {
			rd.got = append(rd.got, e)
		}
		return
	}
	m, err := wire.Parse([]byte(data))
	if err != nil {
		rd.c.w.history.violate("I11", "client %s got what is no message: %q", rd.c.name, data)
		return
	}
	switch {
	case m.Kind() == wire.Response:
		rd.response(m, lastResort || id == "")
	case m.Kind() == wire.Request:
		rd.asked(m)
	}
}

// inOrder checks an event's place in its stream: what comes twice is the same, and
// nothing is left out.
func (rd *reader) inOrder(text, data string) {
	id, err := session.ParseEventID(text)
	if err != nil {
		rd.c.w.history.violate("I11", "client %s got the event id %q", rd.c.name, text)
		return
	}
	if data == "" { // it tells where the stream stands
		return
	}
	if after, err := session.ParseEventID(rd.x.request.Header["Last-Event-ID"]); err == nil && after.Stream == id.Stream && !after.Less(id) {
		rd.c.w.history.violate("I11", "client %s resumed from %s and got %s", rd.c.name, after, text)
	}
	log := rd.c.logs[id.Stream]
	for _, e := range log {
		if e.id == id {
			if e.data != data {
				rd.c.w.history.violate("I11", "event %s has two contents: %s and %s", text, e.data, data)
			}
			rd.c.w.sometimes("event replayed")
			return
		}
	}
	var last session.EventID
	if len(log) > 0 {
		last = log[len(log)-1].id
	}
	if next := id.Epoch == last.Epoch && id.Seq == last.Seq+1 || id.Epoch > last.Epoch && id.Seq == 1; !next && !rd.c.tooLate(last, id) {
		rd.c.w.history.violate("I11", "client %s got event %s after %s", rd.c.name, text, last)
	}
	rd.c.logs[id.Stream] = append(log, entry{id, data, rd.c.w.s.now})
}

// tooLate reports that all events between two had been sent, on connections that broke
// before they arrived, so long ago that their retention is over: a client that comes back
// later than that gets what is left.
func (c *client) tooLate(last, next session.EventID) bool {
	if last.Epoch != next.Epoch {
		return false
	}
	for seq := last.Seq + 1; seq < next.Seq; seq++ {
		at, died := c.w.died[session.EventID{Stream: next.Stream, Epoch: next.Epoch, Seq: seq}]
		if !died || c.w.s.now.Sub(at)+2*c.w.clockFar < c.w.plan.Retention*7/8 { // marks are joined, see session
			return false
		}
	}
	c.w.sometimes("came back after the retention")
	return true
}

// response attributes a response to the request that it answers.
func (rd *reader) response(m wire.Message, lastResort bool) {
	n := gjson.GetBytes(m.Result(), "n").String()
	if rd.own != nil && string(m.ID()) == rd.own.id {
		r := rd.own
		if r.answers == 0 || n != r.n || rd.c.mistaken(n) == nil { // else its twin was told the error
			r = rd.c.unanswered(r)
		}
		rd.answered(r, m, lastResort)
		return
	}
	if rd.own != nil {
		rd.c.w.history.violate("I1", "the stream of request %s (id %s) carries the answer to id %s", rd.own.n, rd.own.id, m.ID())
		return
	}
	// On a GET: what was lost, or what nobody came back for. Of requests with one id,
	// a result says whose it is, and an error does not: then it is of one that the host
	// has accepted, rather than of one that may never have come to it.
	var waits *request
	for _, r := range rd.c.pending {
		if r.id == string(m.ID()) && r.answers == 0 && (n == "" || n == r.n) && (waits == nil || r.taken && !waits.taken) {
			waits = r
		}
	}
	if waits == nil && n != "" {
		waits = rd.c.mistaken(n)
	}
	if waits != nil {
		rd.c.w.sometimes("answered on a GET")
		rd.answered(waits, m, lastResort)
		return
	}
	lost := lostOf(m)
	copied := func() bool { return rd.c.w.history.ofACopy(rd.c, string(m.ID())) }
	may := func(f func(*request, *lostError) bool) bool {
		return slices.ContainsFunc(rd.c.w.history.requests, func(o *request) bool {
			return o.client == rd.c && o.id == string(m.ID()) && (n == "" || n == o.n) && f(o, lost)
		})
	}
	again := func() bool { return may(rd.c.w.history.toldAgain) }
	// Neither errors nor results say which of two copies they are of: what a host may tell
	// again is that, rather than the copy's, whose own may be still to come.
	if lost != nil && again() || lost == nil && may(rd.c.w.history.notNoted) || copied() || lost == nil && again() {
		return
	}
	rd.c.w.history.violate("I1", "a GET of client %s carries an answer to id %s, which waits for none: %s", rd.c.name, m.ID(), m)
}

func (rd *reader) answered(r *request, m wire.Message, lastResort bool) {
	lost := lostOf(m)
	value := gjson.GetBytes(m.Result(), "value").String()
	switch {
	case r.tool == "initialize" && !m.IsError():
		value = "ok"
	case lost == nil && m.IsError():
		value = ""
		r.given = true
	case lost == nil && r.tool != "initialize" && rd.c.kind != Repeater && gjson.GetBytes(m.Result(), "n").String() != r.n:
		rd.c.w.history.violate("I1", "request %s got the answer to another: %s", r.n, m)
	}
	rd.c.w.history.answered(r, value, lost, lastResort)
	rd.c.w.tales.answered(r, rd.own != nil)
	rd.c.drop(r)
}

// asked answers a question of the server's, as the plan says.
func (rd *reader) asked(m wire.Message) {
	c := rd.c
	if c.kind == Mute || c.rand.Float64() < 0.2 {
		return // nobody is there
	}
	wait := time.Duration(c.rand.Int64N(int64(c.w.plan.Approval) * 3 / 2))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, m.ID())
	c.p.AfterFunc(wait, func() {
		if !c.closing {
			c.post(body)
			c.w.sometimes("a person answered")
		}
	})
}

// lostOf reads an error -32010; nil for anything else.
func lostOf(m wire.Message) *lostError {
	if !m.IsError() || gjson.GetBytes(m.Error(), "code").Int() != int64(wire.LostExecution) {
		return nil
	}
	d := gjson.GetBytes(m.Error(), "data")
	return &lostError{d.Get("reason").String(), d.Get("started").Bool(), d.Get("retryable").Bool()}
}
