package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 8*time.Second, "how long each measurement lasts")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured: alone, then beside the attack")
	flag.IntVar(&o.rate, "rate", 100, "calls a second of the client that does no harm")
	flag.StringVar(&o.only, "only", "", "the attacks whose name has this in it")
	flag.Float64Var(&o.most, "most", 2, "how many times the p99 alone the p99 beside an attack may be, by the median of the rounds")
	flag.StringVar(&o.program, "program", "", "the kalpa that is attacked; built when empty")
	flag.Parse()
	if o.rounds < 1 || o.length <= 0 || o.rate < 1 {
		fmt.Fprintln(os.Stderr, "hostile: -rounds, -for and -rate must be more than 0")
		os.Exit(2)
	}
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	length  time.Duration
	rounds  int
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
	fmt.Fprintln(out, "attack\tp99 alone\tp99 beside\tratio\tfailed\tp99 after\tresident\tanswers to the attackers")
	var beyond []string
	for _, a := range attacks {
		if !strings.Contains(a.name, o.only) {
			continue
		}
		var rounds []round
		var seen tally
		for range o.rounds {
			one, err := attacked(ctx, o, t, victim, a, &seen)
			if err != nil {
				return err
			}
			rounds = append(rounds, one)
		}
		after := victim.measure(ctx, o.length, o.rate)
		s := sum(rounds)
		mark := ""
		if s.ratio.median > o.most || s.failed > 0 {
			beyond = append(beyond, a.name)
			mark = " !"
		}
		fmt.Fprintf(out, "%s\t%v\t%v\t%.2f (%.2f to %.2f)%s\t%d\t%v\t%d MiB\t%s\n", a.name, ms(s.alone), ms(s.beside),
			s.ratio.median, s.ratio.least, s.ratio.most, mark, s.failed, ms(after.p99), s.resident>>20, seen.String())
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if len(beyond) > 0 {
		return errors.New("the client that does no harm was held up beside: " + strings.Join(beyond, ", "))
	}
	return nil
}

// attacked measures the victim alone, and then beside an attack that it begins and ends.
func attacked(ctx context.Context, o options, t *target, victim *client, a attack, seen *tally) (round, error) {
	alone := victim.measure(ctx, o.length, o.rate)
	attacking, end := context.WithCancel(ctx)
	defer end()
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		a.run(attacking, t, seen, func() { close(ready) })
	}()
	select {
	case <-ready:
	case <-done:
		return round{}, fmt.Errorf("%s: the attack ended before it had begun", a.name)
	}
	beside := victim.measure(ctx, o.length, o.rate)
	resident := t.resident()
	end()
	<-done
	return round{alone, beside, resident}, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
