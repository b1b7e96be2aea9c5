package soak

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/mcp/session"
)

// Account is all that one client has done and seen.
type Account struct {
	Calls []*Attempt
	Seen  []Sighting
	Bad   []string
	Kills []time.Time // of the host
	// Stored are the answers in the session's log, by request, where that was looked at.
	Stored map[string]int
}

// Answers are the last to each request, by its id.
func (a Account) Answers() map[string]Message {
	all := map[string]Message{}
	for _, s := range a.Seen {
		if s.m.Method == "" {
			all[string(s.m.ID)] = s.m
		}
	}
	return all
}

// Judgement is what a judge makes of accounts.
type Judgement struct {
	Faults []string
	// Requests, by what became of them. Those that were answered more than once because
	// a host was killed before it had noted that the client has the answer are among
	// them, and counted apart.
	Results, Unsure, Refused, Again int
	Lost                            map[string]int // by reason
	OnGet                           int            // answered there
	Slowest                         time.Duration
	// Noted is the longest time between such an answer and the kill.
	Noted time.Duration
	// Resorts are answers that a front has given itself, as its last resort.
	Resorts int
}

// unnoted is how long before a kill an answer may have come to a client for it to be
// told again: mcp/session writes down within 100 ms what a front has flushed. The rest
// is for a machine that is very busy; on which a client may also read late what a host
// had sent before it was killed.
const unnoted = 2 * time.Second

// Fault notes what is wrong.
func (j *Judgement) Fault(format string, a ...any) {
	j.Faults = append(j.Faults, fmt.Sprintf(format, a...))
}

// Judge accounts for each request, and for each event, of one client.
func (j *Judgement) Judge(a Account) {
	if j.Lost == nil {
		j.Lost = map[string]int{}
	}
	for _, bad := range a.Bad {
		j.Fault("%s", bad)
	}
	byID := map[string]*Attempt{}
	for _, c := range a.Calls {
		byID[c.ID] = c
	}
	answers := map[string][]Sighting{}
	for _, s := range a.Seen {
		j.place(s, byID)
		if s.m.Method == "" {
			answers[string(s.m.ID)] = append(answers[string(s.m.ID)], s)
		}
	}
	j.events(a.Seen)
	for _, c := range a.Calls {
		j.call(c, answers[c.ID], a)
	}
	j.counter(a.Calls, answers)
}

// place checks that an event is where it belongs.
func (j *Judgement) place(s Sighting, byID map[string]*Attempt) {
	if s.frame.ID == "" {
		if s.place != onPost {
			j.Fault("an event without an id on %v: %s", s.place, s.frame.Raw)
		}
	} else if kind := streamOf(s.frame.ID)[0]; (kind == 'g') != (s.place == onGet) {
		j.Fault("an event of another stream on %v: %s", s.place, s.frame.Raw)
	} else if s.place == onResumed && s.of.stream != streamOf(s.frame.ID) {
		j.Fault("an event of another stream than %s, which was resumed: %s", s.of.stream, s.frame.Raw)
	}
	whose := string(s.m.ID)
	switch {
	case s.m.Method == "notifications/progress":
		var p struct{ ProgressToken json.RawMessage }
		_ = json.Unmarshal(s.m.Params, &p)
		whose = string(p.ProgressToken)
		if s.place == onGet {
			j.Fault("progress on a GET: %s", s.frame.Raw)
			return
		}
	case s.m.Method != "":
		return
	}
	c := byID[whose]
	switch {
	case c == nil:
		j.Fault("a message about a request of somebody else, or of nobody: %s", s.frame.Raw)
	case s.place != onGet && s.of != c.post:
		j.Fault("a message about %s on %v that is %s's: %s", c.ID, s.place, s.of.attempts[0].ID, s.frame.Raw)
	}
}

