package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/admin"
)

// chaos is what the commands below kalpa chaos share.
type chaos struct {
	which whichFlags
}

func newChaos() *cobra.Command {
	c := &chaos{}
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break sessions of a running host on purpose",
		Long: `chaos resets sessions and isolates of a running host, at once or at a point of an
execution, to show what their clients make of it. It talks to the host's admin
listener: start the host with kalpa serve --admin ` + admin.DefaultAddress + `.`,
		Example: `  kalpa chaos reset --isolate 2 --cause memory_limit
  kalpa chaos arm --at after-result --tool slow --scope isolate --cause cpu_limit --times 3
  kalpa chaos storm --every 50ms --isolate random --for 10s`,
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	flags := cmd.PersistentFlags()
	c.which.add(flags)
	flags.Lookup("admin").Usage = "ask the host with this admin `ADDRESS` (default $" + adminVariable + ", or that of the data folder, or " + admin.DefaultAddress + ")"
	cmd.AddCommand(c.reset(), c.arm(), c.list(), c.disarm(), c.storm(), c.points(), c.causes())
	return cmd
}

// targetFlags name what is to be struck. A flag that is not given is not asked for.
type targetFlags struct {
	target  admin.Target
	isolate int
}

func (f *targetFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.target.Session, "session", "", "the session with this `ID`, which its client sends as Mcp-Session-Id")
	set.IntVar(&f.isolate, "isolate", 0, "the isolate with this `NUMBER`")
	set.StringVar(&f.target.Class, "class", "", "objects of this `CLASS`")
	set.StringVar(&f.target.Name, "name", "", "the object of the class with this `NAME`")
}

func (f *targetFlags) get(set *pflag.FlagSet) admin.Target {
	if set.Changed("isolate") {
		f.target.Isolate = &f.isolate
	}
	return f.target
}

// explain says more of an error when the class is none of the host's.
func (f *targetFlags) explain(ctx context.Context, host *admin.Client, err error) error {
	if err == nil || f.target.Class == "" {
		return err
	}
	return (&target{Client: host}).class(ctx, f.target.Class, err)
}

// completeTarget offers the sessions and classes of a host.
func (c *chaos) completeTarget(cmd *cobra.Command) {
	for flag, offer := range map[string]cobra.CompletionFunc{"session": c.which.sessionIDs(false), "class": c.which.objectNames(false)} {
		if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
			panic(err) // the flag is this program's own
		}
	}
}

func causeFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "cause", "", "the `CAUSE`, see kalpa chaos causes (default aborted)")
	complete(cmd, "cause", actor.Causes())
}

// complete offers the values of a flag to a shell.
func complete[T fmt.Stringer](cmd *cobra.Command, flag string, values []T) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is this program's own
	}
}

func (c *chaos) reset() *cobra.Command {
	var (
		ask    admin.Reset
		target targetFlags
	)
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Reset a session, an object or an isolate, at once",
		Example: `  kalpa chaos reset --session mjbblt2xb6jh6rzhxc4ujuif3h --cause memory_limit
  kalpa chaos reset --isolate 2`,
		Args: noArgs,
	}
	target.add(cmd.Flags())
	c.completeTarget(cmd)
	causeFlag(cmd, &ask.Cause)
	cmd.Flags().StringVar(&ask.Reason, "reason", "", "a `TEXT` for the host's log")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ask.Target = target.get(cmd.Flags())
		return talk(c, cmd, func(ctx context.Context, host *admin.Client) (*admin.WasReset, error) {
			done, err := host.Reset(ctx, ask)
			return done, target.explain(ctx, host, err)
		},
			func(w io.Writer, done *admin.WasReset) {
				if done.Epoch == 0 {
					fmt.Fprintf(w, "isolate %d was reset (%s): %d objects\n", *done.Isolate, done.Cause, done.Objects)
					return
				}
				what := "session " + done.Session
				if done.Session == "" {
					what = done.Class + "/" + done.Name
				}
				fmt.Fprintf(w, "%s was reset (%s): epoch %d, in isolate %d, has ended\n", what, done.Cause, done.Epoch, *done.Isolate)
			})
	}
	return cmd
}

