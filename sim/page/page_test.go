package page_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/sim"
	"github.com/kalpahost/kalpa/sim/page"
)

func run(t *testing.T, profile string, o sim.Options) *sim.Result {
	t.Helper()
	p, err := sim.NewPlan(7, profile)
	if err != nil {
		t.Fatal(err)
	}
	o.Record = true
	r, err := sim.Run(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// picture is an SVG of a page: how many elements of which class it has, and the values
// that go with it.
type picture struct {
	classes map[string]int
	text    string
	highest float64 // place of an area
	data    page.Data
}

// read takes a page apart.
func read(t *testing.T, html string) map[string]picture {
	t.Helper()
	pictures := map[string]picture{}
	for _, section := range strings.Split(html, "<section")[1:] {
		title := regexp.MustCompile(`<h2>(.*?)</h2>`).FindStringSubmatch(section)
		from, to := strings.Index(section, "<svg"), strings.Index(section, "</svg>")
		if title == nil || from < 0 {
			continue
		}
		p := picture{classes: map[string]int{}, highest: 1e9}
		d := xml.NewDecoder(strings.NewReader(section[from : to+6]))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", title[1], err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				if len(token.Attr) > 1 && strings.HasPrefix(token.Attr[0].Value, "area ") {
					for _, m := range regexp.MustCompile(`(?:V|M[0-9.]+ )([0-9.]+)`).FindAllStringSubmatch(token.Attr[1].Value, -1) {
						y, err := strconv.ParseFloat(m[1], 64)
						if err != nil {
							t.Error(err)
						}
						p.highest = min(p.highest, y)
					}
				}
				for _, a := range token.Attr {
					switch a.Name.Local {
					case "class":
						p.classes[a.Value]++
					case "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height":
						if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
							t.Errorf("%s: a %s is at %s=%q", title[1], token.Name.Local, a.Name.Local, a.Value)
						}
					}
				}
			case xml.CharData:
				p.text += string(token)
			}
		}
		if m := regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).FindStringSubmatch(section); m != nil {
			if err := json.Unmarshal([]byte(m[1]), &p.data); err != nil {
				t.Errorf("%s: %v", title[1], err)
			}
		}
		pictures[title[1]] = p
	}
	return pictures
}

var outside = regexp.MustCompile(`(?i)(src|href|url)\s*[=(]\s*["']?(https?:)?//|@import|<link|fetch\(`)

func TestAPageShowsARun(t *testing.T) {
	r := run(t, "reset-mid-execute", sim.Options{})
	var b strings.Builder
	if err := page.Write(&b, r, "abc1234"); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if m := outside.FindString(html); m != "" {
		t.Errorf("the page needs something from outside: %s", m)
	}
	for _, want := range []string{"prefers-color-scheme: dark", "abc1234", "✓ PASS", fmt.Sprintf("%d requests", r.Requests), fmt.Sprintf("%016x", r.Trace)} {
		if !strings.Contains(html, want) {
			t.Errorf("%q is missing", want)
		}
	}
	pictures := read(t, html)

	residents := pictures["Resident runtimes"]
	if residents.classes["area s1"] != 1 || len(residents.data.Names) != r.Plan.Isolates {
		t.Errorf("residents: %v", residents.classes)
	}
	most := 0.0
	for i := range residents.data.Times {
		sum := 0.0
		for _, v := range residents.data.Values {
			sum += v[i]
		}
		most = max(most, sum)
	}
	want := 0
	for _, s := range r.Samples {
		sum := 0
		for _, n := range s.Residents {
			sum += n
		}
		want = max(want, sum)
	}
	if want == 0 || most != float64(want) {
		t.Errorf("at most %v are resident, the page says %v", want, most)
	}
	kinds := map[sim.MarkKind]int{}
	for _, m := range r.Marks {
		kinds[m.Kind]++
	}
	for class, n := range map[string]int{"mark fault": kinds[sim.FaultMark], "mark strike": kinds[sim.StrikeMark], "mark reset": kinds[sim.ResetMark], "mark down": kinds[sim.DownMark]} {
		if residents.classes[class] != n {
			t.Errorf("%d of %d are drawn as %s", residents.classes[class], n, class)
		}
	}
	if heap := pictures["Heap"]; heap.classes["line s1"] != 1 || len(heap.data.Times) == 0 || slices.Max(heap.data.Values[0]) == 0 {
		t.Errorf("heap: %v", heap.classes)
	}
	if l := pictures["Latency of answers"]; l.classes["dot"] != r.Answered || l.classes["cross"] != r.Lost || r.Lost == 0 {
		t.Errorf("%d answered, %d lost; drawn: %v", r.Answered, r.Lost, l.classes)
	}
	life := pictures["The life of one request"]
	for _, text := range []string{"client", "front", "session", "runtime", "disk", "POST tools/call", "commit: ledger row", "durable", "incarnation", "error -32010", "lost: "} {
		if !strings.Contains(life.text, text) {
			t.Errorf("the life of a request has no %q", text)
		}
	}
	if life.classes["arrow"] == 0 || life.classes["note bad"] == 0 {
		t.Errorf("life: %v", life.classes)
	}
}

