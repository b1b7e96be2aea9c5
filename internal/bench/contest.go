package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// startLimit is how long a server may take to start. A peer may install itself.
const startLimit = 10 * time.Minute

// contest runs servers side by side: all are started, and take turns in rounds, with
// the others stopped. The order is drawn for each round, so that what one leaves behind,
// for the disk to write, is not always the same other's to bear. A server whose turn
// fails is out.
func (b *bench) contest(ctx context.Context, name string, servers []*server, turn func(s *server, round int) error) error {
	defer func() {
		for _, s := range servers {
			s.end()
		}
	}()
	for i, s := range servers {
		if s.skipped != nil {
			continue
		}
		folder, err := b.folder(fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return err
		}
		b.say("%s: starting %s", name, s.name)
		if s.skipped = s.start(ctx, folder, startLimit); s.skipped == nil {
			s.skipped = s.pause()
		}
	}
	for round := range b.rounds {
		for _, i := range rand.Perm(len(servers)) {
			s := servers[i]
			if s.skipped != nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.skipped = s.resume(); s.skipped == nil {
				s.skipped = turn(s, round)
			}
			if s.skipped == nil {
				s.skipped = s.pause()
			}
			if s.skipped != nil {
				b.say("%s: %s is out: %v", name, s.name, s.skipped)
				s.end()
			}
		}
	}
	return nil
}

// speed is what is known of one server after the rounds.
type speed struct {
	rate, p50, p99 []float64
	driver         []float64 // its share of the processor time, in percent
	bad            int64
	first          error
}

// standings are what a load has measured on servers. The first is the one that the
// others are compared with.
type standings []*speed

// faster is how many times as fast as another the first is, and later how many times
// its 99th percentile is the other's.
func (r standings) faster(than int) spread { return summarize(ratios(r[0].rate, r[than].rate)) }
func (r standings) later(than int) spread  { return summarize(ratios(r[0].p99, r[than].p99)) }

// compare measures a load on servers, and makes a table of it.
func (b *bench) compare(ctx context.Context, name, unit string, servers []*server, drive func(s *server, round int) (sample, error)) (standings, string, error) {
	results := make(standings, len(servers))
	of := map[*server]*speed{}
	for i, s := range servers {
		results[i] = &speed{}
		of[s] = results[i]
	}
	err := b.contest(ctx, name, servers, func(s *server, round int) error {
		ours, theirs, err := s.times()
		if err != nil {
			return err
		}
		turn, err := drive(s, round)
		if err != nil {
			return err
		}
		oursThen, theirsThen, err := s.times()
		if err != nil {
			return err
		}
		oursThen -= ours
		r := of[s]
		r.rate = append(r.rate, turn.rate)
		r.p50 = append(r.p50, milliseconds(percentile(turn.took, 0.50)))
		r.p99 = append(r.p99, milliseconds(percentile(turn.took, 0.99)))
		r.driver = append(r.driver, 100*float64(oursThen)/float64(oursThen+theirsThen-theirs))
		r.bad += turn.bad
		if r.first == nil {
			r.first = turn.first
		}
		b.say("%s, round %d, %s: %.0f/s, p50 %.1f ms, p99 %.1f ms, bad %d, driver %.0f %%", name, round+1, s.name,
			turn.rate, r.p50[len(r.p50)-1], r.p99[len(r.p99)-1], turn.bad, r.driver[len(r.driver)-1])
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	rows := [][]string{{"server", unit, "p50, ms", "p99, ms", "bad answers", "driver, % of the CPU time", "kalpa is"}}
	var notes []string
	for i, s := range servers {
		r := results[i]
		if s.skipped != nil {
			notes = append(notes, fmt.Sprintf("Not measured: %s: %v.", s.name, s.skipped))
			continue
		}
		times := ""
		if i > 0 {
			times = results.faster(i).String() + " times as fast"
		}
		if r.first != nil {
			notes = append(notes, fmt.Sprintf("The first bad answer of %s: %v.", s.name, r.first))
		}
		rows = append(rows, []string{
			s.name, summarize(r.rate).String(), summarize(r.p50).String(), summarize(r.p99).String(), fmt.Sprint(r.bad), summarize(r.driver).String(), times,
		})
	}
	return results, table(rows) + told(notes), nil
}

// times are the processor times so far, of this process and of the server.
func (s *server) times() (ours, theirs time.Duration, err error) {
	if ours, err = burnt(); err == nil {
		theirs, err = s.burnt()
	}
	return ours, theirs, err
}

// told is what stands below a table.
func told(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return "\n" + strings.Join(notes, "\n\n") + "\n"
}
