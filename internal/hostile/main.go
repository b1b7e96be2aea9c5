package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 8*time.Second, "how long each measurement lasts")
	flag.IntVar(&o.rate, "rate", 100, "calls a second of the client that does no harm")
	flag.StringVar(&o.only, "only", "", "the attacks whose name has this in it")
	flag.Float64Var(&o.most, "most", 2, "how many times the p99 alone the p99 beside an attack may be")
	flag.StringVar(&o.program, "program", "", "the kalpa that is attacked; built when empty")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	length  time.Duration
	rate    int
	only    string
	most    float64
	program string
}

func run(ctx context.Context, o options) error {
	t, err := start(ctx, o.program)
	if err != nil {
		return err
	}
	defer t.stop()
	good, err := t.session(ctx, t.tokens["good"])
	if err != nil {
		return err
	}
	victim := &client{target: t, token: t.tokens["good"], session: good}
	victim.measure(ctx, 2*time.Second, o.rate) // to warm up

	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "attack\tp50 alone\tp99 alone\tp99 beside\tratio\tfailed\tp99 after\tresident\tanswers to the attackers")
	var beyond []string
	for _, a := range attacks {
		if !strings.Contains(a.name, o.only) {
			continue
		}
		alone := victim.measure(ctx, o.length, o.rate)
		attacking, end := context.WithCancel(ctx)
		var seen tally
		ready, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			a.run(attacking, t, &seen, func() { close(ready) })
		}()
		select {
		case <-ready:
		case <-done:
			end()
			return fmt.Errorf("%s: the attack ended before it had begun", a.name)
		}
		beside := victim.measure(ctx, o.length, o.rate)
		memory := t.resident()
		end()
		<-done
		after := victim.measure(ctx, o.length/2, o.rate)
		ratio := float64(beside.p99) / float64(alone.p99)
		mark := ""
		if ratio > o.most || beside.failed > 0 {
			beyond = append(beyond, a.name)
			mark = " !"
		}
		fmt.Fprintf(out, "%s\t%v\t%v\t%v\t%.2f%s\t%d\t%v\t%d MiB\t%s\n", a.name, ms(alone.p50), ms(alone.p99), ms(beside.p99), ratio, mark, beside.failed, ms(after.p99), memory>>20, seen.String())
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if len(beyond) > 0 {
		return errors.New("the client that does no harm was held up beside: " + strings.Join(beyond, ", "))
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// latency is what a client has seen.
type latency struct {
	p50, p99 time.Duration
	failed   int
}

func latencyOf(all []time.Duration, failed int) latency {
	if len(all) == 0 {
		return latency{failed: failed}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(int(q*float64(len(all))), len(all)-1)] }
	return latency{at(0.5), at(0.99), failed}
}
