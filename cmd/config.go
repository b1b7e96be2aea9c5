package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/config"
)

func newConfig() *cobra.Command {
	group := &cobra.Command{
		Use:   "config",
		Short: "Check and show what a host would be configured with",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.SuggestionsMinimumDistance = 2
	group.AddCommand(newConfigCheck(), newConfigShow())
	return group
}

// checked is what config check says as JSON.
type checked struct {
	// Servers are the names of those that would be hosted; none where there are Problems.
	Servers  []string         `json:"servers,omitempty"`
	Problems []config.Problem `json:"problems,omitempty"`
	Notes    []config.Problem `json:"notes,omitempty"`
}

func newConfigCheck() *cobra.Command {
	var f hostFlags
	var out output
	check := &cobra.Command{
		Use:   "check [flags of serve] [-- COMMAND [ARG...]]",
		Short: "Say what is wrong with a configuration, and start nothing",
		Long: `check reads flags, KALPA_ variables and the file as serve would, lists all that is
wrong, each with its line, and what should be known, and starts nothing. Files and
secrets that the configuration names are read, and not shown.

Exit codes: 0 nothing is wrong, 2 something is.`,
		Example: `  kalpa config check --config kalpa.yaml`,
		Args:    command, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, notes, err := f.load(args)
			if err == nil {
				err = named(c)
			}
			v := checked{Notes: notes}
			v.Problems, _ = errors.AsType[config.Problems](err)
			if err == nil {
				for _, s := range c.Servers {
					v.Servers = append(v.Servers, s.Name)
				}
			}
			return cmp.Or(out.print(cmd.OutOrStdout(), v, func(w io.Writer) {
				for _, note := range notes {
					fmt.Fprintf(w, "note: %s\n", note)
				}
				if err == nil {
					fmt.Fprintf(w, "ok: %d server(s)\n", len(v.Servers))
				}
			}), err)
		},
	}
	f.add(check.Flags())
	out.add(check.Flags())
	return check
}

func newConfigShow() *cobra.Command {
	var f hostFlags
	var out output
	show := &cobra.Command{
		Use:   "show [flags of serve] [-- COMMAND [ARG...]]",
		Short: "Show each value that counts, and where it comes from",
		Long: `show prints the configuration that serve would have: every value with its default,
and behind it where it comes from. What is printed can be used as a file, but for
secrets, in whose place there are asterisks.`,
		Example: `  kalpa config show --config kalpa.yaml
  KALPA_IDLE_TIMEOUT=1m kalpa config show --output json`,
		Args: command, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := f.load(args)
			if err != nil {
				return err
			}
			values := c.Effective()
			text, err := config.Show(values)
			if err != nil {
				return err
			}
			return out.print(cmd.OutOrStdout(), values, func(w io.Writer) { fmt.Fprint(w, text) })
		},
	}
	f.add(show.Flags())
	out.add(show.Flags())
	return show
}
