package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
)

func newEvents() *cobra.Command {
	f := &whichFlags{}
	past := false
	cmd := &cobra.Command{
		Use: "events", Short: "Follow what happens on a running host: builds, disposals, resets, losses", Args: noArgs,
		Long: `events prints what happens on a running host as it happens, until it is interrupted: one
line for each event; with --output json, one JSON object.

` + hostRule,
		Example: "  kalpa events --past\n  kalpa events --output json | grep execution.lost",
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&past, "past", false, "begin with the latest "+strconv.Itoa(admin.MaxEvents)+", as far as the host remembers them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := f.open(running)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		out := cmd.OutOrStdout()
		return t.Events(ctx, "", past, func(e admin.Event) error {
			if f.out == outputJSON {
				return json.NewEncoder(out).Encode(e)
			}
			_, err := fmt.Fprintln(out, plain(eventText(e)))
			return err
		})
	}
	return cmd
}

func eventText(e admin.Event) string {
	words := []string{e.At.Local().Format("15:04:05.000"), e.Type}
	for _, part := range [][2]string{{"session", e.Session}, {"object", joinID(e.Class, e.Name)}, {"server", e.Server}, {"tool", e.Tool}, {"reason", e.Reason}, {"detail", e.Detail}} {
		if part[1] != "" {
			words = append(words, part[0]+" "+part[1])
		}
	}
	if e.Session == "" && e.Class == "" && e.Isolate != nil {
		words = append(words, "isolate "+strconv.Itoa(*e.Isolate))
	}
	if e.Objects > 0 {
		words = append(words, "objects "+strconv.Itoa(e.Objects))
	}
	return strings.Join(words, "  ")
}

func joinID(class, name string) string {
	if class == "" {
		return ""
	}
	return class + "/" + name
}

// interruptible is a context that ends with an interrupt, which is how a command that
// goes on ends in order.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}
