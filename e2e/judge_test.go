package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// account is all that one client has done and seen.
type account struct {
	calls []*attempt
	seen  []sighting
	bad   []string
	kills []time.Time // of the host
	// stored are the answers in the session's log, by request, where that was looked at.
	stored map[string]int
}

// judgement is what a judge makes of accounts.
type judgement struct {
	faults []string
	// Requests, by what became of them. Those that were answered more than once because
	// a host was killed before it had noted that the client has the answer are among
	// them, and counted apart.
	results, unsure, refused, again int
	lost                            map[string]int // by reason
	onGet                           int            // answered there
	slowest                         time.Duration
	// noted is the longest time between such an answer and the kill.
	noted time.Duration
	// resorts are answers that a front has given itself, as its last resort.
	resorts int
}

// unnoted is how long before a kill an answer may have come to a client for it to be
// told again: mcp/session writes down within 100 ms what a front has flushed. The rest
// is for a machine that is very busy; on which a client may also read late what a host
// had sent before it was killed.
const unnoted = 2 * time.Second

func (j *judgement) fault(format string, a ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, a...))
}

// judge accounts for each request, and for each event, of one client.
func (j *judgement) judge(a account) {
	if j.lost == nil {
		j.lost = map[string]int{}
	}
	for _, bad := range a.bad {
		j.fault("%s", bad)
	}
	byID := map[string]*attempt{}
	for _, c := range a.calls {
		byID[c.id] = c
	}
	answers := map[string][]sighting{}
	for _, s := range a.seen {
		j.place(s, byID)
		if s.m.Method == "" {
			answers[string(s.m.ID)] = append(answers[string(s.m.ID)], s)
		}
	}
	j.events(a.seen)
	for _, c := range a.calls {
		j.call(c, answers[c.id], a)
	}
	j.counter(a.calls, answers)
}

// place checks that an event is where it belongs.
func (j *judgement) place(s sighting, byID map[string]*attempt) {
	if s.frame.id == "" {
		if s.place != onPost {
			j.fault("an event without an id on %v: %s", s.place, s.frame.raw)
		}
	} else if kind := streamOf(s.frame.id)[0]; (kind == 'g') != (s.place == onGet) {
		j.fault("an event of another stream on %v: %s", s.place, s.frame.raw)
	} else if s.place == onResumed && s.of.stream != streamOf(s.frame.id) {
		j.fault("an event of another stream than %s, which was resumed: %s", s.of.stream, s.frame.raw)
	}
	whose := string(s.m.ID)
	switch {
	case s.m.Method == "notifications/progress":
		var p struct{ ProgressToken json.RawMessage }
		_ = json.Unmarshal(s.m.Params, &p)
		whose = string(p.ProgressToken)
		if s.place == onGet {
			j.fault("progress on a GET: %s", s.frame.raw)
			return
		}
	case s.m.Method != "":
		return
	}
	c := byID[whose]
	switch {
	case c == nil:
		j.fault("a message about a request of somebody else, or of nobody: %s", s.frame.raw)
	case s.place != onGet && s.of != c.post:
		j.fault("a message about %s on %v that is %s's: %s", c.id, s.place, s.of.attempts[0].id, s.frame.raw)
	}
}

// events checks that each event has come once, with one content, and in order (I11).
func (j *judgement) events(seen []sighting) {
	data, last := map[string]string{}, map[string]session.EventID{}
	for _, s := range seen {
		if s.frame.id == "" || session.IsTold(s.frame.id) { // no event of the log: a last resort
			continue
		}
		at, err := session.ParseEventID(s.frame.id)
		if err != nil {
			j.fault("%v", err)
			continue
		}
		switch before, twice := data[s.frame.id]; {
		case twice && before != s.frame.data:
			j.fault("the event %s is %s, and was %s", s.frame.id, s.frame.data, before)
		case twice:
			j.fault("the event %s has come twice: %s", s.frame.id, s.frame.data)
		case !follows(last[at.Stream], at):
			j.fault("after the event %v comes %v", last[at.Stream], at)
		}
		data[s.frame.id], last[at.Stream] = s.frame.data, at
	}
}

