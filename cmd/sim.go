package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/sim"
	"github.com/kalpahost/kalpa/sim/page"
)

// simulation is a command line of kalpa sim.
type simulation struct {
	seed, seeds, profile string
	planFile, writePlan  string
	html                 string
	shrink, verify       bool
	keepGoing            bool
	out                  output
	parallel             int
	brokenName           string
	first, last          uint64
	plan                 *sim.Plan // of planFile
	broken               *sim.Broken
	stdout, stderr       io.Writer
	profileGiven         bool
}

func newSim() *cobra.Command {
	s := &simulation{}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run the host in a simulated world in which things go wrong, from a seed",
		Long: `sim runs the real host under a virtual clock, on a simulated disk and a simulated
network, with model clients that use it, and lets things go wrong: resets, crashes,
full disks, deployments, broken connections. What must always hold is checked all
along. All that happens is drawn from one seed: the same seed of the same program
gives the same run. docs/simulation.md says how to read what it prints.

Exit codes: 0 all held, 1 something did not work, 2 the command line or a plan is
wrong, 3 something did not hold, 4 two runs of one seed were not the same.`,
		Example: `  kalpa sim --seed 7
  kalpa sim --seeds 1-2000 --verify
  kalpa sim --seed 7 --profile power-cut --html run.html
  kalpa sim --plan kalpa-sim-swarm-7.plan --shrink
  kalpa sim compare --html compare.html`,
		Args: onlyCommands,
	}
	cmd.SuggestionsMinimumDistance = 2
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.seed, "seed", "", "the `NUMBER` that all is drawn from (default: any)")
	flags.StringVar(&s.seeds, "seeds", "", "a `RANGE` of seeds, such as 1-2000")
	profileFlag(cmd, &s.profile, "swarm")
	flags.StringVar(&s.planFile, "plan", "", "run the plan in this `FILE`")
	flags.StringVar(&s.writePlan, "write-plan", "", "write the seed's plan to this `FILE`, and do not run it; with --shrink, where the small one goes")
	flags.BoolVar(&s.shrink, "shrink", false, "make a plan that fails as small as it can be")
	flags.BoolVar(&s.verify, "verify", false, "run each seed twice, and compare the runs step by step")
	flags.BoolVar(&s.keepGoing, "keep-going", false, "run the seeds after one that fails as well")
	flags.IntVar(&s.parallel, "parallel", runtime.GOMAXPROCS(0), "how `MANY` seeds run at once")
	flags.StringVar(&s.html, "html", "", "draw the run, or the first that fails, as a page in this `FILE`")
	s.out.add(flags)
	flags.StringVar(&s.brokenName, "broken", "", "break this `PART` of the host on purpose, to see it found")
	if err := flags.MarkHidden("broken"); err != nil {
		panic(err) // the flag is this program's own
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.stdout, s.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		s.profileGiven = flags.Changed("profile")
		for _, name := range []string{"seed", "seeds", "plan"} {
			if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
				return &usageError{err: fmt.Errorf("--%s is empty", name), hint: "leave it out for any seed"}
			}
		}
		if err := s.prepare(); err != nil {
			return err
		}
		// What is found takes its time, and is to have where to go.
		for _, file := range s.files() {
			if err := writable(file); err != nil {
				return err
			}
		}
		switch {
		case s.shrink:
			return s.runShrink(cmd.Context())
		case s.writePlan != "":
			return s.writeOnly()
		}
		return s.run(cmd.Context())
	}
	cmd.AddCommand(newSimCompare())
	return cmd
}

