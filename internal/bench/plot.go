package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plot is one curve over a number that grows by tens.
type plot struct {
	title, over string
	points      [][2]float64
}

const (
	plotWidth, plotHeight = 300.0, 150.0
	plotLeft, plotTop     = 56.0, 34.0
	cellWidth, cellHeight = plotWidth + plotLeft + 34, plotHeight + plotTop + 46
)

// plots draws curves, two beside each other, as a picture that needs nothing else: its
// colours are readable on a light page and on a dark one.
func plots(all []plot) string {
	var s strings.Builder
	rows := (len(all) + 1) / 2
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11" fill="#777">`+"\n", 2*cellWidth, float64(rows)*cellHeight)
	for i, p := range all {
		fmt.Fprintf(&s, `<g transform="translate(%g %g)">`+"\n%s</g>\n", float64(i%2)*cellWidth, float64(i/2)*cellHeight, p.draw())
	}
	s.WriteString("</svg>\n")
	return s.String()
}

func (p plot) draw() string {
	var s strings.Builder
	decades, high := 1.0, 0.0
	for _, at := range p.points {
		decades, high = max(decades, math.Log10(at[0])), max(high, at[1])
	}
	if high == 0 {
		high = 1
	}
	step := nice(high / 3)
	high = step * math.Ceil(high/step)
	x := func(v float64) float64 { return plotLeft + plotWidth*math.Log10(v)/decades }
	y := func(v float64) float64 { return plotTop + plotHeight*(1-v/high) }
	fmt.Fprintf(&s, `<text x="%g" y="18" font-size="13" font-weight="bold">%s</text>`+"\n", plotLeft, html.EscapeString(p.title))
	for v := 0.0; v <= high*1.001; v += step {
		fmt.Fprintf(&s, `<path d="M%g %.1fh%g" stroke="#8884"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft, y(v), plotWidth, plotLeft-6, y(v)+4, digits(v))
	}
	path := make([]string, len(p.points))
	for i, at := range p.points {
		path[i] = fmt.Sprintf("%.1f %.1f", x(at[0]), y(at[1]))
		fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="#3b82c4"><title>%s: %s</title></circle><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n",
			x(at[0]), y(at[1]), grouped(fmt.Sprint(at[0])), digits(at[1]), x(at[0]), plotTop+plotHeight+16, grouped(fmt.Sprintf("%.0f", at[0])))
	}
	fmt.Fprintf(&s, `<path d="M%s" fill="none" stroke="#3b82c4" stroke-width="2"/>`+"\n", strings.Join(path, "L"))
	fmt.Fprintf(&s, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", plotLeft+plotWidth/2, plotTop+plotHeight+32, html.EscapeString(p.over))
	return s.String()
}

// nice is the least of 1, 2, 5, 10, 20 ... that is not below v, or of their parts.
func nice(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}
