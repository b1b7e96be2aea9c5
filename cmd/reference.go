package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Reference is the manual of all commands in Markdown, for the documentation.
func Reference() string {
	var s strings.Builder
	root := newRoot()
	for _, cmd := range root.Commands() {
		reference(&s, cmd)
	}
	return s.String()
}

func reference(s *strings.Builder, cmd *cobra.Command) {
	if !cmd.IsAvailableCommand() || cmd.Name() == "completion" || cmd.Name() == "help" {
		return
	}
	fmt.Fprintf(s, "## %s\n\n", cmd.CommandPath())
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(s, "```text\n%s\n", strings.TrimSpace(text))
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(s, "\nUsage:\n  %s\n", cmd.UseLine())
	}
	for _, part := range [][2]string{
		{"Examples:", strings.TrimRight(cmd.Example, "\n")},
		{"Flags:", strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n")},
		{"Flags of " + parentPath(cmd) + ":", strings.TrimRight(cmd.InheritedFlags().FlagUsages(), "\n")},
	} {
		if part[1] != "" {
			fmt.Fprintf(s, "\n%s\n%s\n", part[0], part[1])
		}
	}
	s.WriteString("```\n\n")
	for _, sub := range cmd.Commands() {
		reference(s, sub)
	}
}

func parentPath(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return cmd.Parent().CommandPath()
}

// ExitCodes is the table of the exit codes in Markdown, for the documentation.
func ExitCodes() string {
	var s strings.Builder
	s.WriteString("| code | |\n|---|---|\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&s, "| %d | %s |\n", c.code, c.text)
	}
	return s.String()
}
