package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A picture's measures, in its own units.
const (
	width      = 1080.0
	left       = 66.0  // of the plot: the labels of the values are there
	right      = 960.0 // and those of the curves
	plotHeight = 220.0
	railHeight = 20.0
)

// Chart is a picture over virtual time.
type Chart struct {
	Title, Note   string
	Height        float64
	Top, Bottom   float64 // of the plot
	Left, Right   float64
	Width         float64
	XTicks        []Tick
	YTicks        []Tick
	Areas, Lines  []Curve
	Dots, Crosses []Dot
	Levels        []Tick // dashed lines across
	Times         []Tick // dashed lines down
	Rails         []Rail
	Legend        []Key
	Data          *Data // for reading values off; nil: none
}

// Tick is a labelled place on an axis.
type Tick struct {
	At    float64
	Label string
}

// Curve is a line or an area.
type Curve struct {
	Class, Path, Label string
	LabelY             float64
}

// Dot is one answer.
type Dot struct {
	X, Y  float64
	Title string
}

// Rail is a row of marks above the plot.
type Rail struct {
	Y     float64
	Label string
	Class string
	Marks []Dot
	Bars  []Bar
}

// Bar is a stretch of time on a rail.
type Bar struct {
	X, Width float64
	Title    string
}

// Key explains a colour.
type Key struct{ Class, Label string }

// Data are the values of the curves, for the page's script.
type Data struct {
	Times  []float64   `json:"t"` // seconds
	Names  []string    `json:"names"`
	Values [][]float64 `json:"v"`
	End    float64     `json:"end"` // of the axis, in seconds
	Unit   string      `json:"unit"`
}

// scale takes values to places.
type scale struct {
	low, high, from, to float64
	log                 bool
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(max(v, s.low)), math.Log10(low), math.Log10(high)
	}
	if high <= low {
		return s.from
	}
	return s.from + (s.to-s.from)*(min(v, high)-low)/(high-low)
}

// newChart is a chart of the first end of a run, with rails above it.
func newChart(title, note string, end time.Duration, rails int) (*Chart, scale) {
	c := &Chart{Title: title, Note: note, Width: width, Left: left, Right: right}
	c.Top = 14 + float64(rails)*railHeight
	c.Bottom = c.Top + plotHeight
	c.Height = c.Bottom + 26
	x := scale{low: 0, high: end.Seconds(), from: left, to: right}
	for _, at := range timeTicks(end) {
		c.XTicks = append(c.XTicks, Tick{x.at(at.Seconds()), clock(at)})
	}
	return c, x
}

// values gives the chart an axis from 0 to at least highest.
func (c *Chart) values(highest float64, label func(float64) string) scale {
	step := niceStep(max(highest, 1) / 4)
	y := scale{low: 0, high: step * math.Ceil(max(highest, 1)/step), from: c.Bottom, to: c.Top}
	for v := 0.0; v <= y.high+step/2; v += step {
		c.YTicks = append(c.YTicks, Tick{y.at(v), label(v)})
	}
	return y
}

// durations gives the chart a logarithmic axis up to at least longest.
func (c *Chart) durations(shortest, longest time.Duration) scale {
	low, high := time.Millisecond, 10*time.Millisecond
	for low > shortest && low > time.Microsecond {
		low /= 10
	}
	for high < longest {
		high *= 10
	}
	y := scale{low: low.Seconds(), high: high.Seconds(), from: c.Bottom, to: c.Top, log: true}
	for d := low; d <= high; d *= 10 {
		c.YTicks = append(c.YTicks, Tick{y.at(d.Seconds()), d.String()})
	}
	return y
}

// niceStep is the least of 1, 2, 5, 10, 20 ... that is not below v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= v {
			return max(m*power, 1)
		}
	}
	return 10 * power
}

// timeTicks are some six to twelve round times up to end.
func timeTicks(end time.Duration) []time.Duration {
	steps := []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if end/s <= 12 {
			step = s
			break
		}
	}
	var ticks []time.Duration
	for at := time.Duration(0); at <= end; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

// clock writes a time since the start.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	if h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// point is a value that holds from a time on.
type point struct{ at, value float64 }

// steps is the path of values that hold until the next.
func steps(points []point, end float64, x, y scale) string {
	var b strings.Builder
	for i, p := range points {
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f %.1f", x.at(p.at), y.at(p.value))
			continue
		}
		fmt.Fprintf(&b, "H%.1fV%.1f", x.at(p.at), y.at(p.value))
	}
	fmt.Fprintf(&b, "H%.1f", x.at(end))
	return b.String()
}

// band is the area between two such paths over the same times.
func band(low, high []point, end float64, x, y scale) string {
	var b strings.Builder
	b.WriteString(steps(high, end, x, y))
	for _, p := range slices.Backward(low) {
		fmt.Fprintf(&b, "V%.1fH%.1f", y.at(p.value), x.at(p.at))
	}
	b.WriteString("Z")
	return b.String()
}
