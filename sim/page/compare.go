package page

import (
	"fmt"
	"io"
	"time"

	"github.com/kalpahost/kalpa/sim"
)

// WriteCompare writes the page of two runs of one plan: with the re-assertion of idle
// deadlines, and without it.
func WriteCompare(w io.Writer, with, without *sim.Result, commit string) error {
	v := view{
		Title: fmt.Sprintf("kalpa sim compare: %s, seed %d", with.Plan.Profile, with.Plan.Seed),
		About: fmt.Sprintf("commit %s · the same plan twice: %d clients, idle time-out %v", commit, len(with.Plan.Clients), with.Plan.Idle.Round(time.Second)),
	}
	v.judge(with)
	v.Tiles = []Key{
		{"", fmt.Sprintf("%d left with the re-assertion", Left(with))}, {"lost", fmt.Sprintf("%d left without", Left(without))},
	}
	end := CompareEnd(with, without)
	c, x := newChart("Resident runtimes", "All isolates together. The deadline at which an idle session is looked at again is another owner's business than the schedule's: "+
		"with the re-assertion each recomputation of the alarm consults it, without it the recomputation erases it, and nobody comes to close the runtime.", end, 0)
	curves := [][]point{totals(with, end), totals(without, end)}
	highest := 0.0
	for _, curve := range curves {
		for _, p := range curve {
			highest = max(highest, p.value)
		}
	}
	y := c.values(highest, func(v float64) string { return fmt.Sprint(v) })
	names := []string{"with", "without"}
	for i, curve := range curves {
		last := curve[len(curve)-1].value
		c.Lines = append(c.Lines, Curve{Class: []string{"s1", "bad"}[i], Path: steps(curve, end.Seconds(), x, y), Label: fmt.Sprintf("%s: %v", names[i], last), LabelY: y.at(last)})
	}
	c.Legend = []Key{{"s1", "with the re-assertion"}, {"bad", "without it"}}
	if with.Plan.Length < end {
		c.Times = append(c.Times, Tick{x.at(with.Plan.Length.Seconds()), "end of the plan"})
	}
	// Changes of the two come at different times; each is read off at all of them.
	c.Data = merged(names, curves, end)
	v.Charts = []*Chart{c}
	v.Marks = with.Marks
	return pages.ExecuteTemplate(w, "page.html", v)
}

// CompareEnd is up to when two runs are worth comparing: until well after nothing is
// left in the first one.
func CompareEnd(with, without *sim.Result) time.Duration {
	end := interesting(with)
	return min(end+end/4, with.Virtual, without.Virtual)
}

// Left is how many runtimes are resident at the end of a run's record.
func Left(r *sim.Result) int {
	if len(r.Samples) == 0 {
		return 0
	}
	return int(total(r.Samples[len(r.Samples)-1].Residents))
}

// totals are the runtimes of all isolates together.
func totals(r *sim.Result, end time.Duration) []point {
	points := []point{{0, 0}}
	for _, s := range r.Samples {
		if n := total(s.Residents); s.At <= end && n != points[len(points)-1].value {
			points = append(points, point{s.At.Seconds(), n})
		}
	}
	return points
}

// merged are curves whose values change at times of their own, at all those times.
func merged(names []string, curves [][]point, end time.Duration) *Data {
	d := &Data{Names: names, End: end.Seconds(), Values: make([][]float64, len(curves))}
	next := make([]int, len(curves))
	for {
		at, some := end.Seconds(), false
		for i, c := range curves {
			if next[i] < len(c) && c[next[i]].at <= at {
				at, some = c[next[i]].at, true
			}
		}
		if !some {
			return d
		}
		d.Times = append(d.Times, at)
		for i, c := range curves {
			for next[i] < len(c) && c[next[i]].at <= at {
				next[i]++
			}
			value := 0.0
			if next[i] > 0 {
				value = c[next[i]-1].value
			}
			d.Values[i] = append(d.Values[i], value)
		}
	}
}
