package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/sim"
)

//go:embed page.html style.css page.js
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"css": func() (template.CSS, error) { b, err := files.ReadFile("style.css"); return template.CSS(b), err }, //nolint:gosec // the page's own
	"js":  func() (template.JS, error) { b, err := files.ReadFile("page.js"); return template.JS(b), err },     //nolint:gosec // the page's own
	"sub": func(a, b float64) float64 { return a - b }, "add": func(a, b float64) float64 { return a + b },
}).ParseFS(files, "page.html"))

// view is what a page shows.
type view struct {
	Title, About string
	Failed       string // empty: all held
	Passed       string
	Tiles        []Key // a figure and what it is of
	Charts       []*Chart
	Life         *Sequence
	Events       []string
	Marks        []sim.Mark
}

// Write writes the page of a run, which must have been recorded. commit is the revision
// of the program.
func Write(w io.Writer, r *sim.Result, commit string) error {
	v := view{
		Title: fmt.Sprintf("kalpa sim: %s, seed %d", r.Plan.Profile, r.Plan.Seed),
		About: fmt.Sprintf("commit %s · %d events in %v of virtual time, run in %v · trace %016x", commit, r.Steps, r.Virtual.Round(time.Second), r.Real.Round(time.Millisecond), r.Trace),
	}
	v.judge(r)
	v.Tiles = []Key{
		{"", fmt.Sprintf("%d requests", r.Requests)}, {"", fmt.Sprintf("%d answered", r.Answered)}, {"lost", fmt.Sprintf("%d lost", r.Lost)},
		{"", fmt.Sprintf("%d refused", r.Refused)}, {"", fmt.Sprintf("%d unknown", r.Open)}, {"", fmt.Sprintf("%d host starts", r.Boots)},
	}
	end := interesting(r)
	v.Charts = []*Chart{residents(r, end), heap(r, end), latencies(r, end)}
	v.Life = newSequence(r.Tale)
	v.Marks = r.Marks
	if r.Violation != nil {
		v.Events = r.Notes
	}
	return pages.ExecuteTemplate(w, "page.html", v)
}

func (v *view) judge(r *sim.Result) {
	if r.Violation != nil {
		v.Failed = r.Violation.Error()
		return
	}
	v.Passed = "all invariants held"
}

// interesting is when nothing is resident any more, answered or marked: what comes
// after is rest.
func interesting(r *sim.Result) time.Duration {
	end := time.Second
	for i, s := range r.Samples {
		if total(s.Residents) > 0 && i+1 < len(r.Samples) {
			end = max(end, r.Samples[i+1].At)
		}
	}
	for _, l := range r.Latencies {
		end = max(end, l.At)
	}
	for _, m := range r.Marks {
		end = max(end, m.At)
	}
	return min(end+end/30, max(r.Virtual, time.Second))
}

func total(of []int) (n float64) {
	for _, v := range of {
		n += float64(v)
	}
	return n
}

// maxCurves is how many isolates have a colour of their own. Those that are over are
// shown as one.
const maxCurves = 6

// byIsolate makes curves of the samples: one for each isolate, and for those that are
// over, one for all.
func byIsolate(r *sim.Result, end time.Duration, of func(sim.Sample, int) float64) (names []string, curves [][]point) {
	n := r.Plan.Isolates
	shown := min(n, maxCurves)
	for i := range shown {
		names = append(names, fmt.Sprintf("isolate %d", i))
	}
	if shown < n {
		names[shown-1] = fmt.Sprintf("isolates %d to %d", shown-1, n-1)
	}
	curves = make([][]point, shown)
	row := make([]float64, shown)
	var before []float64
	for _, s := range r.Samples {
		if s.At > end {
			break
		}
		clear(row)
		for i := range n {
			row[min(i, shown-1)] += of(s, i)
		}
		if slices.Equal(row, before) {
			continue // until something changes
		}
		before = slices.Clone(row)
		for i, v := range row {
			curves[i] = append(curves[i], point{s.At.Seconds(), v})
		}
	}
	return names, curves
}

// data are curves as the page's script reads them.
func data(names []string, curves [][]point, end time.Duration, unit string) *Data {
	d := &Data{Names: names, End: end.Seconds(), Unit: unit}
	for i, c := range curves {
		values := make([]float64, len(c))
		for j, p := range c {
			values[j] = p.value
			if i == 0 {
				d.Times = append(d.Times, p.at)
			}
		}
		d.Values = append(d.Values, values)
	}
	return d
}

func class(i int) string { return fmt.Sprintf("s%d", i+1) }

