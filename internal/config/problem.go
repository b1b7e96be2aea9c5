package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// File and Line say where; both are zero for a problem with the command line.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Key is the path of the key ("servers.files.command"), or the flag ("--listen").
	Key string `json:"key,omitempty"`
	// Text says what is wrong and what would be right.
	Text string `json:"text"`
}

func (p Problem) String() string {
	var s strings.Builder
	if p.File != "" {
		s.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&s, ":%d", p.Line)
		}
		s.WriteString(": ")
	}
	if p.Key != "" {
		s.WriteString(p.Key + ": ")
	}
	s.WriteString(p.Text)
	return s.String()
}

// Problems is everything that is wrong, as one error: the command line first, then
// the file from its first line to its last.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// Notes is what a reader of a file should know although nothing is wrong.
type Notes = Problems
