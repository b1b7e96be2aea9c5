package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/guarantees"
	"github.com/kalpahost/kalpa/mcp/session"
)

// all runs every cause at every point; otherwise each cell of the table has one
// cause, and each cause one cell.
var all = os.Getenv("KALPA_CHAOS") == "full"

// trial is one request whose session is reset when its execution comes to a point.
type trial struct {
	guarantees.Cell
	cold  bool // no runtime is resident when it comes
	cause guarantees.Cause
	// hold is how long the session stands still at the point, so that its client can be
	// cut off in between.
	hold time.Duration
}

func (tr trial) String() string {
	s := tr.Point.String()
	if tr.Situation != guarantees.Killed {
		s += " " + tr.cause.Cause.String()
	}
	if tr.cold {
		s += " cold"
	}
	return s
}

// trials are those of one situation.
func trials(s guarantees.Situation, full bool) (list []trial) {
	causes := guarantees.Causes()
	for i, cell := range guarantees.Cells() {
		if cell.Situation != s {
			continue
		}
		of := causes
		switch {
		case s == guarantees.Killed:
			of = causes[:1] // that it was killed is the cause
		case !full && (cell.Point != actor.AfterDelivery || s != guarantees.Alive):
			of = []guarantees.Cause{causes[i%len(causes)]}
		}
		for _, cause := range of {
			list = append(list, trial{cell, false, cause, hold})
		}
		for _, cause := range of {
			if full || cell.StartedCold != cell.Started {
				list = append(list, trial{cell, true, cause, hold})
			}
		}
	}
	return list
}

const hold = 300 * time.Millisecond

// slower is the trial for a machine that was too slow to cut in time.
func (tr trial) slower(t *testing.T) trial {
	t.Helper()
	if tr.hold *= 3; tr.hold > actor.MaxHold {
		t.Fatal("the connection can't be cut before the reset")
	}
	return tr
}

// strike is the one that a trial wants.
func (tr trial) strike(session string) strike {
	s := strike{Point: tr.Point.String(), Session: session, Tool: tr.tool(), Cause: tr.cause.Cause.String()}
	if tr.cause.Scope == actor.WholeIsolate {
		s.Scope = "isolate"
	}
	if tr.Situation == guarantees.Killed {
		s.Scope, s.Cause = "process", ""
	}
	if tr.Situation != guarantees.Alive {
		s.Hold = tr.hold.String()
	}
	return s
}

// tool is one that takes long where an answer would come before the reset, and else
// one that leaves a trace of having run.
func (tr trial) tool() string {
	if tr.Point == actor.AfterDelivery || tr.Point == actor.BetweenEvents {
		return "sleep"
	}
	return "incr"
}

// arguments are the tool's.
func (tr trial) arguments() object {
	if tr.tool() == "sleep" {
		return object{"ms": 30000, "steps": 300}
	}
	return object{}
}

// reports: the call asks for progress.
func (tr trial) reports() bool { return tr.Point == actor.BetweenEvents }

// loss is what is to be said of the request.
func (tr trial) loss() session.Loss {
	l := session.LostTo(tr.cause.Cause)
	if tr.Situation == guarantees.Killed {
		l = session.Lost(session.ReasonRestart)
	}
	l.Started, l.Tool = tr.Started, tr.tool()
	if tr.cold {
		l.Started = tr.StartedCold
	}
	return l
}

// counted is how often incr has run after the trial, where that is certain.
func (tr trial) counted() (n int, certain bool) {
	switch {
	case tr.tool() != "incr":
		return 0, true
	case tr.Outcome == guarantees.Answered, tr.Outcome == guarantees.Replayed:
		return 1, true
	case tr.Outcome == guarantees.NotAccepted, !tr.loss().Started:
		return 0, true
	}
	return 0, false
}

// checkLoss checks the error that a client got.
func (tr trial) checkLoss(t *testing.T, code int, text string, data json.RawMessage, before, after uint64) {
	t.Helper()
	var got session.Loss
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	want := tr.loss()
	if code != -32010 || !strings.HasSuffix(text, "Execution lost: "+want.Sentence) {
		t.Errorf("the error is %d %q, want %q", code, text, want.Sentence)
	}
	if got.Epoch < before || after != 0 && got.Epoch >= after {
		t.Errorf("the request was lost in epoch %d, want one from %d to before %d", got.Epoch, before, after)
	}
	want.Sentence, want.Epoch = "", got.Epoch
	if got != want {
		t.Errorf("the loss is %+v, want %+v", got, want)
	}
}

