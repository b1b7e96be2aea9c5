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
	var (
		seed, profile, html string
		output              output
	)
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
	output.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n, err := strconv.ParseUint(seed, 0, 64)
		if err != nil {
			return &usageError{err: fmt.Errorf("--seed %s: it is no number from 0 on", seed), hint: "write --seed 7"}
		}
		p, err := sim.NewPlan(n, profile)
		if err != nil {
			return &usageError{err: fmt.Errorf("--profile: %w", err)}
		}
		if html != "" {
			if err := writable(html); err != nil {
				return err
			}
		}
		with, err := sim.Run(p, sim.Options{Record: true})
		if err != nil {
			return err
		}
		without, err := sim.Run(p, sim.Options{Record: true, GoOn: true, Seams: seams.Seams{Alarm: seams.Alarm{NoReassert: true}}})
		if err != nil {
			return err
		}
		c := &simComparison{
			Seed: n, Profile: profile, Commit: commit(), End: p.Length.Seconds(), Later: (p.Length + 2*p.Idle).Seconds(),
			With: residentsOf(p, with), Without: residentsOf(p, without), page: html,
		}
		if with.Violation != nil {
			c.Replay = fmt.Sprintf("kalpa sim --seed %d --profile %s", n, profile)
		}
		if html != "" {
			if err := writeFile(html, func(w io.Writer) error { return page.WriteCompare(w, with, without, commit()) }); err != nil {
				return err
			}
		}
		if err := output.print(cmd.OutOrStdout(), c, c.text); err != nil {
			return err
		}
		if with.Violation != nil {
			return exitError(ExitViolation)
		}
		return nil
	}
	return cmd
}

// simComparison is what kalpa sim compare tells.
type simComparison struct {
	Seed    uint64 `json:"seed"`
	Profile string `json:"profile"`
	Commit  string `json:"commit"`
	// End is when the last request comes, and Later two idle time-outs after that, in
	// seconds from the beginning.
	End     float64      `json:"end_seconds"`
	Later   float64      `json:"later_seconds"`
	With    simResidents `json:"with"` // the re-assertion
	Without simResidents `json:"without"`
	Replay  string       `json:"replay,omitempty"` // where something did not hold with it
	page    string
}

// simResidents is how many runtimes were resident in a run, and what did not hold.
type simResidents struct {
	Most      int    `json:"most"` // at once
	AtEnd     int    `json:"at_end"`
	Later     int    `json:"later"`
	Left      int    `json:"left"` // for ever
	Violation string `json:"violation,omitempty"`
}

func residentsOf(p *sim.Plan, r *sim.Result) simResidents {
	of := simResidents{Most: residentMost(r), AtEnd: residentAt(r, p.Length), Later: residentAt(r, p.Length+2*p.Idle), Left: page.Left(r)}
	if r.Violation != nil {
		of.Violation = r.Violation.Error()
	}
	return of
}

func (c *simComparison) text(w io.Writer) {
	fmt.Fprintf(w, "kalpa sim compare  seed=%d commit=%s profile=%s\n\n", c.Seed, c.Commit, c.Profile)
	row := func(what string, with, without int) []string {
		return []string{what, strconv.Itoa(with), strconv.Itoa(without)}
	}
	at := func(seconds float64) string {
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
	table(
		w,
		[]string{"resident runtimes", "with the re-assertion", "without"},
		row("most at once", c.With.Most, c.Without.Most),
		row("at the end of the requests, "+at(c.End), c.With.AtEnd, c.Without.AtEnd),
		row("two idle time-outs later, "+at(c.Later), c.With.Later, c.Without.Later),
		row("left for ever", c.With.Left, c.Without.Left),
	)
	if c.Without.Violation != "" {
		fmt.Fprintf(w, "\nwithout it: %s\n", c.Without.Violation)
	}
	if c.page != "" {
		fmt.Fprintf(w, "\npage: %s\n", c.page)
	}
	if c.With.Violation != "" {
		fmt.Fprintf(w, "\nFAIL with the re-assertion: %s\nreplay: %s\n", c.With.Violation, c.Replay)
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