// residents draws the runtimes by isolate, one upon the other, below what went wrong.
func residents(r *sim.Result, end time.Duration) *Chart {
	c, x := newChart("Resident runtimes", "What is built and not yet closed, by isolate, one upon the other. Above: what went wrong.", end, 4)
	c.rails(r, end, x)
	names, curves := byIsolate(r, end, func(s sim.Sample, i int) float64 { return float64(s.Residents[i]) })
	var sums [][]point
	highest := 0.0
	low := make([]point, len(curves[0]))
	for i, p := range curves[0] {
		low[i].at = p.at
	}
	sums = append(sums, low)
	for _, curve := range curves {
		sum := slices.Clone(sums[len(sums)-1])
		for j, p := range curve {
			sum[j].value += p.value
			highest = max(highest, sum[j].value)
		}
		sums = append(sums, sum)
	}
	y := c.values(highest, func(v float64) string { return fmt.Sprint(v) })
	for i, name := range names {
		if len(curves[i]) > 0 {
			c.Areas = append(c.Areas, Curve{Class: class(i), Path: band(sums[i], sums[i+1], end.Seconds(), x, y), Label: name})
		}
		c.Legend = append(c.Legend, Key{class(i), name})
	}
	c.healed(r, end, x)
	c.Data = data(names, curves, end, "")
	return c
}

// healed marks the end of the phase in which things go wrong.
func (c *Chart) healed(r *sim.Result, end time.Duration, x scale) {
	if r.Plan.Length < end {
		c.Times = append(c.Times, Tick{x.at(r.Plan.Length.Seconds()), "healed"})
	}
	if v := r.Violation; v != nil && v.At <= end {
		c.Times = append(c.Times, Tick{x.at(v.At.Seconds()), v.Invariant + " violated"})
	}
}

// rails puts the marks above the plot, a row for each kind.
func (c *Chart) rails(r *sim.Result, end time.Duration, x scale) {
	rows := []Rail{{Label: "faults", Class: "fault"}, {Label: "strikes", Class: "strike"}, {Label: "resets", Class: "reset"}, {Label: "host down", Class: "down"}}
	row := map[sim.MarkKind]int{sim.FaultMark: 0, sim.StrikeMark: 1, sim.ResetMark: 2}
	since := time.Duration(-1)
	down := func(until time.Duration) {
		rail := &rows[3]
		from := x.at(since.Seconds())
		rail.Bars = append(rail.Bars, Bar{from, max(x.at(until.Seconds())-from, 2), fmt.Sprintf("%s the host is down for %v", clock(since), (until - since).Round(time.Millisecond))})
		since = -1
	}
	for _, m := range r.Marks {
		switch m.Kind {
		case sim.DownMark:
			since = m.At
		case sim.UpMark:
			if since >= 0 {
				down(m.At)
			}
		default:
			rail := &rows[row[m.Kind]]
			rail.Marks = append(rail.Marks, Dot{X: x.at(m.At.Seconds()), Title: fmt.Sprintf("%s %s: %s", clock(m.At), m.Kind, m.What)})
		}
	}
	if since >= 0 {
		down(end)
	}
	for i := range rows {
		rows[i].Y = 10 + float64(i)*railHeight
	}
	c.Rails = rows
}

// heap draws what is charged, by isolate.
func heap(r *sim.Result, end time.Duration) *Chart {
	c, x := newChart("Heap", "What is charged to each isolate, and what may be.", end, 0)
	names, curves := byIsolate(r, end, func(s sim.Sample, i int) float64 { return float64(s.Heap[i]) / (1 << 20) })
	limit := float64(r.Plan.Heap) / (1 << 20)
	highest := 0.0
	for _, curve := range curves {
		for _, p := range curve {
			highest = max(highest, p.value)
		}
	}
	near := highest > limit/2
	if near {
		highest = max(highest, limit)
	} else {
		c.Note += fmt.Sprintf(" The limit, %.0f MiB, is above the picture.", limit)
	}
	y := c.values(highest, func(v float64) string { return fmt.Sprintf("%v MiB", v) })
	for i, name := range names {
		c.Lines = append(c.Lines, Curve{Class: class(i), Path: steps(curves[i], end.Seconds(), x, y), Label: name})
		c.Legend = append(c.Legend, Key{class(i), name})
	}
	if near {
		c.Levels = append(c.Levels, Tick{y.at(limit), fmt.Sprintf("limit %.0f MiB", limit)})
	}
	c.healed(r, end, x)
	c.Data = data(names, curves, end, "MiB")
	return c
}

// latencies draws each answer, when it came and how long it took.
func latencies(r *sim.Result, end time.Duration) *Chart {
	c, x := newChart("Latency of answers", "Each answer, when it came and how long after its request. Many tools take some seconds by themselves.", end, 0)
	c.Legend = []Key{{"dot", fmt.Sprintf("answered (%d)", r.Answered)}, {"cross", fmt.Sprintf("lost (%d)", r.Lost)}}
	shortest, longest := time.Hour, time.Duration(0)
	for _, l := range r.Latencies {
		shortest, longest = min(shortest, l.Took), max(longest, l.Took)
	}
	y := c.durations(shortest, longest)
	for _, l := range r.Latencies {
		d := Dot{x.at(l.At.Seconds()), y.at(l.Took.Seconds()), fmt.Sprintf("%s answered after %v", clock(l.At), l.Took.Round(10*time.Microsecond))}
		if l.Lost {
			d.Title = fmt.Sprintf("%s lost, told after %v", clock(l.At), l.Took.Round(10*time.Microsecond))
			c.Crosses = append(c.Crosses, d)
			continue
		}
		c.Dots = append(c.Dots, d)
	}
	c.healed(r, end, x)
	return c
}
