package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// output is how a command prints what it was asked for: for a person, or as JSON,
// one value, as the admin API has it.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

func (o *output) add(set *pflag.FlagSet) {
	*o = outputText
	set.Var(o, "output", "text or json")
}

func (o *output) String() string { return string(*o) }

// Set takes the flag's value.
func (o *output) Set(raw string) error {
	switch output(raw) {
	case outputText, outputJSON:
		*o = output(raw)
		return nil
	}
	return fmt.Errorf("%q is neither text nor json", raw)
}

// Type is what help shows for the value.
func (o *output) Type() string { return "FORMAT" }

// print writes v as JSON, or what text writes.
func (o *output) print(w io.Writer, v any, text func(io.Writer)) error {
	if *o == outputJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	var s strings.Builder
	text(&s)
	for line := range strings.Lines(s.String()) {
		text, end := strings.CutSuffix(line, "\n")
		if text = plain(text); end {
			text += "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// plain is a text without anything that a terminal acts on, line ends included: clients,
// servers and callers have written parts of what is printed.
func plain(s string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// table aligns rows of cells; the first is the heading.
func table(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, plain(cell))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // to a string
}
