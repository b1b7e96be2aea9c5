package cmd

import (
	"testing"

	"github.com/spf13/cobra"
)

// speaks are the commands whose output is not an answer: a host's first lines, scripts for
// a shell, the messages of a server.
var speaks = map[string]bool{
	"kalpa serve": true, "kalpa soak server": true,
	"kalpa completion bash": true, "kalpa completion zsh": true, "kalpa completion fish": true, "kalpa completion powershell": true,
}

func TestEveryCommandThatAnswersDoesSoInJSON(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.Runnable() || cmd.Name() == "help" || cmd.HasSubCommands() && cmd.Name() != "sim" && cmd.Name() != "soak" {
			return // it has others below it, and prints help alone
		}
		if has := cmd.Flag("output") != nil; has == speaks[cmd.CommandPath()] {
			t.Errorf("%s: takes --output: %v", cmd.CommandPath(), has)
		}
		if cmd.Flag("json") != nil {
			t.Errorf("%s takes --json: there is one way to ask for it", cmd.CommandPath())
		}
	}
	root := newRoot()
	root.InitDefaultCompletionCmd("")
	walk(root)
}
