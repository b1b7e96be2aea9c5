package cmd

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
)

func newAlarms() *cobra.Command {
	f := &whichFlags{}
	var page pageFlags
	cmd := &cobra.Command{
		Use: "alarms [CLASS NAME]", Short: "List what wakes next; or the alarm of one object",
		Long: `alarms lists the alarms that are set, of all objects, the earliest first. A session has one
for what it must do by itself: reclaim its runtime, forget what was delivered, end.

` + targetRule,
		Example:           "  kalpa alarms --limit 5\n  kalpa alarms mcp-session mjbblt2xb6jh6rzhxc4ujuif3h",
		ValidArgsFunction: f.objectNames(true),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 0 {
				return takes("CLASS", "NAME")(cmd, args)
			}
			return nil
		},
	}
	f.add(cmd.Flags())
	page.add(cmd.Flags(), 20, "those after this `PLACE`, which the page before has named")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return with(f, cmd, looking, func(ctx context.Context, t *target) (*admin.Alarms, error) {
			if len(args) == 2 {
				all, err := t.Alarms(ctx, args[0], args[1], "", 0)
				if err == nil && len(all.Alarms) == 0 { // nor has what is not there
					_, err = t.Object(ctx, args[0], args[1], "", 1)
					err = t.class(ctx, args[0], err)
				}
				return all, err
			}
			all, next, err := collect(&page, func(after string, limit int) ([]admin.Alarm, string, error) {
				got, err := t.Alarms(ctx, "", "", after, limit)
				if err != nil {
					return nil, "", err
				}
				return got.Alarms, got.Next, nil
			})
			return &admin.Alarms{Alarms: all, Next: next}, err
		}, func(w io.Writer, all *admin.Alarms) {
			if len(all.Alarms) == 0 {
				fmt.Fprintln(w, "no alarm is set")
				return
			}
			rows := [][]string{{"AT", "", "CLASS", "NAME", "FAILED RUNS"}}
			for _, a := range all.Alarms {
				rows = append(rows, []string{a.At.Local().Format("2006-01-02 15:04:05"), ago(a.At), a.Class, a.Name, strconv.Itoa(a.Retry)})
			}
			table(w, rows...)
			more(w, all.Next)
		})
	}
	return cmd
}