func profileFlag(cmd *cobra.Command, into *string, byDefault string) {
	cmd.Flags().StringVar(into, "profile", byDefault, "the `KIND` of plans: "+strings.Join(sim.Profiles(), ", "))
	if err := cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(sim.Profiles(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is this program's own
	}
}

// prepare makes of the flags what they mean.
func (s *simulation) prepare() (err error) {
	wrong := func(hint, format string, a ...any) error {
		return &usageError{err: fmt.Errorf(format, a...), hint: hint}
	}
	given := 0
	for _, v := range []string{s.seed, s.seeds, s.planFile} {
		if v != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return wrong("a plan has its seed in it", "--seed, --seeds and --plan are given: one is enough")
	case s.planFile != "" && s.profileGiven:
		return wrong("the profile of a plan is what it was made with", "--plan and --profile are given: one is enough")
	case s.parallel < 1:
		return wrong("leave it out for one on each processor", "--parallel %d: want 1 or more", s.parallel)
	case s.seeds != "" && (s.shrink || s.writePlan != ""):
		return wrong("run the seeds first, and then the one that fails with --seed", "--shrink and --write-plan are about one seed")
	}
	if s.brokenName != "" {
		if s.broken, err = sim.FindBroken(s.brokenName); err != nil {
			return &usageError{err: fmt.Errorf("--broken: %w", err)}
		}
		if !s.profileGiven && s.planFile == "" && s.broken.Profile != "" {
			s.profile = s.broken.Profile
		}
	}
	switch {
	case s.planFile != "":
		if s.plan, err = readPlan(s.planFile); err != nil {
			return wrong("docs/simulation.md says how plans are written", "%s: %w", s.planFile, err)
		}
		s.plan.Profile = cmp.Or(s.plan.Profile, "by-hand")
		s.first, s.last, s.profile = s.plan.Seed, s.plan.Seed, s.plan.Profile
		return nil
	case s.seeds != "":
		if s.first, s.last, err = seedRange(s.seeds); err != nil {
			return wrong("write --seeds 1-2000", "--seeds %s: %w", s.seeds, err)
		}
	case s.seed != "":
		if s.first, err = strconv.ParseUint(s.seed, 0, 64); err != nil {
			return wrong("write --seed 7", "--seed %s: it is no number from 0 on", s.seed)
		}
		s.last = s.first
	default:
		s.first = uint64(rand.Uint32())
		s.last = s.first
	}
	if _, err := sim.NewPlan(s.first, s.profile); err != nil {
		return &usageError{err: fmt.Errorf("--profile: %w", err)}
	}
	return nil
}

func seedRange(text string) (first, last uint64, err error) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, errors.New("want two numbers with a - between")
	}
	first, err1 := strconv.ParseUint(from, 0, 64)
	last, err2 := strconv.ParseUint(to, 0, 64)
	switch {
	case errors.Join(err1, err2) != nil:
		return 0, 0, errors.New("want two numbers with a - between")
	case last < first:
		return 0, 0, errors.New("the second is less than the first")
	case last-first >= 1<<32:
		return 0, 0, errors.New("these are more than a computer can run")
	}
	return first, last, nil
}

func readPlan(file string) (*sim.Plan, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	return sim.ReadPlan(f)
}

// files are those that will be written whatever the run comes to.
func (s *simulation) files() (files []string) {
	if s.html != "" {
		files = append(files, s.html)
	}
	if s.shrink {
		files = append(files, s.smallPlan())
	}
	return files
}

// smallPlan is where what --shrink finds goes.
func (s *simulation) smallPlan() string {
	return cmp.Or(s.writePlan, fmt.Sprintf("kalpa-sim-%s-%d-small.plan", s.profile, s.first))
}