// events checks that each event has come once, with one content, and in order (I11).
func (j *Judgement) events(seen []Sighting) {
	data, last := map[string]string{}, map[string]session.EventID{}
	for _, s := range seen {
		if s.frame.ID == "" || session.IsTold(s.frame.ID) { // no event of the log: a last resort
			continue
		}
		at, err := session.ParseEventID(s.frame.ID)
		if err != nil {
			j.Fault("%v", err)
			continue
		}
		switch before, twice := data[s.frame.ID]; {
		case twice && before != s.frame.Data:
			j.Fault("the event %s is %s, and was %s", s.frame.ID, s.frame.Data, before)
		case twice:
			j.Fault("the event %s has come twice: %s", s.frame.ID, s.frame.Data)
		case !follows(last[at.Stream], at):
			j.Fault("after the event %v comes %v", last[at.Stream], at)
		}
		data[s.frame.ID], last[at.Stream] = s.frame.Data, at
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
func (j *Judgement) call(c *Attempt, got []Sighting, a Account) {
	resort := len(got) == 2 && (got[0].lastResort() || got[0].lostOnGet() && got[1].lastResort())
	switch {
	case len(got) == 0 && c.post.fate == accepted && !c.post.lost():
		j.Fault("%s (%s) was accepted, and is not answered", c.ID, c.Tool)
		return
	case len(got) == 0 && a.Stored[c.ID] > 0:
		j.Fault("the answer to %s (%s) was stored, and has not come", c.ID, c.Tool)
		return
	case len(got) == 0 && c.post.fate == refused:
		j.Refused++
		return
	case len(got) == 0:
		j.Unsure++
		return
	case c.post.fate == refused:
		j.Fault("%s (%s) was refused, and is answered: %s", c.ID, c.Tool, got[0].frame.Raw)
	case len(got) > 2 || len(got) == 2 && !resort && !j.killedBetween(got[0], got[1], a.Kills):
		var all []string
		for _, s := range got {
			all = append(all, fmt.Sprintf("%s on %v: %s", s.at.Format("05.000"), s.place, s.frame.Raw))
		}
		j.Fault("%s (%s) is answered %d times:\n\t%s", c.ID, c.Tool, len(got), strings.Join(all, "\n\t"))
	case len(got) == 2 && !resort:
		j.Again++
	}
	first := got[0]
	if first.place == onGet {
		j.OnGet++
		// A front that is slow to pass its POST on does not keep a loss from its client, nor
		// a result whose stream can't be resumed: there has been no event.
		if _, lost := LossIn(first.m); c.post.fate == accepted && !c.post.broke && !lost && c.post.stream != "" {
			j.Fault("%s is answered on a GET, and its POST was there: %s", c.ID, first.frame.Raw)
		}
	}
	j.Slowest = max(j.Slowest, first.at.Sub(c.post.begun))
	if first.lastResort() {
		j.Resorts++
	}
	if first.m.Error != nil {
		j.loss(c, first.m)
		return
	}
	j.Results++
	if c.Tool == "" {
		return
	}
	text, want := first.m.Text(), c.Want
	if n, err := strconv.Atoi(text); want == "" && err == nil {
		want = strconv.Itoa(n)
	}
	if text == "" || text != want {
		j.Fault("%s (%s) is answered by %q, want %q", c.ID, c.Tool, text, want)
	}
}

// killedBetween is one of the two exceptions to once: a host was killed shortly after an answer had come,
// and the next one says the same on a GET.
func (j *Judgement) killedBetween(first, second Sighting, kills []time.Time) bool {
	for _, k := range kills {
		if age := k.Sub(first.at); age < unnoted && age > -unnoted && second.at.After(k) && second.place == onGet && second.frame.Data == first.frame.Data {
			j.Noted = max(j.Noted, age)
			return true
		}
	}
	return false
}

func (j *Judgement) loss(c *Attempt, m Message) {
	l, ok := LossIn(m)
	if !ok || l.Tool != c.Tool || l.Reason == "" {
		j.Fault("%s (%s) is answered by error %d %q, %s", c.ID, c.Tool, m.Error.Code, m.Error.Message, m.Error.Data)
	}
	j.Lost[l.Reason]++
}

// lastResort: the other exception. A front has answered itself, on the stream, or as a
// body where none had begun. The session tells its own on a GET: later, or of a loss before.
func (s Sighting) lastResort() bool {
	return s.place == onPost && s.m.Error != nil && (s.frame.ID == "" || session.IsTold(s.frame.ID))
}

// lostOnGet: the session has told of the loss while the front was slow to pass its POST on.
func (s Sighting) lostOnGet() bool {
	_, lost := LossIn(s.m)
	return s.place == onGet && lost
}

// LossIn is the loss that a message tells of.
func LossIn(m Message) (l session.Loss, ok bool) {
	if m.Error == nil || m.Error.Code != -32010 {
		return l, false
	}
	return l, json.Unmarshal(m.Error.Data, &l) == nil
}

// counter checks the numbers that incr has given: none is lost, and none was counted
// for a request that is said not to have been started.
func (j *Judgement) counter(calls []*Attempt, answers map[string][]Sighting) {
	counted := map[int]string{}
	most, maybe := 0, 0
	for _, c := range calls {
		if c.Tool != "incr" || c.post.fate == refused {
			continue
		}
		if len(answers[c.ID]) == 0 {
			maybe++ // it may have been accepted, executed and lost
			continue
		}
		m := answers[c.ID][0].m
		if l, ok := LossIn(m); ok {
			if l.Started {
				maybe++
			}
			continue
		}
		n, err := strconv.Atoi(m.Text())
		if err != nil {
			continue // which is told elsewhere
		}
		if other := counted[n]; other != "" {
			j.Fault("the number %d was given to %s and to %s", n, other, c.ID)
		}
		counted[n] = c.ID
		most = max(most, n)
	}
	if most < len(counted) || most > len(counted)+maybe {
		j.Fault("the counter of %s is at %d, with %d numbers given and %d calls that may have counted", calls[0].ID, most, len(counted), maybe)
	}
}

func (j *Judgement) String() string {
	return fmt.Sprintf("%d results, %d lost %v, %d of these on a GET; %d never accepted, %d refused; %d told again after a kill within %v; %d by a last resort; slowest %v",
		j.Results, sum(j.Lost), j.Lost, j.OnGet, j.Unsure, j.Refused, j.Again, j.Noted.Round(time.Millisecond), j.Resorts, j.Slowest.Round(time.Millisecond))
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func streamOf(event string) string { stream, _, _ := strings.Cut(event, "."); return stream }

func unmarshal(data string, m *Message) error { return json.Unmarshal([]byte(data), m) }