func (c *chaos) arm() *cobra.Command {
	var (
		ask         admin.Strike
		target      targetFlags
		probability float64
		times       int
	)
	cmd := &cobra.Command{
		Use:   "arm --at POINT",
		Short: "Reset what comes to a point of an execution",
		Long: `arm sets a strike: a reset that waits for a request to come to a point. Without a
filter it is the next request that does. kalpa chaos points lists the points.`,
		Example: `  kalpa chaos arm --at after-result --tool slow --scope isolate --cause cpu_limit --times 3
  kalpa chaos arm --at before-flush --scope process
  kalpa chaos arm --at after-delivery --probability 0.01 --times -1`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&ask.Point, "at", "", "the `POINT`, see kalpa chaos points")
	target.add(flags)
	flags.StringVar(&ask.Method, "method", "", "requests of this `METHOD`, such as tools/call")
	flags.StringVar(&ask.Tool, "tool", "", "calls of the tool `NAME`")
	flags.StringVar(&ask.Scope, "scope", "", "`WHAT` is struck: the object, its isolate, or the process, as by kill -9 (default object)")
	causeFlag(cmd, &ask.Cause)
	flags.Float64Var(&probability, "probability", 1, "the `CHANCE` of each request that comes to the point")
	flags.IntVar(&ask.Skip, "skip", 0, "let so `MANY` requests pass first")
	flags.IntVar(&times, "times", 1, "how `OFTEN` it strikes; -1: without end")
	flags.StringVar(&ask.Hold, "hold", "", "a `TIME` for which the object stands still at the point before it is struck")
	c.completeTarget(cmd)
	complete(cmd, "at", actor.Points())
	complete(cmd, "scope", actor.Scopes())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if ask.Point == "" {
			return &usageError{err: errors.New("a strike needs a point: --at POINT"), hint: "kalpa chaos points lists them"}
		}
		ask.Target = target.get(flags)
		if flags.Changed("probability") {
			ask.Probability = &probability
		}
		if flags.Changed("times") {
			ask.Times = &times
		}
		return talk(c, cmd, func(ctx context.Context, host *admin.Client) (*admin.Armed, error) {
			armed, err := host.Arm(ctx, ask)
			return armed, target.explain(ctx, host, err)
		},
			func(w io.Writer, s *admin.Armed) {
				fmt.Fprintf(w, "strike %d waits at %s for %s\n", s.Number, s.Point, filters(&s.Strike))
			})
	}
	return cmd
}

// filters says in words what a strike waits for.
func filters(s *admin.Strike) string {
	var all []string
	add := func(what, value string) {
		if value != "" {
			all = append(all, what+" "+value)
		}
	}
	add("session", s.Session)
	add("class", s.Class)
	add("name", s.Name)
	if s.Isolate != nil {
		add("isolate", strconv.Itoa(*s.Isolate))
	}
	add("method", s.Method)
	add("tool", s.Tool)
	if len(all) == 0 {
		return "any request"
	}
	return strings.Join(all, ", ")
}

func (c *chaos) list() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the strikes that wait",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return talk(c, cmd, func(ctx context.Context, host *admin.Client) (*admin.Strikes, error) { return host.Strikes(ctx) },
				func(w io.Writer, all *admin.Strikes) {
					if len(all.Strikes) == 0 {
						fmt.Fprintln(w, "no strike waits")
						return
					}
					rows := [][]string{{"NUMBER", "POINT", "FOR", "SCOPE", "CAUSE", "STRUCK", "OF"}}
					for _, s := range all.Strikes {
						of := "no end"
						if s.Times != nil && *s.Times > 0 {
							of = strconv.Itoa(*s.Times)
						}
						rows = append(rows, []string{strconv.Itoa(s.Number), s.Point, filters(&s.Strike), s.Scope, s.Cause, strconv.FormatInt(s.Struck, 10), of})
					}
					table(w, rows...)
				})
		},
	}
}

func (c *chaos) disarm() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "disarm NUMBER | --all",
		Short: "Take strikes back",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 != all && len(args) <= 1 {
				return nil
			}
			return &usageError{err: errors.New("disarm takes the number of one strike, or --all"), hint: "kalpa chaos list shows the numbers"}
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "take back all of them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		take := func(ctx context.Context, host *admin.Client) (*admin.Disarmed, error) { return host.DisarmAll(ctx) }
		if !all {
			number, err := strconv.Atoi(args[0])
			if err != nil {
				return &usageError{err: fmt.Errorf("%q is not the number of a strike", args[0]), hint: "kalpa chaos list shows the numbers"}
			}
			take = func(ctx context.Context, host *admin.Client) (*admin.Disarmed, error) {
				return host.Disarm(ctx, number)
			}
		}
		return talk(c, cmd, take, func(w io.Writer, d *admin.Disarmed) { fmt.Fprintf(w, "taken back: %d\n", d.Disarmed) })
	}
	return cmd
}

