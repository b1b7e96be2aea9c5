package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/storage"
)

// Run runs one command line, without the program's name, and returns the exit
// code. It returns when the command is done; for serve: when ctx ends, or after a
// signal.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if code, said := errors.AsType[exitError](err); said {
		return int(code)
	}
	report(stderr, err)
	if _, usage := errors.AsType[*usageError](err); usage {
		return ExitUsage
	}
	if e, ok := errors.AsType[*admin.Error](err); ok && e.Usage() {
		return ExitUsage
	}
	if errors.Is(err, storage.ErrDamaged) {
		return ExitDamaged
	}
	if errors.Is(err, errWorn) {
		return ExitWorn
	}
	return ExitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kalpa",
		Short: "Host MCP servers with durable sessions",
		Long: `kalpa hosts MCP servers with durable sessions: a client goes on with its session
after a restart, a crash or a deployment, and every request it sent is answered.`,
		Example: `  kalpa serve
  kalpa serve -- npx -y @modelcontextprotocol/server-everything`,
		Version:       version(),
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("kalpa {{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newChaos(), newSim(), newSoak(), newConfig(), newToken(), newVersion(),
		newStatus(), newSessions(), newObjects(), newAlarms(), newIsolates(), newEvents(),
		newBackup(), newRestore(), newCheck(), newDoctor(), newMan(), newExitCodes())
	completeValues(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	cobras(root, "help").Args = knownCommand
	completion := cobras(root, "completion")
	completion.Args = knownShell
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// cobras is a command that cobra makes.
func cobras(root *cobra.Command, name string) *cobra.Command {
	cmd, _, err := root.Find([]string{name})
	if err != nil {
		panic(err)
	}
	return cmd
}

// usageError is a mistake in the command line or the configuration.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// onlyCommands is for a command that does nothing itself: a word behind it that is none of
// those below it is a slip.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownCommand(cmd, args[0])
}

// knownCommand is for kalpa help, whose words are a command.
func knownCommand(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) == 0 {
		return err
	}
	return unknownCommand(of, rest[0])
}

// knownShell is for kalpa completion: each shell is a command below it.
func knownShell(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var shells []string
	for _, sub := range cmd.Commands() {
		shells = append(shells, sub.Name())
	}
	return unknown("completion for", args[0], shells, cmd.CommandPath()+" --help")
}

func unknownCommand(cmd *cobra.Command, name string) error {
	e := &usageError{err: fmt.Errorf("unknown command %q", name), hint: cmd.CommandPath() + " --help lists the commands"}
	near := cmd.SuggestionsFor(name)
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, name) {
			near = []string{sub.Name()} // it is what others call it, and not a slip
		}
	}
	if len(near) > 0 {
		e.hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// elsewhere are flags that other programs have, and what to write here.
var elsewhere = map[string]string{
	"port": "--listen HOST:PORT", "p": "--listen HOST:PORT", "host": "--listen HOST:PORT",
	"addr": "--listen HOST:PORT", "address": "--listen HOST:PORT", "bind": "--listen HOST:PORT",
	"c": "--config FILE", "e": "--env NAME", "json": "--output json", "o": "--output FORMAT", "verbose": "--log-level debug", "debug": "--log-level debug",
	"version": "kalpa version", "v": "kalpa version", "V": "kalpa version",
}

// flagError adds to what the flag parser says which flag was meant.
func flagError(cmd *cobra.Command, err error) error {
	e := &usageError{err: err}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name, value := invalid.GetFlag().Name, invalid.GetValue()
		if invalid.GetFlag().Value.Type() == "duration" {
			e.err = fmt.Errorf("--%s: %q is not a length of time", name, value)
			e.hint = "write --" + name + " 90s, 5m or 1h30m"
			return e
		}
		if number, ok := errors.AsType[*strconv.NumError](err); ok { // who types flags does not know what parses them
			what := "is not a whole number that can be used here"
			if number.Func == "ParseBool" {
				what = "is neither true nor false"
			}
			e.err = fmt.Errorf("--%s: %q %s", name, value, what)
		}
	}
	notThere, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		e.hint = cmd.CommandPath() + " --help lists the flags"
		return e
	}
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 { // before the flag: of a command that is none
		return unknownCommand(cmd, words[0])
	}
	name := notThere.GetSpecifiedName()
	for _, sub := range cmd.Commands() {
		if sub.Flags().Lookup(name) != nil && (e.hint == "" || sub.Name() == "serve") { // which is what most mean
			e.hint = "it is a flag of a command, and comes after it: " + sub.CommandPath() + " --" + name
		}
	}
	if e.hint != "" {
		return e
	}
	e.hint = cmd.CommandPath() + " --help lists the flags"
	if here, ok := elsewhere[name]; ok {
		flag, isFlag := strings.CutPrefix(strings.Fields(here)[0], "--")
		serve, _, _ := cmd.Find([]string{"serve"}) // below the root alone
		switch {
		case !isFlag, cmd.Flags().Lookup(flag) != nil:
			e.hint = "did you mean " + here + "?"
			return e
		case serve.Flags().Lookup(flag) != nil && !cmd.HasParent():
			e.hint = "did you mean " + serve.CommandPath() + " " + here + "?"
			return e
		}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near, ok := config.Nearest(name, known); ok {
		e.hint = "did you mean --" + near + "?"
	}
	return e
}

// report prints an error as a person wants to read it.
func report(w io.Writer, err error) {
	if problems, ok := errors.AsType[config.Problems](err); ok && len(problems) > 1 {
		fmt.Fprintf(w, "kalpa: %d problems, nothing was started:\n", len(problems))
		for _, p := range problems {
			fmt.Fprintln(w, "  "+p.String())
		}
	} else if e, ok := errors.AsType[*storage.Error](err); ok {
		bare := *e
		bare.Hint = ""
		fmt.Fprintf(w, "kalpa: %v\n", &bare)
	} else {
		fmt.Fprintf(w, "kalpa: %v\n", err)
	}
	hint := ""
	if e, ok := errors.AsType[*storage.Error](err); ok {
		hint = e.Hint
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		hint = e.hint
	}
	if e, ok := errors.AsType[*hinted](err); ok {
		hint = e.hint
	}
	if e, ok := errors.AsType[*admin.Error](err); ok {
		hint = e.Hint
	}
	if hint != "" {
		fmt.Fprintln(w, "  hint: "+hint)
	}
}
