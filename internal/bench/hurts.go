package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	slowSync  = 20 // ms that an fsync takes longer
	slowReads = 16 // clients that hardly read
	bystander = 10_000
	burst     = 5_000
	children  = 500
)

// measureHurts measures what a client sees when something is hard on the host.
func (b *bench) measureHurts(ctx context.Context) error {
	for _, hurt := range []struct {
		section string
		measure func(context.Context) (string, error)
	}{
		{"slow-disk", b.slowDisk}, {"slow-reader", b.slowReader}, {"one-hot", b.oneHot}, {"children", b.manyChildren},
	} {
		text, err := hurt.measure(ctx)
		if err == nil {
			err = b.publish(hurt.section, "hurts", false, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", hurt.section, err)
		}
	}
	return nil
}

// seen is what clients have seen in some rounds.
type seen struct {
	speed
	worst []float64
}

func (v *seen) add(s sample) {
	v.rate = append(v.rate, s.rate)
	v.p50 = append(v.p50, milliseconds(percentile(s.took, 0.5)))
	v.p99 = append(v.p99, milliseconds(percentile(s.took, 0.99)))
	v.worst = append(v.worst, milliseconds(percentile(s.took, 1)))
	v.bad += s.bad
}

var seenHead = []string{"", "calls/s", "p50, ms", "p99, ms", "the slowest, ms", "bad answers"}

func (v *seen) row(name string) []string {
	return []string{name, summarize(v.rate).String(), summarize(v.p50).String(), summarize(v.p99).String(), summarize(v.worst).String(), fmt.Sprint(v.bad)}
}

// slowDisk: each fsync takes longer. Sessions share them, so more of them lose less.
func (b *bench) slowDisk(ctx context.Context) (string, error) {
	fast, err := b.build(ctx, "./cmd/kalpa", "seams")
	if err != nil {
		return "", err
	}
	slow := fast
	slow.seams = fmt.Sprintf("slow-sync:%d", slowSync)
	var tables []string
	for _, n := range []int{b.sessions, b.many} {
		j := job{tool: "incr", sessions: n, warmup: b.warmup, d: b.d}
		_, rows, err := b.compare(ctx, "slow-disk", "calls/s", []*server{
			fast.server("kalpa"), slow.server(fmt.Sprintf("the same, each fsync %d ms longer", slowSync)),
		}, j.turn)
		if err != nil {
			return "", err
		}
		tables = append(tables, fmt.Sprintf("%s sessions:\n\n%s", grouped(fmt.Sprint(n)), rows))
	}
	return strings.Join(tables, "\n"), nil
}

// slowReader: clients that ask for much and hardly read it are beside others.
func (b *bench) slowReader(ctx context.Context) (string, error) {
	folder, err := b.folder("slow-reader")
	if err != nil {
		return "", err
	}
	s := b.kalpa.server("kalpa")
	if err := s.start(ctx, folder, startLimit); err != nil {
		return "", err
	}
	defer s.end()
	var alone, beside seen
	j := job{tool: "add", sessions: b.sessions, warmup: b.warmup, d: b.d}
	for range b.rounds {
		one, err := j.turn(s, 0)
		if err != nil {
			return "", err
		}
		alone.add(one)
		stop, err := hardlyRead(ctx, s.endpoint)
		if err == nil {
			one, err = j.turn(s, 0)
			stop()
		}
		if err != nil {
			return "", err
		}
		beside.add(one)
	}
	return table([][]string{seenHead, alone.row(fmt.Sprintf("%d sessions alone", b.sessions)), beside.row(fmt.Sprintf("beside %d that hardly read", slowReads))}), nil
}

// hardlyRead opens sessions that ask for 4 MiB and read a KiB of it ten times a second.
func hardlyRead(ctx context.Context, endpoint string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	stop = func() { cancel(); all.Wait() }
	text := strings.Repeat(kilobyte, 4<<10)
	for range slowReads {
		c, err := open(endpoint)
		if err != nil {
			stop()
			return nil, err
		}
		call := appendCall(nil, c.next(), "echo", `{"text":"`+text+`"}`)
		all.Go(func() {
			defer c.close()
			r, err := c.send(appendPost(nil, c.host, c.path, c.session, call))
			if err != nil {
				return
			}
			defer r.Body.Close() //nolint:errcheck // nobody wants the rest
			for ctx.Err() == nil {
				if _, err := io.CopyN(io.Discard, r.Body, 1<<10); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	return stop, nil
}

// oneHot: one session works among many idle ones; then half of those wake up within a
// second, each when it is due and whether or not the ones before it were answered.
func (b *bench) oneHot(ctx context.Context) (string, error) {
	folder, err := b.folder("one-hot")
	if err != nil {
		return "", err
	}
	s := b.kalpa.watched().server("kalpa", briefly...)
	if err := s.start(ctx, folder, startLimit); err != nil {
		return "", err
	}
	defer s.end()
	var alone, among, woken seen
	var over []float64
	j := job{tool: "incr", sessions: 1, warmup: b.warmup, d: b.d}
	measure := func(v *seen) error {
		one, err := j.turn(s, 0)
		v.add(one)
		return err
	}
	for range b.rounds {
		if err := measure(&alone); err != nil {
			return "", err
		}
	}
	all, err := inhabit(s.endpoint, bystander)
	if err != nil {
		return "", err
	}
	for round := range b.rounds {
		if err := s.quiet(ctx); err != nil {
			return "", err
		}
		if err := measure(&among); err != nil {
			return "", err
		}
		if err := s.quiet(ctx); err != nil {
			return "", err
		}
		l := job{tool: "add"}.load(all[:burst]).ending()
		l.spread = time.Second
		begin := time.Now()
		one, err := l.run(s.endpoint)
		if err != nil {
			return "", err
		}
		woken.add(one)
		over = append(over, time.Since(begin).Seconds())
		b.say("one-hot, round %d: p99 %.1f ms alone, %.1f among idle ones; a burst: p99 %.0f ms, all after %.1f s", round+1, alone.p99[round], among.p99[round], woken.p99[round], over[round])
	}
	idle := grouped(fmt.Sprint(bystander))
	return table([][]string{seenHead, alone.row("one session alone"), among.row("one session among " + idle + " idle ones")}) +
		fmt.Sprintf("\n%s of the %s idle sessions are called within one second. What each call took is counted from when it was due:\n\n", grouped(fmt.Sprint(burst)), idle) +
		table([][]string{
			{"p50, ms", "p99, ms", "the slowest, ms", "the last was answered after, s, connecting included", "bad answers"},
			{summarize(woken.p50).String(), summarize(woken.p99).String(), summarize(woken.worst).String(), summarize(over).String(), fmt.Sprint(woken.bad)},
		}), nil
}

// manyChildren: each session's server is a process.
func (b *bench) manyChildren(ctx context.Context) (string, error) {
	echo, err := b.build(ctx, "./internal/bench/echo", "")
	if err != nil {
		return "", err
	}
	var rate, ended, memory []float64
	var calls seen
	for round := range b.rounds {
		folder, err := b.folder(fmt.Sprintf("children-%d", round))
		if err != nil {
			return "", err
		}
		s := b.kalpa.watched().server("kalpa", append(append([]string{}, briefly...), "--idle-timeout", "10s", "--", echo.program)...)
		if err := s.start(ctx, folder, startLimit); err != nil {
			return "", err
		}
		err = func() error {
			defer s.end()
			all, one, err := opened(s.endpoint, children)
			if err != nil {
				return err
			}
			rate = append(rate, one.rate)
			j := job{tool: "echo", warmup: b.warmup, d: b.d}
			if one, err = j.load(all).run(s.endpoint); err != nil {
				return err
			}
			calls.add(one)
			resident, err := s.resident()
			if err != nil {
				return err
			}
			memory = append(memory, float64(resident)/1e6)
			begin := time.Now()
			err = s.quiet(ctx)
			ended = append(ended, time.Since(begin).Seconds())
			return err
		}()
		if err != nil {
			return "", err
		}
		b.say("children, round %d: %.0f started/s, %.0f calls/s, p99 %.1f ms; none is left after %.0f s", round+1, rate[round], calls.rate[round], calls.p99[round], ended[round])
	}
	head := append(append([]string{}, seenHead[1:]...), "started/s", "the host's memory, MB", "none is left after, s")
	row := append(calls.row("")[1:], summarize(rate).String(), summarize(memory).String(), summarize(ended).String())
	return table([][]string{head, row}), errors.Join(ctx.Err())
}