// writable: the file can be written. It stays as it is.
func writable(file string) error {
	if file == "-" {
		return nil
	}
	_, before := os.Stat(file)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if os.IsNotExist(before) {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// writePlanTo writes a plan to a file, or to stdout for "-".
func (s *simulation) writePlanTo(file string, p *sim.Plan) error {
	if file == "-" {
		return p.Write(s.stdout)
	}
	return writeFile(file, p.Write)
}

// writeFile makes a file of what write writes.
func writeFile(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func (s *simulation) writeOnly() error {
	p, err := s.planOf(s.first)
	if err != nil {
		return err
	}
	if err := s.writePlanTo(s.writePlan, p); err != nil || s.writePlan == "-" {
		return err
	}
	v := struct {
		Seed   uint64 `json:"seed"`
		Plan   string `json:"plan"` // the file
		Replay string `json:"replay"`
	}{s.first, s.writePlan, s.command("--plan", s.writePlan)}
	return s.out.print(s.stdout, v, func(w io.Writer) {
		fmt.Fprintf(w, "the plan of seed %d is in %s; run it with: %s\n", v.Seed, v.Plan, v.Replay)
	})
}

func (s *simulation) planOf(seed uint64) (*sim.Plan, error) {
	if s.plan != nil {
		return s.plan, nil
	}
	return sim.NewPlan(seed, s.profile)
}

// exitError ends the program with a code of its own, when all has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run runs the seeds, and tells what they came to.
func (s *simulation) run(ctx context.Context) error {
	bar := newProgress(s.stderr)
	r := &simReport{Profile: s.profile, First: s.first, Last: s.last, Verified: s.verify, Commit: commit()}
	traces := map[uint64]uint64{}
	c := sim.Campaign{Profile: s.profile, First: s.first, Last: s.last, Plan: s.plan, Workers: s.parallel, Verify: s.verify, Broken: s.broken}
	c.Each = func(one *sim.Result) bool {
		traces[one.Plan.Seed] = one.Trace
		r.Virtual += one.Virtual
		bar.set(len(traces), int(s.last-s.first)+1, fmt.Sprintf("%.1f virtual hours", r.Virtual.Hours()))
		return ctx.Err() == nil && (s.keepGoing || one.Violation == nil)
	}
	total, err := c.Run()
	bar.clear()
	diverged, differs := errors.AsType[*sim.DivergedError](err)
	switch {
	case err != nil && !differs:
		return err
	case err == nil && ctx.Err() != nil && len(total.Failed) == 0:
		return fmt.Errorf("interrupted after %d of %d seeds", total.Seeds, s.last-s.first+1)
	}
	slices.SortFunc(total.Failed, func(a, b *sim.Result) int { return cmp.Compare(a.Plan.Seed, b.Plan.Seed) })
	r.take(total, traces)
	s.keepEvidence(r, total, diverged)
	if err := s.out.print(s.stdout, r, r.text); err != nil {
		return err
	}
	var drawn error
	if s.html != "" {
		drawn = s.draw(total)
	}
	var code int
	switch {
	case differs:
		code = ExitDiverged
	case len(total.Failed) > 0, s.broken == nil && r.lacks():
		code = ExitViolation
	default:
		return drawn
	}
	if drawn != nil { // what was found counts for more
		report(s.stderr, drawn)
	}
	return exitError(code)
}

// keepEvidence writes the plans of what failed to files, and adds to the report how to
// see it again.
func (s *simulation) keepEvidence(r *simReport, total *sim.Total, diverged *sim.DivergedError) {
	for _, f := range total.Failed {
		plan, again := s.keep(f.Plan)
		r.Failures = append(r.Failures, simFailure{
			Seed: f.Plan.Seed, Invariant: f.Violation.Invariant, Text: f.Violation.Text, Step: f.Violation.Step, At: seconds(f.Violation.At), Events: f.Notes,
			keptPlan: plan, Replay: s.command(again...), Shrink: s.command(append(again, "--shrink")...),
		})
	}
	if diverged != nil {
		plan, again := s.keep(diverged.Plan)
		r.Diverged = &simDivergence{Seed: diverged.Plan.Seed, Step: diverged.Step, keptPlan: plan, Replay: s.command(append(again, "--verify")...)}
	}
}

// keep writes a plan to a file, if it did not come from one, and says with which flags
// it is run again: where it can't be written, its seed gives the same.
func (s *simulation) keep(p *sim.Plan) (kept keptPlan, again []string) {
	if s.planFile != "" {
		return keptPlan{Plan: s.planFile}, []string{"--plan", s.planFile}
	}
	file := fmt.Sprintf("kalpa-sim-%s-%d.plan", p.Profile, p.Seed)
	if err := s.writePlanTo(file, p); err != nil {
		return keptPlan{PlanError: err.Error()}, []string{"--seed", fmt.Sprint(p.Seed), "--profile", p.Profile}
	}
	return keptPlan{Plan: file}, []string{"--plan", file}
}

// command is the command line that does something with what failed.
func (s *simulation) command(args ...string) string {
	if s.brokenName != "" {
		args = append(args, "--broken", s.brokenName)
	}
	return "kalpa sim " + strings.Join(args, " ")
}

// runShrink makes a plan that fails smaller.
func (s *simulation) runShrink(ctx context.Context) error {
	p, err := s.planOf(s.first)
	if err != nil {
		return err
	}
	o := sim.Options{Broken: s.broken}
	first, err := sim.Run(p, o)
	if err != nil {
		return err
	}
	if first.Violation == nil {
		return fmt.Errorf("seed %d (%s) does not fail: there is nothing to shrink", p.Seed, p.Profile)
	}
	bar := newProgress(s.stderr)
	tried := 0
	small := sim.Shrink(p, func(p *sim.Plan) bool {
		tried++
		bar.set(tried, 0, fmt.Sprintf("shrinking: %d faults, %d clients", len(p.Faults), len(p.Clients)))
		r, err := sim.Run(p, o)
		return ctx.Err() == nil && err == nil && failsAlike(r, first)
	})
	bar.clear()
	s.plan, s.planFile = small, s.smallPlan()
	if err := s.writePlanTo(s.planFile, small); err != nil {
		return err
	}
	if s.out != outputJSON && s.planFile != "-" {
		fmt.Fprintf(s.stdout, "shrunk     %s to %s, in %d runs: %s\n\n", sizeOf(p), sizeOf(small), tried, s.planFile)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: the plan could be smaller")
	}
	s.shrink = false
	return s.run(ctx)
}

// failsAlike: what does not hold in one run does not in the other. Else a plan would
// shrink to another defect.
func failsAlike(r, first *sim.Result) bool {
	return r.Violation != nil && r.Violation.Invariant == first.Violation.Invariant
}

func sizeOf(p *sim.Plan) string {
	ops := 0
	for _, c := range p.Clients {
		ops += len(c.Ops)
	}
	return fmt.Sprintf("%d faults, %d clients, %d calls", len(p.Faults), len(p.Clients), ops)
}

// draw runs one seed again, and draws it: the first that failed, if one did.
func (s *simulation) draw(total *sim.Total) error {
	p, err := s.planOf(s.first)
	if len(total.Failed) > 0 {
		p = total.Failed[0].Plan
	}
	if err != nil {
		return err
	}
	r, err := sim.Run(p, sim.Options{Broken: s.broken, Record: true})
	if err != nil {
		return err
	}
	if err := writeFile(s.html, func(w io.Writer) error { return page.Write(w, r, commit()) }); err != nil {
		return err
	}
	if s.out != outputJSON {
		fmt.Fprintf(s.stdout, "page       %s\n", s.html)
	}
	return nil
}

// commit is the revision that the program was built from, as far as it knows.
func commit() string {
	v, revision := built()
	if revision == "" {
		return v
	}
	return revision[:min(len(revision), 12)]
}