func TestAPageOfAFailureSaysWhat(t *testing.T) {
	r := run(t, "idle-storm", sim.Options{Seams: seams.Seams{Alarm: seams.Alarm{NoReassert: true}}})
	var b strings.Builder
	if err := page.Write(&b, r, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"✕ FAIL", "I7 violated at step", "The last events", "VIOLATION I7"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestAComparisonShowsBothCurves(t *testing.T) {
	with := run(t, "idle-storm", sim.Options{})
	without := run(t, "idle-storm", sim.Options{GoOn: true, Seams: seams.Seams{Alarm: seams.Alarm{NoReassert: true}}})
	var b strings.Builder
	if err := page.WriteCompare(&b, with, without, ""); err != nil {
		t.Fatal(err)
	}
	p := read(t, b.String())["Resident runtimes"]
	if p.classes["line s1"] != 1 || p.classes["line bad"] != 1 || outside.MatchString(b.String()) {
		t.Errorf("drawn: %v", p.classes)
	}
	n := len(p.data.Times) - 1
	if n < 1 || p.data.Values[0][n] != 0 || p.data.Values[1][n] == 0 || !slices.IsSorted(p.data.Times) {
		t.Errorf("the curves end at %v and %v", p.data.Values[0][n], p.data.Values[1][n])
	}
	if page.Left(with) != 0 || page.Left(without) == 0 {
		t.Errorf("%d and %d are left", page.Left(with), page.Left(without))
	}
}

// What runs can be odd in: nothing happened, one thing did, there are more isolates than
// colours, more moments than rows, and text that is HTML.
func TestOddRunsAreDrawn(t *testing.T) {
	long := &sim.Tale{Client: "<b>", Tool: "slow", Outcome: "answered"}
	for i := range 200 {
		long.Moments = append(long.Moments, sim.Moment{At: time.Duration(i), From: sim.AtSession, To: sim.AtDisk, Text: strings.Repeat("<long>", 20)})
	}
	many := []sim.Sample{{At: time.Second, Residents: make([]int, 64), Heap: make([]int64, 64)}}
	for i := range 64 {
		many[0].Residents[i], many[0].Heap[i] = 1, 1<<20
	}
	for name, r := range map[string]*sim.Result{
		"nothing": {Plan: &sim.Plan{Isolates: 1}},
		"one":     {Plan: &sim.Plan{Isolates: 1}, Samples: []sim.Sample{{Residents: []int{0}, Heap: []int64{0}}}, Latencies: []sim.Latency{{Took: 0}}},
		"many":    {Plan: &sim.Plan{Isolates: 64}, Samples: many, Virtual: time.Minute, Tale: long},
	} {
		var b strings.Builder
		if err := page.Write(&b, r, ""); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pictures := read(t, b.String())
		if strings.Contains(b.String(), "<long>") || strings.Contains(b.String(), "<b> ") {
			t.Errorf("%s: text is HTML", name)
		}
		if name == "many" {
			if p := pictures["Resident runtimes"]; len(p.data.Names) != 6 || p.data.Names[5] != "isolates 5 to 63" || p.data.Values[5][0] != 59 {
				t.Errorf("64 isolates: %v", p.data.Names)
			} else if p.highest != 138 { // 64 of 80, in a plot from 314 to 94
				t.Errorf("64 runtimes, one upon the other, are drawn up to %v", p.highest)
			}
			if life := pictures["The life of one request"]; !strings.Contains(life.text, "140 more") || life.classes["arrow"] != 60 {
				t.Errorf("200 moments: %v", life.classes)
			}
		}
	}
}
