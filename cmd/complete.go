package cmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/internal/admin"
)

// patience is how long a shell that completes a word waits for a host.
const patience = 2 * time.Second

// offered is how many words of a host a shell is offered.
const offered = 200

// choices are what a flag may be given, where these are few: those of settings stand with
// bars between them in its help.
func choices(f *pflag.Flag) []string {
	switch v := f.Value.(type) {
	case *output:
		return []string{string(outputText), string(outputJSON)}
	case *settingFlag:
		if strings.Contains(v.setting.Value, "|") {
			return strings.Split(v.setting.Value, "|")
		}
	}
	return nil
}

// completeValues offers the values of all flags that have few, of a command and of those
// below it.
func completeValues(cmd *cobra.Command) {
	register := func(f *pflag.Flag) {
		if all := choices(f); all != nil {
			if err := cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				panic(err) // the flag is this program's own
			}
		}
	}
	cmd.PersistentFlags().VisitAll(register)
	cmd.LocalNonPersistentFlags().VisitAll(register)
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// ofHost offers what a running host has: ask gets the arguments before, and the beginning
// of the word. Where no host runs there is nothing to offer.
func (f *whichFlags) ofHost(ask func(ctx context.Context, t *target, args []string, begins string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begins string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		t, err := f.open(running)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := ask(ctx, t, args, begins)
		if t.close() != nil || err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// sessionIDs offers sessions, as many as a command takes.
func (f *whichFlags) sessionIDs(many bool) cobra.CompletionFunc {
	return f.ofHost(func(ctx context.Context, t *target, args []string, begins string) (ids []string, err error) {
		if len(args) > 0 && !many {
			return nil, nil
		}
		page, err := t.Sessions(ctx, admin.SessionQuery{Prefix: begins, Limit: offered})
		if err != nil {
			return nil, err
		}
		for _, s := range page.Sessions {
			ids = append(ids, s.ID)
		}
		return ids, nil
	})
}

// objectNames offers a class, and behind it (deep) an object of the class.
func (f *whichFlags) objectNames(deep bool) cobra.CompletionFunc {
	return f.ofHost(func(ctx context.Context, t *target, args []string, begins string) (names []string, err error) {
		switch {
		case len(args) == 0:
			all, err := t.Classes(ctx)
			if err != nil {
				return nil, err
			}
			for _, c := range all.Classes {
				names = append(names, c.Name)
			}
		case len(args) == 1 && deep:
			page, err := t.Objects(ctx, args[0], begins, "", offered)
			if err != nil {
				return nil, err
			}
			for _, o := range page.Objects {
				names = append(names, o.Name)
			}
		}
		return names, nil
	})
}

// serverNames offers the servers of a host.
func (f *whichFlags) serverNames() cobra.CompletionFunc {
	return f.ofHost(func(ctx context.Context, t *target, _ []string, _ string) (names []string, err error) {
		all, err := t.Servers(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range all.Servers {
			names = append(names, s.Name)
		}
		return names, nil
	})
}
