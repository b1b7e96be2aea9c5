package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// measureWake compares an idle session's first call with its next one. Sessions are
// called one after the other: what is measured is a call, and not a queue.
func (b *bench) measureWake(ctx context.Context) error {
	folder, err := b.folder("wake")
	if err != nil {
		return err
	}
	s := b.kalpa.watched().server("kalpa", briefly...)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return err
	}
	defer s.end()
	all, err := inhabit(s.endpoint, b.idle)
	if err != nil {
		return err
	}
	c, err := resume(s.endpoint, "")
	if err != nil {
		return err
	}
	defer c.close()
	names := []string{"first call", "next call"}
	p50, p99 := make([][]float64, len(names)), make([][]float64, len(names))
	var more []float64
	for round := range b.rounds {
		if err := s.quiet(ctx); err != nil {
			return err
		}
		took := make([][]time.Duration, len(names))
		for n, one := range all {
			c.session = one.id
			for i := range names {
				asked := time.Now()
				if err := c.call("add", fmt.Sprintf(`{"a":%d,"b":1}`, n), fmt.Sprint(n+1)); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(asked))
			}
		}
		for i := range names {
			slices.Sort(took[i])
			p50[i] = append(p50[i], milliseconds(percentile(took[i], 0.5)))
			p99[i] = append(p99[i], milliseconds(percentile(took[i], 0.99)))
		}
		more = append(more, p50[0][round]-p50[1][round])
		b.say("wake, round %d: %.2f ms, then %.2f ms", round+1, p50[0][round], p50[1][round])
	}
	rows := [][]string{{fmt.Sprintf("of %d idle sessions", b.idle), "p50, ms", "p99, ms"}}
	for i, name := range names {
		rows = append(rows, []string{name, summarize(p50[i]).String(), summarize(p99[i]).String()})
	}
	return errors.Join(b.publish("wake", "wake", false, table(rows)), b.found(targetWake, summarize(more)))
}
