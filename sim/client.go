package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/mcp/session"
)

// Kind is a way in which clients behave in the field.
type Kind string

// The kinds.
const (
	Official Kind = "official" // the SDK's: resumes from the last event id, with back-off, and listens
	Stubborn Kind = "stubborn" // never resumes; opens a fresh GET instead
	Repeater Kind = "repeater" // sends every request twice at once, with one id
	Mute     Kind = "mute"     // does not read what comes
	Retrier  Kind = "retrier"  // official, and repeats what was lost before it started
	Deleter  Kind = "deleter"  // official, and ends its session in the middle
)

// Kinds are all of them.
var Kinds = []Kind{Official, Stubborn, Repeater, Mute, Retrier, Deleter}

// resumes: the client does what it takes to get every answer.
func (k Kind) resumes() bool { return k == Official || k == Retrier || k == Repeater }

// listens: the client holds a GET stream open.
func (k Kind) listens() bool { return k != Mute }

// client is a model client. Its code is ordinary code that waits.
type client struct {
	w    *World
	plan *ClientPlan
	name string
	kind Kind
	p    *Process
	rand *rand.Rand

	session string
	version string
	opened  run.Signal
	next    int
	pending []*request // that have no answer
	logs    map[string][]entry
	closing bool
}

// entry is an event that the client has got.
type entry struct {
	id   session.EventID
	data string
	at   time.Time
}

func (w *World) newClient(plan *ClientPlan) *client {
	p := w.s.NewProcess()
	c := &client{w: w, plan: plan, name: plan.Name, kind: plan.Kind, p: p, rand: w.s.Rand("client " + plan.Name), opened: p.Signal(), logs: map[string][]entry{}}
	p.AfterFunc(plan.At, c.run)
	return c
}

// run opens a session, and does in it what is planned.
func (c *client) run() {
	for !c.open() {
		if c.w.settling {
			return
		}
		c.p.Sleep(c.backOff(1))
	}
	if c.kind.listens() {
		c.p.Go(c.listen)
	}
	for i := range c.plan.Ops {
		op := &c.plan.Ops[i]
		c.p.AfterFunc(op.At, func() { c.do(op) })
	}
	if c.plan.Delete > 0 {
		c.p.AfterFunc(c.plan.Delete, c.end)
	}
}

func (c *client) backOff(try int) time.Duration {
	d := time.Second << min(try-1, 4)
	return d + time.Duration(c.rand.Int64N(int64(d)/2))
}

func (c *client) header() map[string]string {
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	if c.session != "" {
		h["Mcp-Session-Id"], h["Mcp-Protocol-Version"] = c.session, c.version
	}
	return h
}

// open sends initialize, and reports whether there is a session.
func (c *client) open() bool {
	c.version = c.plan.Version
	r := &request{client: c, tool: "initialize", id: "0", sent: c.w.s.now}
	c.w.history.add(r)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":%q,"version":"1"}}}`, c.version, c.name)
	x := c.w.net.Send(c.p, Request{"POST", c.header(), []byte(body)})
	rd := reader{c: c, x: x, own: r}
	rd.all(c.w.plan.patience())
	if r.answers == 0 || r.lost != nil || r.value != "ok" {
		r.given = true
		return false
	}
	c.session = rd.header.session
	s := c.w.history.session(c.session)
	s.created, s.last = true, c.w.s.now
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return true
}

// post sends what needs no answer.
func (c *client) post(body string) {
	rd := reader{c: c, x: c.w.net.Send(c.p, Request{"POST", c.header(), []byte(body)})}
	rd.all(c.w.plan.patience())
}

// do calls a tool.
func (c *client) do(op *Op) {
	if c.closing {
		return
	}
	for range 1 + c.w.boolInt(c.kind == Repeater) {
		r := &request{client: c, tool: op.Tool, id: strconv.Itoa(c.next + 1), sent: c.w.s.now}
		c.w.history.add(r)
		c.pending = append(c.pending, r)
		c.p.Go(func() { c.call(op, r) })
	}
	c.next++
}