func (c *chaos) points() *cobra.Command {
	return &cobra.Command{
		Use:   "points",
		Short: "List the points of an execution, in the order in which it passes them",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type point struct {
				Point    string `json:"point"`
				Sentence string `json:"sentence"`
			}
			var all []point
			rows := [][]string{{"POINT", ""}}
			for _, p := range actor.Points() {
				all = append(all, point{p.String(), p.Sentence()})
				rows = append(rows, []string{p.String(), p.Sentence()})
			}
			return c.which.out.print(cmd.OutOrStdout(), all, func(w io.Writer) { table(w, rows...) })
		},
	}
}

func (c *chaos) causes() *cobra.Command {
	return &cobra.Command{
		Use:   "causes",
		Short: "List the causes of resets, with what clients are told",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type cause struct {
				Cause     string `json:"cause"`
				Retryable bool   `json:"retryable"`
				Sentence  string `json:"sentence"`
			}
			var all []cause
			rows := [][]string{{"CAUSE", "RETRYABLE", "SENTENCE"}}
			for _, c := range actor.Causes() {
				all = append(all, cause{c.String(), c.Transient(), c.Sentence()})
				rows = append(rows, []string{c.String(), map[bool]string{true: "yes", false: "no"}[c.Transient()], c.Sentence()})
			}
			return c.which.out.print(cmd.OutOrStdout(), all, func(w io.Writer) { table(w, rows...) })
		},
	}
}

func (c *chaos) storm() *cobra.Command {
	var (
		ask            admin.Reset
		every, howLong time.Duration
		isolate        string
	)
	cmd := &cobra.Command{
		Use:     "storm",
		Short:   "Reset isolates again and again, until interrupted",
		Example: "  kalpa chaos storm --every 50ms --isolate random --for 10s",
		Args:    noArgs,
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "the `TIME` between two resets")
	cmd.Flags().DurationVar(&howLong, "for", 0, "end after this `TIME` (default: when interrupted)")
	cmd.Flags().StringVar(&isolate, "isolate", "random", "the `NUMBER` of an isolate, or random: another one each time")
	causeFlag(cmd, &ask.Cause)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		number, err := strconv.Atoi(isolate)
		switch {
		case err != nil && isolate != "random":
			return &usageError{err: fmt.Errorf("--isolate: %q is neither a number nor random", isolate)}
		case every <= 0 || howLong < 0:
			return &usageError{err: errors.New("--every must be more than 0, and --for not negative")}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if howLong > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, howLong)
			defer cancel()
		}
		return talk(c, cmd, func(_ context.Context, host *admin.Client) (*blown, error) {
			isolates, err := host.Isolates(ctx)
			if err != nil {
				return nil, err
			}
			return blow(ctx, host, ask, every, func() int {
				if isolate == "random" {
					return isolates.Isolates[rand.IntN(len(isolates.Isolates))].Number
				}
				return number
			})
		}, func(w io.Writer, b *blown) {
			fmt.Fprintf(w, "reset isolates %d times: %d objects\n", b.Resets, b.Objects)
		})
	}
	return cmd
}

// blown is what a storm has done.
type blown struct {
	Resets  int `json:"resets"`
	Objects int `json:"objects"`
}

// blow resets the next isolate at each tick, until ctx ends.
func blow(ctx context.Context, host *admin.Client, ask admin.Reset, every time.Duration, next func() int) (*blown, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	b := &blown{}
	for {
		n := next()
		ask.Isolate = &n
		done, err := host.Reset(ctx, ask)
		switch {
		case ctx.Err() != nil:
			return b, nil
		case err != nil:
			return nil, fmt.Errorf("after %d resets of %d objects: %w", b.Resets, b.Objects, err)
		}
		b.Resets++
		b.Objects += done.Objects
		select {
		case <-ctx.Done():
			return b, nil
		case <-tick.C:
		}
	}
}

// host is the one that flags and environment name; where they name none, that of the
// usual data folder, or the one at the usual address.
func (c *chaos) host() (*admin.Client, error) {
	if c.which.data == "" || c.which.admin.address != "" {
		return c.which.admin.client()
	}
	t, err := c.which.open(running)
	if err != nil {
		return nil, err
	}
	return t.Client, nil
}

// talk asks the host for something and prints it.
func talk[T any](c *chaos, cmd *cobra.Command, ask func(context.Context, *admin.Client) (*T, error), text func(io.Writer, *T)) error {
	host, err := c.host()
	if err != nil {
		return err
	}
	answer, err := ask(cmd.Context(), host)
	if err != nil {
		return err
	}
	return c.which.out.print(cmd.OutOrStdout(), answer, func(w io.Writer) { text(w, answer) })
}
