package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/soak"
)

func newSoak() *cobra.Command {
	var (
		seed   string
		length time.Duration
		out    output
	)
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run real hosts and clients through storms of faults, and judge what clients see",
		Long: `soak starts this program as a host, with its store on a disk, and lets clients call
tools in sessions over HTTP. Meanwhile isolates are reset, the host is killed with -9,
stopped and continued, and its disk gets full. What the clients have seen is judged:
every request that was accepted is answered, once and on its own stream; no event id
means two things; no increment that was acknowledged is lost; nothing stays resident
when nobody calls, and no process is left.

It is what kalpa sim is for the real thing: the seed gives the plan, and the machine
gives the rest, so that a seed does not repeat a run. Disks get full where a file
system in memory may be mounted, as root on Linux.

Exit codes: 0 all held, 1 something did not work, 2 the command line is wrong, 3
something did not hold.`,
		Example: `  kalpa soak
  kalpa soak --seed 7 --for 1h`,
		Args: onlyCommands,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&seed, "seed", "", "the `NUMBER` that the plan is drawn from (default: any)")
	flags.DurationVar(&length, "for", 3*time.Minute, "how `LONG`; a storm that has begun goes on to its end")
	out.add(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		n := uint64(rand.Uint32())
		if seed != "" {
			var err error
			if n, err = strconv.ParseUint(seed, 0, 64); err != nil {
				return &usageError{err: fmt.Errorf("--seed %s: it is no number from 0 on", seed), hint: "write --seed 7"}
			}
		}
		if length < 0 {
			return &usageError{err: fmt.Errorf("--for %v: want 0 or more", length), hint: "0 is one storm"}
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		bar := newProgress(cmd.ErrOrStderr())
		s := soak.Soak{Program: program, Seed: n, For: length, Told: func(r soak.Report) {
			bar.set(int(min(r.Real, length.Seconds())), int(length.Seconds()), fmt.Sprintf("%s requests", grouped(r.Requests)))
		}}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		r, err := s.Run(ctx) // what it has mounted and started ends with it
		bar.clear()
		switch {
		case errors.Is(err, context.Canceled):
			return errors.New("interrupted")
		case err != nil:
			return err
		}
		v := struct {
			Commit string `json:"commit"`
			*soak.Report
		}{commit(), r}
		if err := out.print(cmd.OutOrStdout(), v, func(w io.Writer) { soakText(w, r, length) }); err != nil {
			return err
		}
		if len(r.Failures) > 0 {
			return exitError(ExitViolation)
		}
		return nil
	}
	cmd.AddCommand(&cobra.Command{
		Use: "server", Short: "The MCP server of a soak, on stdin and stdout", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return soak.Serve(cmd.InOrStdin(), cmd.OutOrStdout()) },
	})
	return cmd
}

// soakText tells what a soak came to.
func soakText(w io.Writer, r *soak.Report, length time.Duration) {
	line := func(head, format string, a ...any) { fmt.Fprintf(w, "%-10s %s\n", head, fmt.Sprintf(format, a...)) }
	line("kalpa soak", "seed=%d commit=%s for=%v", r.Seed, commit(), length)
	line("faults", "reset-isolate %s · kill %s · pause %s · disk full %s (hosts ended %s)",
		grouped(r.Resets), grouped(r.Kills), grouped(r.Pauses), grouped(r.Fulls), grouped(r.Ended))
	lost := 0
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(r.Lost)) {
		lost += r.Lost[reason]
		reasons = append(reasons, fmt.Sprintf("%s %s", reason, grouped(r.Lost[reason])))
	}
	line("work", "requests %s = answered %s + lost %s + refused %s + unsure %s", grouped(r.Requests), grouped(r.Answered), grouped(lost), grouped(r.Refused), grouped(r.Unsure))
	if lost > 0 {
		line("lost", "%s", strings.Join(reasons, " · "))
	}
	line("answers", "on a GET %s · told again after a kill %s · by a last resort %s · slowest %.1f s", grouped(r.OnGet), grouped(r.Again), grouped(r.Resorts), r.Slowest)
	for _, what := range r.Skipped {
		line("skipped", "%s", what)
	}
	line("speed", "%d storms in %v", r.Storms, time.Duration(r.Real*float64(time.Second)).Round(time.Second))
	if len(r.Failures) == 0 {
		line("PASS", "everything that clients saw is in order")
	} else {
		line("FAIL", "%d things are not in order", len(r.Failures))
		for _, f := range r.Failures[:min(len(r.Failures), 20)] {
			fmt.Fprintln(w, "  "+f)
		}
		line("again", "kalpa soak --seed %d --for %v", r.Seed, length)
	}
}
