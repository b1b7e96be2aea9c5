package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/check"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

func newCheck() *cobra.Command {
	var (
		data string
		out  output
	)
	cmd := &cobra.Command{
		Use: "check", Short: "Verify a store that no host has open, and explain what is wrong with it", Args: noArgs,
		Long: `check reads all of a store: its logs record by record, every block of its tables, and
every row: whether it decodes, and whether the rows that repeat each other agree. It
says what is wrong, what is lost by that, and what to do. It changes nothing. A backup
is checked in the same way, with --data.

Exit codes: 0 nothing is lost, 5 something is, 1 the store could not be looked at.`,
		Example: "  kalpa check --data ./kalpa-data",
	}
	cmd.Flags().StringVar(&data, "data", "", "the data `FOLDER`, or that of a backup (default $"+dataVariable+" or "+config.DefaultData+")")
	out.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, _ := (&whichFlags{data: data}).folder()
		r, err := check.Check(cmd.Context(), dir)
		if errors.Is(err, storage.ErrLocked) {
			return &hinted{fmt.Errorf("the store in %s is in use, by pid %d, and can't be checked", dir, pebble.ReadHolder(dir).PID), "end its host first; or take a backup, and check that: kalpa backup FOLDER, kalpa check --data FOLDER"}
		}
		if err != nil {
			return err
		}
		if err := out.print(cmd.OutOrStdout(), r, r.Text); err != nil {
			return err
		}
		if r.Damaged {
			return exitError(ExitDamaged)
		}
		return nil
	}
	return cmd
}
