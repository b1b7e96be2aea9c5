package cmd

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/sim"
	"github.com/kalpahost/kalpa/sim/page"
)

func newSimCompare() *cobra.Command {
	var seed, profile, html string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Run one seed with and without the re-assertion of idle deadlines",
		Long: `compare runs the plan of a seed twice: as it is, and with one line of the host taken
out, by which the deadline of an idle session outlives every recomputation of its
object's alarm. Without it runtimes that nobody uses stay for ever.`,
		Example: `  kalpa sim compare
  kalpa sim compare --seed 7 --html compare.html`,
		Args: noArgs,
	}
	cmd.Flags().StringVar(&seed, "seed", "1", "the `NUMBER` that all is drawn from")
	cmd.Flags().StringVar(&html, "html", "", "draw both runs as a page in this `FILE`")
	profileFlag(cmd, &profile, "idle-storm")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n, err := strconv.ParseUint(seed, 0, 64)
		if err != nil {
			return &usageError{err: fmt.Errorf("--seed %s: it is no number from 0 on", seed), hint: "write --seed 7"}
		}
		p, err := sim.NewPlan(n, profile)
		if err != nil {
			return &usageError{err: fmt.Errorf("--profile: %w", err)}
		}
		with, err := sim.Run(p, sim.Options{Record: true})
		if err != nil {
			return err
		}
		without, err := sim.Run(p, sim.Options{Record: true, GoOn: true, Seams: seams.Seams{Alarm: seams.Alarm{NoReassert: true}}})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "kalpa sim compare  seed=%d commit=%s profile=%s\n\n", n, commit(), profile)
		compared(out, p, with, without)
		if html != "" {
			if err := writeFile(html, func(w io.Writer) error { return page.WriteCompare(w, with, without, commit()) }); err != nil {
				return err
			}
			fmt.Fprintf(out, "\npage: %s\n", html)
		}
		if with.Violation != nil {
			fmt.Fprintf(out, "\nFAIL with the re-assertion: %v\nreplay: kalpa sim --seed %d --profile %s\n", with.Violation, n, profile)
			return exitError(ExitViolation)
		}
		return nil
	}
	return cmd
}

// compared tells how many runtimes were resident in two runs.
func compared(w io.Writer, p *sim.Plan, with, without *sim.Result) {
	rows := [][]string{{"resident runtimes", "with the re-assertion", "without"}}
	row := func(what string, of func(r *sim.Result) int) {
		rows = append(rows, []string{what, fmt.Sprint(of(with)), fmt.Sprint(of(without))})
	}
	row("most at once", func(r *sim.Result) int { return residentMost(r) })
	row("at the end of the requests, "+p.Length.String(), func(r *sim.Result) int { return residentAt(r, p.Length) })
	after := p.Length + 2*p.Idle
	row("two idle time-outs later, "+after.Round(time.Second).String(), func(r *sim.Result) int { return residentAt(r, after) })
	row("left for ever", page.Left)
	table(w, rows...)
	if v := without.Violation; v != nil {
		fmt.Fprintf(w, "\nwithout it: %v\n", v)
	}
}

func residentMost(r *sim.Result) (most int) {
	for _, s := range r.Samples {
		most = max(most, sum(s.Residents))
	}
	return most
}

func residentAt(r *sim.Result, at time.Duration) (n int) {
	for _, s := range r.Samples {
		if s.At <= at {
			n = sum(s.Residents)
		}
	}
	return n
}

func sum(of []int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}