// follows tells whether an event can come after another of its stream, or as the
// first.
func follows(before, e session.EventID) bool {
	if before.Epoch == e.Epoch {
		return e.Seq == before.Seq+1
	}
	return e.Epoch > before.Epoch && e.Seq == 1
}

// call checks that a request is answered, and once.
func (j *judgement) call(c *attempt, got []sighting, a account) {
	switch {
	case len(got) == 0 && c.post.fate == accepted && !c.post.lost():
		j.fault("%s (%s) was accepted, and is not answered", c.id, c.tool)
		return
	case len(got) == 0 && a.stored[c.id] > 0:
		j.fault("the answer to %s (%s) was stored, and has not come", c.id, c.tool)
		return
	case len(got) == 0 && c.post.fate == refused:
		j.refused++
		return
	case len(got) == 0:
		j.unsure++
		return
	case c.post.fate == refused:
		j.fault("%s (%s) was refused, and is answered: %s", c.id, c.tool, got[0].frame.raw)
	case len(got) > 2 || len(got) == 2 && !got[0].lastResort() && !j.killedBetween(got[0], got[1], a.kills):
		var all []string
		for _, s := range got {
			all = append(all, fmt.Sprintf("%s on %v: %s", s.at.Format("05.000"), s.place, s.frame.raw))
		}
		j.fault("%s (%s) is answered %d times:\n\t%s", c.id, c.tool, len(got), strings.Join(all, "\n\t"))
	case len(got) == 2 && !got[0].lastResort():
		j.again++
	}
	first := got[0]
	if first.place == onGet {
		j.onGet++
		// A front that is slow to pass its POST on does not keep a loss from its client, nor
		// a result whose stream can't be resumed: there has been no event.
		if _, lost := lossIn(first.m); c.post.fate == accepted && !c.post.broke && !lost && c.post.stream != "" {
			j.fault("%s is answered on a GET, and its POST was there: %s", c.id, first.frame.raw)
		}
	}
	j.slowest = max(j.slowest, first.at.Sub(c.post.begun))
	if first.lastResort() {
		j.resorts++
	}
	if first.m.Error != nil {
		j.loss(c, first.m)
		return
	}
	j.results++
	if c.tool == "" {
		return
	}
	text, want := first.m.text(), c.want
	if n, err := strconv.Atoi(text); want == "" && err == nil {
		want = strconv.Itoa(n)
	}
	if text == "" || text != want {
		j.fault("%s (%s) is answered by %q, want %q", c.id, c.tool, text, want)
	}
}

// killedBetween is one of the two exceptions to once: a host was killed shortly after an answer had come,
// and the next one says the same on a GET.
func (j *judgement) killedBetween(first, second sighting, kills []time.Time) bool {
	for _, k := range kills {
		if age := k.Sub(first.at); age < unnoted && age > -unnoted && second.at.After(k) && second.place == onGet && second.frame.data == first.frame.data {
			j.noted = max(j.noted, age)
			return true
		}
	}
	return false
}

func (j *judgement) loss(c *attempt, m message) {
	l, ok := lossIn(m)
	if !ok || l.Tool != c.tool || l.Reason == "" {
		j.fault("%s (%s) is answered by error %d %q, %s", c.id, c.tool, m.Error.Code, m.Error.Message, m.Error.Data)
	}
	j.lost[l.Reason]++
}

// lastResort: the other exception. A front has answered itself, on the stream, or as a
// body where none had begun.
func (s sighting) lastResort() bool {
	return s.place == onPost && s.m.Error != nil && (s.frame.id == "" || session.IsTold(s.frame.id))
}

// lossIn is the loss that a message tells of.
func lossIn(m message) (l session.Loss, ok bool) {
	if m.Error == nil || m.Error.Code != -32010 {
		return l, false
	}
	return l, json.Unmarshal(m.Error.Data, &l) == nil
}