// Whatever resets a session, and wherever in an execution: each request is answered
// once, in time, with what the table says; and the session goes on (I1, I4, I11). One
// session goes through all of a situation.
func TestRawClientSeesWhatIsGuaranteed(t *testing.T) {
	t.Parallel()
	// A client of an older revision holds no event id before it has seen an event.
	for _, version := range []string{vNov, vJun} {
		for _, s := range guarantees.Situations() {
			if version == vJun && s == guarantees.Alive && !all {
				continue // it differs in what a client holds that comes back
			}
			t.Run(version+" "+s.String(), func(t *testing.T) {
				t.Parallel()
				h := serve(t, hosting{flags: withAdmin})
				c := newClient(t, h.url)
				c.connect(version)
				r := &rawSubject{h: h, c: c}
				for _, tr := range trials(s, all && version == vNov) {
					t.Run(tr.String(), func(t *testing.T) { r.goThrough(t, tr) })
				}
			})
		}
	}
}

// rawSubject is a session that goes through trials, as the raw client sees it.
type rawSubject struct {
	h     *host
	c     *client
	n     int // requests so far
	count int // what incr has answered last
	epoch uint64
}

func (r *rawSubject) goThrough(t *testing.T, tr trial) {
	c := *r.c
	c.t = t
	r.next(t, &c, 0, true) // and a runtime is resident
	before := r.epoch
	if tr.cold {
		r.h.reset(t, c.session, "aborted")
	}
	r.n++
	id := strconv.Itoa(r.n)
	arguments, err := json.Marshal(tr.arguments())
	if err != nil {
		t.Fatal(err)
	}
	body := call(id, tr.tool(), string(arguments))
	if tr.reports() {
		body = callWithToken(id, tr.tool(), string(arguments), `"t"`)
	}
	number := r.h.arm(t, tr.strike(c.session))
	p := c.begin(body)
	from := r.h.struck(t, number)
	reached := time.Now()

	var seen, rest []frame
	switch tr.Situation {
	case guarantees.Alive:
		rest = p.opened(t).all()
	case guarantees.Cut:
		if tr.Where == guarantees.Resumed && c.version >= vNov {
			seen = append(seen, <-p.opened(t).frames) // which it was sent before
		}
		seen = append(seen, p.seen()...)
		late := time.Since(from) >= tr.hold
		time.Sleep(time.Until(reached.Add(tr.hold)))
		if late {
			r.next(t, &c, 0, false)
			r.goThrough(t, tr.slower(t))
			return
		}
	case guarantees.Killed:
		<-r.h.ended
		seen = p.seen()
		r.h.restart()
	}
	if tr.Situation != guarantees.Alive {
		from = time.Now()
		rest = r.comeBack(t, &c, tr, id, seen)
	}
	if took := time.Since(from); took > guarantees.Within {
		t.Errorf("the answer took %v, want %v at most", took, guarantees.Within)
	}

	got := slices.DeleteFunc(answers(t, append(seen, rest...)), func(m message) bool { return string(m.ID) != id })
	checkSequence(t, seen, rest)
	if tr.Outcome == guarantees.NotAccepted {
		if len(got) != 0 {
			t.Errorf("a request that was not accepted is answered: %+v", got)
		}
	} else if len(got) != 1 {
		t.Fatalf("the request has %d answers, want 1: %q %q", len(got), raws(seen), raws(rest))
	}
	r.nothingMore(t, &c, id, append(seen, rest...))
	ran, certain := tr.counted()
	r.next(t, &c, ran, certain)
	switch tr.Outcome {
	case guarantees.Lost:
		if got[0].Error == nil {
			t.Fatalf("the request is answered by %s, want an error", got[0].Result)
		}
		tr.checkLoss(t, got[0].Error.Code, got[0].Error.Message, got[0].Error.Data, before, r.epoch)
	case guarantees.Answered, guarantees.Replayed:
		if text := got[0].Text(); text != strconv.Itoa(r.count-1) {
			t.Errorf("the request is answered by %q %+v, want %d", text, got[0].Error, r.count-1)
		}
	case guarantees.NotAccepted:
	}
	if r.epoch <= before {
		t.Errorf("the epoch is %d after the reset, and was %d", r.epoch, before)
	}
}

