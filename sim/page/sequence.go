package page

import (
	"fmt"
	"slices"
	"time"

	"github.com/kalpahost/kalpa/sim"
)

// Sequence is the life of a request: a lane for each party, and a row for each moment.
type Sequence struct {
	Title  string
	Height float64
	Width  float64
	Lanes  []Tick
	Rows   []Row
	Bottom float64 // of the lanes
}

// Row is one moment.
type Row struct {
	Y     float64
	Time  string // since the request was sent; empty: as above
	Kind  string // "arrow", "note", "band", "gap"
	From  float64
	To    float64
	Text  string
	TextX float64
	Left  float64 // of a note
	Width float64
	Bad   bool
}

const (
	firstLane = 190.0
	laneGap   = 205.0
	rowHeight = 30.0
	letter    = 6.7 // the width of one, about
	maxRows   = 60
)

// newSequence lays a tale out; nil when there is none.
func newSequence(t *sim.Tale) *Sequence {
	if t == nil || len(t.Moments) == 0 {
		return nil
	}
	s := &Sequence{Title: fmt.Sprintf("%s, id %s, of client %s: %s", t.Tool, t.ID, t.Client, t.Outcome), Width: width}
	lanes := []sim.Lane{sim.AtClient, sim.AtFront, sim.AtSession, sim.AtRuntime, sim.AtDisk}
	for i, l := range lanes {
		s.Lanes = append(s.Lanes, Tick{firstLane + float64(i)*laneGap, string(l)})
	}
	place := func(l sim.Lane) float64 { return s.Lanes[max(slices.Index(lanes, l), 0)].At }
	moments := t.Moments
	y, before := 52.0, time.Duration(-1)
	for i, m := range moments {
		if left := len(moments) - maxRows; left > 0 && i >= maxRows/2 && i < maxRows/2+left {
			if i == maxRows/2 {
				s.Rows = append(s.Rows, Row{Y: y, Kind: "gap", Text: fmt.Sprintf("%d more", left), TextX: width / 2})
				y += rowHeight
			}
			continue
		}
		r := Row{Y: y, Text: m.Text, Bad: m.Bad, From: place(m.From), To: place(m.To)}
		if m.At != before {
			r.Time = since(m.At - moments[0].At)
			before = m.At
		}
		size := float64(len([]rune(m.Text)))*letter + 18
		switch m.From {
		case sim.AtWorld:
			r.Kind, r.TextX = "band", (s.Lanes[0].At+s.Lanes[4].At)/2
		case m.To:
			r.Kind, r.Width = "note", size
			r.Left = min(max(r.From-size/2, 90), width-size-4)
			r.TextX = r.Left + size/2
		default:
			r.Kind, r.TextX = "arrow", min((r.From+r.To)/2, width-size/2)
		}
		s.Rows = append(s.Rows, r)
		y += rowHeight
	}
	s.Bottom = y
	s.Height = y + 8
	return s
}

// since writes a time after the request was sent, to three figures or so.
func since(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
