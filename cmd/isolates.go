package cmd

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
)

func newIsolates() *cobra.Command {
	f := &whichFlags{}
	list := &cobra.Command{
		Use: "list", Short: "List the isolates: objects, runtimes, heap", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(f, cmd, running, func(ctx context.Context, t *target) (*admin.Isolates, error) { return t.Isolates(ctx) },
				func(w io.Writer, all *admin.Isolates) {
					rows := [][]string{{"ISOLATE", "OBJECTS", "RESIDENT", "HEAP", "OF"}}
					for _, i := range all.Isolates {
						rows = append(rows, []string{strconv.Itoa(i.Number), strconv.FormatInt(i.Objects, 10), strconv.FormatInt(i.Resident, 10), bytesOf(i.Heap), bytesOf(i.HeapLimit)})
					}
					table(w, rows...)
				})
		},
	}
	var ask admin.Reset
	reset := &cobra.Command{
		Use: "reset NUMBER", Short: "Reset an isolate: all of its objects lose their memory, and none its storage", Args: takes("NUMBER"),
		Example: "  kalpa isolates reset 2 --cause memory_limit",
	}
	causeFlag(reset, &ask.Cause)
	reset.Flags().StringVar(&ask.Reason, "reason", "", "a `TEXT` for the host's log")
	reset.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return &usageError{err: fmt.Errorf("%q is not the number of an isolate", args[0]), hint: "kalpa isolates list shows them"}
		}
		ask.Isolate = &n
		return with(f, cmd, running, func(ctx context.Context, t *target) (*admin.WasReset, error) { return t.Reset(ctx, ask) },
			func(w io.Writer, r *admin.WasReset) {
				fmt.Fprintf(w, "isolate %d was reset (%s): %d objects\n", *r.Isolate, r.Cause, r.Objects)
			})
	}
	return group("isolates", "List the isolates of a running host, reset one",
		"isolates shows the groups of objects that share a heap and are reset together.", hostRule, f, list, reset)
}

func bytesOf(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}