// comeBack reconnects as a client does that holds the events it has seen, and reads
// up to the answer to a request.
func (r *rawSubject) comeBack(t *testing.T, c *client, tr trial, id string, seen []frame) (rest []frame) {
	t.Helper()
	last := lastID(seen)
	if holds := last != ""; holds != (tr.Where == guarantees.Resumed) && c.version >= vNov {
		t.Errorf("the client holds the event %q; the answer is to come %s", last, tr.Where)
	}
	x := c.get(last)
	defer x.close()
	if last != "" {
		return x.all() // which owes nothing when it has told everything
	}
	limit := 2 * guarantees.Within
	if tr.Outcome == guarantees.NotAccepted {
		limit = 100 * time.Millisecond
	}
	for {
		f, ok := x.within(limit)
		if !ok {
			return rest
		}
		rest = append(rest, f)
		if m := parse(t, f.data); m.Method == "" && string(m.ID) == id {
			return rest
		}
	}
}

// nothingMore checks that a request is not answered again, to a client that asks in
// both ways.
func (r *rawSubject) nothingMore(t *testing.T, c *client, id string, frames []frame) {
	t.Helper()
	var more []frame
	if last := lastID(frames); last != "" && last[0] == 'p' {
		more = c.get(last).all()
	}
	x := c.get("")
	defer x.close()
	for {
		f, ok := x.within(50 * time.Millisecond)
		if !ok {
			break
		}
		more = append(more, f)
	}
	for _, m := range answers(t, more) {
		if string(m.ID) == id {
			t.Errorf("the request is answered once more: %q", raws(more))
		}
	}
}

// next makes the session's next call. ran is how often incr has run since the last,
// if that is certain.
func (r *rawSubject) next(t *testing.T, c *client, ran int, certain bool) {
	t.Helper()
	r.n++
	x := c.post(call(strconv.Itoa(r.n), "incr", `{}`))
	frames := x.all()
	got := answers(t, frames)
	if x.status != 200 || len(got) != 1 || string(got[0].ID) != strconv.Itoa(r.n) {
		t.Fatalf("the next call: status %d, %q", x.status, raws(frames))
	}
	n, err := strconv.Atoi(got[0].Text())
	want := r.count + 1 + ran
	if err != nil || n != want && (certain || n != want+1) {
		t.Fatalf("the next call is answered by %q %+v, want %d (certain: %v)", got[0].Text(), got[0].Error, want, certain)
	}
	r.count = n
	_, r.epoch, _ = position(t, lastID(frames))
}

// lastID is the id of the last event that has one.
func lastID(frames []frame) string {
	for _, f := range slices.Backward(frames) {
		if f.id != "" {
			return f.id
		}
	}
	return ""
}

// position takes an event's id apart: stream.epoch.sequence.
func position(t testing.TB, id string) (stream string, epoch, seq uint64) {
	t.Helper()
	e, err := session.ParseEventID(id)
	if err != nil {
		t.Fatal(err)
	}
	return e.Stream, e.Epoch, e.Seq
}

// checkSequence checks that a client that resumed a stream has every event of it
// once, in order (I11).
func checkSequence(t *testing.T, seen, rest []frame) {
	t.Helper()
	var before frame
	for _, f := range messages(append(slices.Clone(seen), rest...)) {
		if before.id != "" {
			s0, e0, n0 := position(t, before.id)
			s1, e1, n1 := position(t, f.id)
			if s0 == s1 && !(e0 == e1 && n1 == n0+1 || e1 > e0 && n1 == 1) {
				t.Errorf("after the event %s comes %s", before.id, f.id)
			}
		}
		before = f
	}
}

