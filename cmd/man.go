package cmd

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use: "man DIR", Short: "Write manual pages, one for each command, into a folder", Args: takes("DIR"),
		Long:    "man writes the manual pages of section 1 into a folder, which is made if it is not there.",
		Example: "  kalpa man /usr/local/share/man/man1",
	}
	out.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		v, _ := built()
		date := time.Unix(0, 0).UTC() // the same pages for the same program
		if err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "kalpa " + v, Manual: "kalpa", Date: &date}, args[0]); err != nil {
			return err
		}
		type written struct {
			Folder string `json:"folder"`
		}
		return out.print(cmd.OutOrStdout(), written{args[0]}, func(w io.Writer) { fmt.Fprintf(w, "manual pages are in %s\n", args[0]) })
	}
	return cmd
}
