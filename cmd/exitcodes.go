package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	// ExitOK: done; for serve: ended by SIGTERM or SIGINT, in order.
	ExitOK = 0
	// ExitFailure: something did not work: an address in use, a data folder that
	// can't be opened, a shutdown that was cut short by a second signal.
	ExitFailure = 1
	// ExitUsage: the command line, or the configuration or plan file, is wrong, or names
	// what the host does not have; nothing was started.
	ExitUsage = 2
	// ExitViolation: kalpa sim has found that something does not hold which must.
	ExitViolation = 3
	// ExitDiverged: kalpa sim --verify has found that two runs of one seed differ.
	ExitDiverged = 4
	// ExitDamaged: kalpa check has found that something is lost, or a store could not be
	// opened because it is damaged.
	ExitDamaged = 5
	// ExitWorn: kalpa serve has ended in order because too many turns that overran can't
	// be ended. It should be started again.
	ExitWorn = 6
)

// exitCodes are the exit codes of all commands, in words.
var exitCodes = []struct {
	code int
	text string
}{
	{ExitOK, "done; of serve: ended by a signal, in order"},
	{ExitFailure, "something did not work: an address in use, no host at an address, no such session or object, a second signal; what and why is on stderr"},
	{ExitUsage, "the command line, or a configuration or plan file, is wrong, or names a class, server or isolate that is not there; nothing was started or changed"},
	{ExitViolation, "kalpa sim and kalpa soak: something does not hold that must"},
	{ExitDiverged, "kalpa sim: two runs of one seed differ"},
	{ExitDamaged, "the store is damaged: kalpa check has found that something is lost, or a command could not open it for that"},
	{ExitWorn, "kalpa serve has ended in order, for a service manager to start it again: more than 64 turns of objects overran and could not be stopped"},
}

// newExitCodes is a topic of help: kalpa help exit-codes.
func newExitCodes() *cobra.Command {
	var s strings.Builder
	s.WriteString("Exit codes of kalpa:\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&s, "  %d  %s\n", c.code, c.text)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes say", Long: strings.TrimSuffix(s.String(), "\n")}
}