// counter checks the numbers that incr has given: none is lost, and none was counted
// for a request that is said not to have been started.
func (j *judgement) counter(calls []*attempt, answers map[string][]sighting) {
	counted := map[int]string{}
	most, maybe := 0, 0
	for _, c := range calls {
		if c.tool != "incr" || c.post.fate == refused {
			continue
		}
		if len(answers[c.id]) == 0 {
			maybe++ // it may have been accepted, executed and lost
			continue
		}
		m := answers[c.id][0].m
		if l, ok := lossIn(m); ok {
			if l.Started {
				maybe++
			}
			continue
		}
		n, err := strconv.Atoi(m.text())
		if err != nil {
			continue // which is told elsewhere
		}
		if other := counted[n]; other != "" {
			j.fault("the number %d was given to %s and to %s", n, other, c.id)
		}
		counted[n] = c.id
		most = max(most, n)
	}
	if most < len(counted) || most > len(counted)+maybe {
		j.fault("the counter of %s is at %d, with %d numbers given and %d calls that may have counted", calls[0].id, most, len(counted), maybe)
	}
}

func (j *judgement) String() string {
	return fmt.Sprintf("%d results, %d lost %v, %d of these on a GET; %d never accepted, %d refused; %d told again after a kill within %v; %d by a last resort; slowest %v",
		j.results, sum(j.lost), j.lost, j.onGet, j.unsure, j.refused, j.again, j.noted.Round(time.Millisecond), j.resorts, j.slowest.Round(time.Millisecond))
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func streamOf(event string) string { stream, _, _ := strings.Cut(event, "."); return stream }

func unmarshal(data string, m *message) error { return json.Unmarshal([]byte(data), m) }

// A judge that finds nothing wrong shows nothing if it can't.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const p, q, g = "paaaaaaaaaaaaa", "pbbbbbbbbbbbbb", "gaaaaaaaaaaaaa"
	kill := time.Unix(1000, 0)
	post := func(id, stream string, f fate) *attempt {
		a := &attempt{id: id, tool: "incr"}
		a.post = &post{attempts: []*attempt{a}, fate: f, stream: stream, begun: kill.Add(-time.Second)}
		return a
	}
	event := func(where place, of *attempt, id, data string) sighting {
		s := sighting{at: kill.Add(-100 * time.Millisecond), place: where, of: of.post, frame: frame{id: id, data: data, raw: data}}
		if err := unmarshal(data, &s.m); err != nil {
			t.Fatal(err)
		}
		return s
	}
	number := func(id string, n int) string {
		return fmt.Sprintf(`{"id":%s,"result":{"content":[{"text":"%d"}]}}`, id, n)
	}
	lost := func(id string, started bool) string {
		return fmt.Sprintf(`{"id":%s,"error":{"code":-32010,"data":{"reason":"restart","started":%t,"epoch":1,"tool":"incr"}}}`, id, started)
	}
	progress := `{"method":"notifications/progress","params":{"progressToken":1}}`
	later := func(s sighting, d time.Duration) sighting { s.at = kill.Add(d); return s }
	one, two := post("1", p, accepted), post("2", q, accepted)
	broke := post("3", p, accepted)
	broke.post.broke = true
	lone, none := post("4", "", unsure), post("5", "", refused)
	nobody := &attempt{}
	good := []sighting{event(onPost, one, p+".1.1", progress), event(onPost, one, p+".1.2", number("1", 1)), event(onPost, two, q+".1.1", number("2", 2))}
	both := []*attempt{one, two}

	for name, tc := range map[string]struct {
		calls  []*attempt
		seen   []sighting
		bad    []string
		stored string
		want   string // empty: nothing is wrong
	}{
		"all right":                      {calls: both, seen: good},
		"a lost one":                     {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", lost("2", true)))},
		"resumed":                        {calls: []*attempt{broke}, seen: []sighting{event(onPost, broke, p+".1.1", `{"method":"x"}`), event(onResumed, broke, p+".2.1", number("3", 1))}},
		"on a GET":                       {calls: []*attempt{broke}, seen: []sighting{event(onGet, nobody, g+".2.1", lost("3", true))}},
		"told again after a kill":        {calls: both, seen: append(good[:3:3], later(event(onGet, nobody, g+".2.1", number("2", 2)), time.Second))},
		"never accepted":                 {calls: []*attempt{lone}},
		"refused":                        {calls: []*attempt{none}},
		"hung":                           {calls: both, seen: good[:2], want: "2 (incr) was accepted, and is not answered"},
		"stored, and not told":           {calls: []*attempt{lone}, stored: "4", want: "the answer to 4 (incr) was stored, and has not come"},
		"answered twice":                 {calls: both, seen: append(good[:3:3], event(onResumed, two, q+".1.2", number("2", 2))), want: "2 (incr) is answered 2 times"},
		"told by a last resort":          {calls: both, seen: append(good[:2:2], event(onPost, two, "", strings.Replace(lost("2", true), `"epoch":1`, `"epoch":0`, 1)), event(onGet, nobody, g+".2.1", lost("2", true)))},
		"told again without a kill":      {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".2.1", number("2", 2))), want: "2 (incr) is answered 2 times"},
		"lost, while its front is slow":  {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".1.1", lost("2", true)))},
		"a result, likewise":             {calls: []*attempt{post("1", "", accepted)}, seen: []sighting{event(onGet, nobody, g+".1.1", number("1", 1))}},
		"told something else":            {calls: both, seen: append(good[:3:3], later(event(onGet, nobody, g+".2.1", lost("2", true)), time.Second)), want: "2 (incr) is answered 2 times"},
		"told again long after":          {calls: both, seen: append([]sighting{good[0], good[1], later(good[2], -3*time.Second)}, later(event(onGet, nobody, g+".2.1", number("2", 2)), time.Second)), want: "2 (incr) is answered 2 times"},
		"refused and answered":           {calls: []*attempt{none}, seen: []sighting{event(onGet, nobody, g+".2.1", lost("5", false))}, want: "5 (incr) was refused, and is answered"},
		"on the wrong POST":              {calls: both, seen: append(good[:2:2], event(onPost, one, p+".1.3", number("2", 2))), want: "a message about 2 on its POST that is 1's"},
		"on the wrong stream":            {calls: both, seen: append(good[:2:2], event(onResumed, two, p+".1.3", number("2", 2))), want: "an event of another stream than " + q},
		"on a GET, without need":         {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".1.1", number("2", 2))), want: "2 is answered on a GET, and its POST was there"},
		"a stream's event on a GET":      {calls: []*attempt{broke}, seen: []sighting{event(onGet, nobody, p+".1.1", number("3", 1))}, want: "an event of another stream on a GET"},
		"somebody else's":                {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".1.1", number("9", 9))), want: "a message about a request of somebody else"},
		"progress on a GET":              {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".1.1", progress)), want: "progress on a GET"},
		"an event twice":                 {calls: both, seen: append(good[:1:1], good...), want: "the event " + p + ".1.1 has come twice"},
		"an id with two contents":        {calls: both, seen: append([]sighting{event(onPost, one, p+".1.1", `{"method":"x"}`)}, good...), want: "the event " + p + ".1.1 is {"},
		"an event missing":               {calls: both, seen: []sighting{good[0], event(onPost, one, p+".1.3", number("1", 1)), good[2]}, want: "comes " + p + ".1.3"},
		"the first event missing":        {calls: both, seen: good[1:], want: "comes " + p + ".1.2"},
		"an increment lost":              {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", number("2", 1))), want: "the number 1 was given to 1 and to 2"},
		"one that counted twice":         {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", number("2", 3))), want: "the counter of 1 is at 3, with 2 numbers given"},
		"not started, and yet counted":   {calls: []*attempt{one, broke}, seen: []sighting{event(onResumed, broke, p+".1.1", lost("3", false)), event(onPost, one, q+".1.1", number("1", 2))}, want: "the counter of 1 is at 2, with 1 numbers given and 0"},
		"another error":                  {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", `{"id":2,"error":{"code":-32603}}`)), want: "2 (incr) is answered by"},
		"another text":                   {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", `{"id":2,"result":{}}`)), want: `2 (incr) is answered by ""`},
		"something that was seen before": {calls: both, seen: good, bad: []string{"GET: status 404"}, want: "GET: status 404"},
	} {
		j := judgement{}
		a := account{calls: tc.calls, seen: tc.seen, bad: tc.bad, kills: []time.Time{kill}}
		if tc.stored != "" {
			a.stored = map[string]int{tc.stored: 1}
		}
		j.judge(a)
		if tc.want == "" && len(j.faults) > 0 || tc.want != "" && !slices.ContainsFunc(j.faults, func(f string) bool { return strings.Contains(f, tc.want) }) {
			t.Errorf("%s: the faults are %q, want %q", name, j.faults, tc.want)
		}
	}
}
