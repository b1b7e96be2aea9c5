package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A judge that finds nothing wrong shows nothing if it can't.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	const p, q, g = "paaaaaaaaaaaaa", "pbbbbbbbbbbbbb", "gaaaaaaaaaaaaa"
	kill := time.Unix(1000, 0)
	post := func(id, stream string, f fate) *Attempt {
		a := &Attempt{ID: id, Tool: "incr"}
		a.post = &post{attempts: []*Attempt{a}, fate: f, stream: stream, begun: kill.Add(-time.Second)}
		return a
	}
	event := func(where place, of *Attempt, id, data string) Sighting {
		s := Sighting{at: kill.Add(-100 * time.Millisecond), place: where, of: of.post, frame: Frame{ID: id, Data: data, Raw: data}}
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
	later := func(s Sighting, d time.Duration) Sighting { s.at = kill.Add(d); return s }
	one, two := post("1", p, accepted), post("2", q, accepted)
	broke := post("3", p, accepted)
	broke.post.broke = true
	lone, none := post("4", "", unsure), post("5", "", refused)
	nobody := &Attempt{}
	good := []Sighting{event(onPost, one, p+".1.1", progress), event(onPost, one, p+".1.2", number("1", 1)), event(onPost, two, q+".1.1", number("2", 2))}
	both := []*Attempt{one, two}

	for name, tc := range map[string]struct {
		calls  []*Attempt
		seen   []Sighting
		bad    []string
		stored string
		want   string // empty: nothing is wrong
	}{
		"all right":                      {calls: both, seen: good},
		"a lost one":                     {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", lost("2", true)))},
		"resumed":                        {calls: []*Attempt{broke}, seen: []Sighting{event(onPost, broke, p+".1.1", `{"method":"x"}`), event(onResumed, broke, p+".2.1", number("3", 1))}},
		"on a GET":                       {calls: []*Attempt{broke}, seen: []Sighting{event(onGet, nobody, g+".2.1", lost("3", true))}},
		"told again after a kill":        {calls: both, seen: append(good[:3:3], later(event(onGet, nobody, g+".2.1", number("2", 2)), time.Second))},
		"never accepted":                 {calls: []*Attempt{lone}},
		"refused":                        {calls: []*Attempt{none}},
		"hung":                           {calls: both, seen: good[:2], want: "2 (incr) was accepted, and is not answered"},
		"stored, and not told":           {calls: []*Attempt{lone}, stored: "4", want: "the answer to 4 (incr) was stored, and has not come"},
		"answered twice":                 {calls: both, seen: append(good[:3:3], event(onResumed, two, q+".1.2", number("2", 2))), want: "2 (incr) is answered 2 times"},
		"told by a last resort":          {calls: both, seen: append(good[:2:2], event(onPost, two, "", strings.Replace(lost("2", true), `"epoch":1`, `"epoch":0`, 1)), event(onGet, nobody, g+".2.1", lost("2", true)))},
		"and by a last resort":           {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".2.1", lost("2", true)), event(onPost, two, "", strings.Replace(lost("2", true), `"epoch":1`, `"epoch":0`, 1)))},
		"a last resort after an answer":  {calls: both, seen: append(good[:3:3], event(onPost, two, "", strings.Replace(lost("2", true), `"epoch":1`, `"epoch":0`, 1))), want: "2 (incr) is answered 2 times"},
		"or after a result on a GET":     {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".2.1", number("2", 2)), event(onPost, two, "", strings.Replace(lost("2", true), `"epoch":1`, `"epoch":0`, 1))), want: "2 (incr) is answered 2 times"},
		"told again without a kill":      {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".2.1", number("2", 2))), want: "2 (incr) is answered 2 times"},
		"lost, while its front is slow":  {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".1.1", lost("2", true)))},
		"a result, likewise":             {calls: []*Attempt{post("1", "", accepted)}, seen: []Sighting{event(onGet, nobody, g+".1.1", number("1", 1))}},
		"told something else":            {calls: both, seen: append(good[:3:3], later(event(onGet, nobody, g+".2.1", lost("2", true)), time.Second)), want: "2 (incr) is answered 2 times"},
		"told again long after":          {calls: both, seen: append([]Sighting{good[0], good[1], later(good[2], -3*time.Second)}, later(event(onGet, nobody, g+".2.1", number("2", 2)), time.Second)), want: "2 (incr) is answered 2 times"},
		"refused and answered":           {calls: []*Attempt{none}, seen: []Sighting{event(onGet, nobody, g+".2.1", lost("5", false))}, want: "5 (incr) was refused, and is answered"},
		"on the wrong POST":              {calls: both, seen: append(good[:2:2], event(onPost, one, p+".1.3", number("2", 2))), want: "a message about 2 on its POST that is 1's"},
		"on the wrong stream":            {calls: both, seen: append(good[:2:2], event(onResumed, two, p+".1.3", number("2", 2))), want: "an event of another stream than " + q},
		"on a GET, without need":         {calls: both, seen: append(good[:2:2], event(onGet, nobody, g+".1.1", number("2", 2))), want: "2 is answered on a GET, and its POST was there"},
		"a stream's event on a GET":      {calls: []*Attempt{broke}, seen: []Sighting{event(onGet, nobody, p+".1.1", number("3", 1))}, want: "an event of another stream on a GET"},
		"somebody else's":                {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".1.1", number("9", 9))), want: "a message about a request of somebody else"},
		"progress on a GET":              {calls: both, seen: append(good[:3:3], event(onGet, nobody, g+".1.1", progress)), want: "progress on a GET"},
		"an event twice":                 {calls: both, seen: append(good[:1:1], good...), want: "the event " + p + ".1.1 has come twice"},
		"an id with two contents":        {calls: both, seen: append([]Sighting{event(onPost, one, p+".1.1", `{"method":"x"}`)}, good...), want: "the event " + p + ".1.1 is {"},
		"an event missing":               {calls: both, seen: []Sighting{good[0], event(onPost, one, p+".1.3", number("1", 1)), good[2]}, want: "comes " + p + ".1.3"},
		"the first event missing":        {calls: both, seen: good[1:], want: "comes " + p + ".1.2"},
		"an increment lost":              {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", number("2", 1))), want: "the number 1 was given to 1 and to 2"},
		"one that counted twice":         {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", number("2", 3))), want: "the counter of 1 is at 3, with 2 numbers given"},
		"not started, and yet counted":   {calls: []*Attempt{one, broke}, seen: []Sighting{event(onResumed, broke, p+".1.1", lost("3", false)), event(onPost, one, q+".1.1", number("1", 2))}, want: "the counter of 1 is at 2, with 1 numbers given and 0"},
		"another error":                  {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", `{"id":2,"error":{"code":-32603}}`)), want: "2 (incr) is answered by"},
		"another text":                   {calls: both, seen: append(good[:2:2], event(onPost, two, q+".1.1", `{"id":2,"result":{}}`)), want: `2 (incr) is answered by ""`},
		"something that was seen before": {calls: both, seen: good, bad: []string{"GET: status 404"}, want: "GET: status 404"},
	} {
		j := Judgement{}
		a := Account{Calls: tc.calls, Seen: tc.seen, Bad: tc.bad, Kills: []time.Time{kill}}
		if tc.stored != "" {
			a.Stored = map[string]int{tc.stored: 1}
		}
		j.Judge(a)
		if tc.want == "" && len(j.Faults) > 0 || tc.want != "" && !slices.ContainsFunc(j.Faults, func(f string) bool { return strings.Contains(f, tc.want) }) {
			t.Errorf("%s: the faults are %q, want %q", name, j.Faults, tc.want)
		}
	}
}
