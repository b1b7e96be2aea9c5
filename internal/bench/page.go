package main

import (
	"fmt"
	"strings"
)

// The page holds prose, which is kept, and parts, which are rewritten. A part
// stands between two lines that name it.
func opening(part string) string { return "<!-- figures of " + part + " -->\n" }
func closing(part string) string { return "<!-- end of " + part + " -->" }

// replace puts a text in the place of a part.
func replace(page, part, text string) (string, error) {
	before, rest, found := strings.Cut(page, opening(part))
	if !found {
		return "", fmt.Errorf("the page has no line %q", strings.TrimSpace(opening(part)))
	}
	_, after, found := strings.Cut(rest, closing(part))
	if !found {
		return "", fmt.Errorf("the page has no line %q after the one that opens it", closing(part))
	}
	if strings.Contains(after, opening(part)) {
		return "", fmt.Errorf("the page has the part %q twice", part)
	}
	return before + opening(part) + "\n" + strings.TrimSpace(text) + "\n\n" + closing(part) + after, nil
}

// table writes rows as Markdown. The first row is the heading.
func table(rows [][]string) string {
	var s strings.Builder
	for i, row := range rows {
		cells := make([]string, len(row))
		for c, cell := range row {
			cells[c] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&s, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&s, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return s.String()
}

// command is what a reader types to measure a part again: settings are the flags
// that were given, as name and value, besides those that say where things are.
func command(part string, settings [][2]string, peers bool) string {
	flags := []string{"-only", part}
	for _, f := range settings {
		flags = append(flags, "-"+f[0], f[1])
	}
	of := ""
	if peers {
		of = " PEERS=<folder>"
	}
	return "make bench" + of + " BENCH='" + strings.Join(flags, " ") + "'"
}
