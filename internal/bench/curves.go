package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// atOnce is how many connections the sessions of a curve share at the most: so many calls
// are under way, and each session has its turn.
const atOnce = 1000

// measureCurves measures how cost grows with the number of sessions, and of hot objects.
func (b *bench) measureCurves(ctx context.Context) error {
	sessions, err := b.sessionCurve(ctx)
	if err != nil {
		return err
	}
	objects, err := b.objectCurve(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"sessions", "under way", "calls/s", "p50, ms", "p99, ms", "resident, MB", "kB a session"}}
	for _, p := range sessions {
		each := ""
		if p.n >= 1000 { // with fewer it is what a host takes by itself
			each = digits(p.each.median)
		}
		rows = append(rows, []string{
			grouped(fmt.Sprint(p.n)), fmt.Sprint(min(p.n, atOnce)), summarize(p.rate).String(), summarize(p.p50).String(), summarize(p.p99).String(), p.memory.String(), each,
		})
	}
	text := "`add`, on sessions that are all resident:\n\n" + table(rows)
	rows = [][]string{{"hot objects", "calls/s", "p50, ms", "p99, ms"}}
	for _, p := range objects {
		rows = append(rows, []string{grouped(fmt.Sprint(p.n)), summarize(p.rate).String(), summarize(p.p50).String(), summarize(p.p99).String()})
	}
	text += fmt.Sprintf("\nA durable increment of objects, %d requests under way:\n\n%s", connections, table(rows))
	picture := plots([]plot{
		{"calls of sessions, a second", "sessions", curve(sessions, func(p *point) float64 { return summarize(p.rate).median })},
		{"their p99, ms", "sessions", curve(sessions, func(p *point) float64 { return summarize(p.p99).median })},
		{"resident memory, MB", "sessions", curve(sessions, func(p *point) float64 { return p.memory.median })},
		{"increments of objects, a second", "hot objects", curve(objects, func(p *point) float64 { return summarize(p.rate).median })},
	})
	if b.out != "-" {
		err = os.WriteFile(filepath.Join(filepath.Dir(b.out), "benchmarks-curves.svg"), []byte(picture), 0o644) //nolint:gosec // everybody may read it
	}
	return errors.Join(err, b.publish("curves", "curves", false, text))
}

// point is one number of sessions or objects.
type point struct {
	seen
	n            int
	memory, each spread
}

func curve(points []*point, of func(*point) float64) (all [][2]float64) {
	for _, p := range points {
		all = append(all, [2]float64{float64(p.n), of(p)})
	}
	return all
}

// sessionCurve gives one host more and more sessions.
func (b *bench) sessionCurve(ctx context.Context) ([]*point, error) {
	folder, err := b.folder("curves")
	if err != nil {
		return nil, err
	}
	s := b.kalpa.server("kalpa", append([]string{"--idle-timeout", "0"}, unbounded...)...)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return nil, err
	}
	defer s.end()
	time.Sleep(settling)
	before, err := s.resident()
	if err != nil {
		return nil, err
	}
	var all sessions
	var points []*point
	for n := 1; n <= b.most; n *= 10 {
		more, err := inhabit(s.endpoint, n-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
		time.Sleep(settling)
		p := &point{n: n}
		after, err := s.resident()
		if err != nil {
			return nil, err
		}
		p.memory = summarize([]float64{float64(after) / 1e6})
		p.each = summarize([]float64{float64(after-before) / 1e3 / float64(n)})
		for range b.rounds {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			one, err := job{tool: "add", connections: atOnce, warmup: b.warmup, d: b.d}.load(all).run(s.endpoint)
			if err = errors.Join(err, one.first); err != nil {
				return nil, err
			}
			p.add(one)
		}
		b.say("curves: %d sessions: %.0f/s, p99 %.1f ms, %.0f MB", n, p.rate[0], p.p99[0], p.memory.median)
		points = append(points, p)
	}
	return points, nil
}

// objectCurve makes more and more objects hot.
func (b *bench) objectCurve(ctx context.Context) ([]*point, error) {
	k, err := b.build(ctx, "./internal/bench/object", "")
	if err != nil {
		return nil, err
	}
	folder, err := b.folder("curves-objects")
	if err != nil {
		return nil, err
	}
	s := k.server("kalpa")
	s.ready = ready
	if err := s.start(ctx, folder, startLimit); err != nil {
		return nil, err
	}
	defer s.end()
	var points []*point
	for n := 1; n <= spreadOver; n *= 10 {
		p := &point{n: n}
		r := requests{op: "incr", objects: n, prefix: fmt.Sprintf("n%d-", n), connections: connections, warmup: b.warmup, d: b.d}
		for range b.rounds {
			one, err := r.turn(s, 0)
			if err = errors.Join(err, one.first); err != nil {
				return nil, err
			}
			p.add(one)
		}
		b.say("curves: %d objects: %.0f/s, p99 %.1f ms", n, p.rate[0], p.p99[0])
		points = append(points, p)
	}
	return points, nil
}