func (c *client) call(op *Op, r *request) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"n":%q,"ms":%d,"bytes":%d},"_meta":{"progressToken":"t%s"}}}`,
		r.id, op.Tool, r.n, op.Takes.Milliseconds(), op.Bytes, r.n)
	request := Request{"POST", c.header(), []byte(body)}
	c.w.tales.of(r.n, AtClient, AtFront, "POST tools/call %s, id %s", r.tool, r.id)
	x := c.w.net.Send(c.p, request)
	rd := reader{c: c, x: x, own: r}
	boots := c.w.boots
	if c.kind == Mute {
		r.given = true
		return
	}
	if op.Leave > 0 {
		c.p.AfterFunc(op.Leave, func() {
			if r.answers == 0 {
				c.w.sometimes("client leaves")
				c.w.tales.of(r.n, AtClient, AtClient, "the connection is cut")
				x.Cut()
			}
		})
	}
	rd.all(c.w.plan.patience())
	c.resume(r, &rd)
	if r.lost != nil && !r.lost.Started && c.kind == Retrier && !c.closing {
		again := *op
		c.w.sometimes("retried what had not started")
		c.do(&again)
	}
	if op.Again > 0 && c.kind.resumes() && r.answers > 0 {
		c.again(op.Again, &rd, boots)
	}
}

// resume comes back for an answer that has not come.
func (c *client) resume(r *request, rd *reader) {
	for try := 1; r.answers == 0 && !c.closing; try++ {
		switch {
		case rd.refused && (r.refused || rd.status < 500):
			c.drop(r)
			return
		case rd.refused: // the rest did not come, which says whether it is refused or lost
			r.failed = true
			return
		case !rd.headed:
			r.failed = true // nothing is known; a GET may bring the answer yet
			return
		case rd.last == "" || c.kind == Stubborn:
			if rd.ended && rd.last == "" {
				c.w.history.violate("I1", "the stream of request %s (%s) ended without its answer and without an event id to resume from", r.n, r.tool)
			}
			r.left = rd.x
			return
		}
		c.p.Sleep(c.backOff(try))
		c.w.sometimes("resumed a POST's stream")
		h := c.header()
		h["Last-Event-ID"] = rd.last
		c.w.tales.of(r.n, AtClient, AtFront, "GET%s", after(rd.last))
		again := reader{c: c, x: c.w.net.Send(c.p, Request{"GET", h, nil}), own: r, last: rd.last, headed: true, resumed: true}
		again.all(c.w.plan.patience())
		if again.refused && again.status == 404 {
			c.missing("GET")
			return
		}
		rd.last, rd.ended = again.last, again.ended
	}
}

// kept is how long what was delivered stays for sure, for a client that comes back: a
// flush may be noted together with those of an eighth of the retention before it.
func (p *Plan) kept() time.Duration { return max(p.Retention*7/8-2*time.Second, 0) }

// again resumes the stream of a request that has been answered, a while later, from
// before what the client has got of it last: within the retention it gets just that once
// more. boots is how many hosts had been started when the request was sent: one that is
// killed may not have known what it had delivered.
func (c *client) again(after time.Duration, rd *reader, boots int) {
	last, err := session.ParseEventID(rd.last)
	if err != nil || session.IsTold(rd.last) {
		return
	}
	c.p.Sleep(after)
	log := c.logs[last.Stream]
	from := 0
	for from < len(log) && c.w.s.now.Sub(log[from].at) >= c.w.plan.kept() {
		from++
	}
	if c.closing || from == len(log) || log[len(log)-1].id != last || !gjson.Get(log[len(log)-1].data, "id").Exists() {
		return
	}
	if row := c.w.disk.image.Get(objectOf(c.session), "s/"+last.Stream); !gjson.GetBytes(row, "done").Bool() {
		return // the session may not know yet that it has arrived, and may tell it again elsewhere
	}
	at := session.EventID{Stream: last.Stream, Epoch: log[0].id.Epoch}
	if from > 0 {
		at = log[from-1].id
	}
	h := c.header()
	h["Last-Event-ID"] = at.String()
	marks := len(c.w.watch.marks)
	more := reader{c: c, x: c.w.net.Send(c.p, Request{"GET", h, nil}), again: true}
	more.all(time.Minute)
	if c.closing || c.w.over || c.w.boots != boots || c.w.host.closing || len(c.w.watch.marks) != marks || !c.w.steady() || c.w.s.now.Sub(log[from].at) >= c.w.plan.kept() {
		return // something else may have been in its way
	}
	want := log[from:]
	same := func(id session.EventID, e entry) bool { return id == e.id }
	switch {
	case more.late:
		c.w.history.violate("I11", "client %s resumed from %s, from which on all was answered, and the stream does not end", c.name, at)
	case (more.ended || more.status == 204) && !slices.EqualFunc(more.got, want, same):
		c.w.history.violate("I11", "client %s resumed from %s within the retention and got %v, not %v", c.name, at, more.got, idsOf(want))
	case more.ended:
		c.w.sometimes("came back for what it had")
	}
}

func idsOf(log []entry) (ids []session.EventID) {
	for _, e := range log {
		ids = append(ids, e.id)
	}
	return ids
}

// listen holds a GET stream open.
func (c *client) listen() {
	last := ""
	for try := 1; !c.closing; try++ {
		h := c.header()
		if last != "" && c.kind != Stubborn {
			h["Last-Event-ID"] = last
		}
		rd := reader{c: c, x: c.w.net.Send(c.p, Request{"GET", h, nil}), last: last}
		rd.all(24 * time.Hour)
		if c.closing || c.w.over {
			return
		}
		switch {
		case rd.status == 404:
			c.missing("GET")
			return
		case rd.status == 204: // nothing is left of that stream: a fresh one
			last = ""
		case rd.headed && !rd.refused:
			last, try = rd.last, 1
		}
		c.p.Sleep(c.backOff(try))
	}
}

// missing is a session of which the host says that it is not there.
func (c *client) missing(what string) {
	s := c.w.history.session(c.session)
	if !s.ended && c.w.s.now.Sub(s.last)+2*c.w.clockFar < c.w.plan.Lifetime {
		c.w.history.violate("I13", "%s of client %s: the session %s is not found, and it has not ended", what, c.name, c.session)
	}
}

// end deletes the session.
func (c *client) end() {
	c.closing = true
	c.w.history.session(c.session).ended = true
	rd := reader{c: c, x: c.w.net.Send(c.p, Request{"DELETE", c.header(), nil})}
	rd.all(c.w.plan.patience())
	c.w.sometimes("session deleted")
}

// unanswered is the request, or another with its id when a GET brought an error that
// was taken for its answer: errors don't say whose they are.
func (c *client) unanswered(r *request) *request {
	if r.answers == 0 {
		return r
	}
	for _, o := range c.pending {
		if o.id == r.id && o.answers == 0 {
			return o
		}
	}
	c.retold(r)
	return r
}

// retold reports that the error that was taken for a request's answer was told again to
// another with its id: then the request has none yet.
func (c *client) retold(r *request) bool {
	again := r.lost != nil && slices.ContainsFunc(c.w.history.requests, func(o *request) bool {
		return o != r && o.client == c && o.id == r.id && c.w.history.toldAgain(o, r.lost)
	})
	if again {
		r.answers, r.last, r.lost = 0, 0, nil
	}
	return again
}

// mistaken is a request of which an error was taken for its answer that was another's,
// with the same id, as a result shows now.
func (c *client) mistaken(n string) *request {
	r := c.w.history.byN[n]
	if r == nil || r.client != c || r.lost == nil {
		return nil
	}
	for _, o := range c.pending {
		if o.id == r.id && o.answers == 0 {
			o.answers, o.last, o.lost, o.done = r.answers, r.last, r.lost, r.done
			r.answers, r.last, r.lost = 0, 0, nil
			c.drop(o)
			return r
		}
	}
	if r.last == 0 && c.retold(r) { // else the session tells in its own words what a front had told
		return r
	}
	return nil
}

// leave ends all that the client has open.
func (c *client) leave() {
	c.closing = true
	for _, x := range slices.Clone(c.w.net.open) {
		if x.client == c.p {
			x.Leave()
		}
	}
	c.p.Kill()
}

func (c *client) drop(r *request) {
	c.pending = slices.DeleteFunc(c.pending, func(o *request) bool { return o == r })
}