// The official client sees the same.
func TestOfficialClientSeesWhatIsGuaranteed(t *testing.T) {
	t.Parallel()
	needNode(t)
	for _, s := range guarantees.Situations() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			h := serve(t, hosting{flags: withAdmin})
			cutter, url := behindCutter(t, h.url)
			c := newTSClient(t)
			o := &officialSubject{h: h, c: c, cutter: cutter, session: c.connect(url, nil).Session}
			c.listening(0)
			for _, tr := range trials(s, all) {
				if !tr.cold {
					t.Run(tr.String(), func(t *testing.T) { o.goThrough(t, tr) })
				}
			}
		})
	}
}

type officialSubject struct {
	h       *host
	c       *tsClient
	cutter  *cutter
	session string
	count   int
}

func (o *officialSubject) goThrough(t *testing.T, tr trial) {
	defer func(of testing.TB) { o.c.t = of }(o.c.t)
	o.c.t = t
	o.next(t, 0, true)
	mark := o.c.mark()
	number := o.h.arm(t, tr.strike(o.session))
	n, reply := o.c.begin("callTool", object{"name": tr.tool(), "arguments": tr.arguments()}, object{"progress": tr.reports()})
	from := o.h.struck(t, number)
	switch tr.Situation {
	case guarantees.Alive:
	case guarantees.Cut:
		reached := time.Now()
		if tr.Where == guarantees.Resumed {
			o.c.await(mark, "an id to resume from", func(e tsEvent) bool { return e.Event == "resumable" && e.N == n })
		}
		o.cutter.cut()
		late := time.Since(from) >= tr.hold
		from = reached.Add(tr.hold)
		if late {
			o.c.wait("the call", reply)
			time.Sleep(time.Until(from))
			o.next(t, 0, false)
			o.goThrough(t, tr.slower(t))
			return
		}
	case guarantees.Killed:
		<-o.h.ended
		o.h.restart()
		from = time.Now()
	}
	r := o.c.wait("the call", reply)
	if took := time.Since(from); took > guarantees.Within {
		t.Errorf("the answer took %v, want %v at most", took, guarantees.Within)
	}
	// A client whose connection is cut before there is an answer knows no more than
	// that. What it could not be told comes on its GET, if anything does, where it is of
	// no use to it any more.
	unsure := tr.Where == guarantees.Nowhere || tr.Where == guarantees.Fresh
	ran, certain := tr.counted()
	switch {
	case unsure:
		if code, number := r.number(); r.Error == nil || number {
			t.Errorf("the call brings %s %+v %v, want no answer", r.Result, r.Error, code)
		}
	case tr.Outcome == guarantees.Lost:
		if r.Error == nil {
			t.Fatalf("the call brings %s, want an error", r.Result)
		}
		code, _ := r.number()
		tr.checkLoss(t, code, r.Error.Message, r.Error.Data, 0, 0)
	default:
		if got := (message{Result: r.Result}).Text(); r.Error != nil || got != strconv.Itoa(o.count+1) {
			t.Errorf("the call brings %q %+v, want %d", got, r.Error, o.count+1)
		}
	}
	time.Sleep(time.Until(from)) // the call may have failed before the reset
	o.next(t, ran, certain)
	time.Sleep(100 * time.Millisecond)
	twice := o.c.saw(func(e tsEvent) bool { return e.Event == "error" && strings.Contains(e.Message, "unknown message ID") })
	if len(twice) > 0 && !unsure {
		t.Errorf("the client got an answer that it did not wait for: %s", twice[0].Message)
	}
	o.c.forget(mark)
}

// number is the code of an error, if it has one that is a number: if it came from
// the host.
func (r tsReply) number() (code int, ok bool) {
	if r.Error == nil {
		return 0, false
	}
	f, ok := r.Error.Code.(float64)
	return int(f), ok
}

func (o *officialSubject) next(t *testing.T, ran int, certain bool) {
	t.Helper()
	got := o.c.tool("incr", object{})
	n, err := strconv.Atoi(got)
	want := o.count + 1 + ran
	if err != nil || n != want && (certain || n != want+1) {
		t.Fatalf("the next call is answered by %q, want %d (certain: %v)", got, want, certain)
	}
	o.count = n
}
