package oracle

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// areas are what programs are about, by the first word of their names.
var areas = []struct{ name, title string }{
	{"storage", "Storage"},
	{"list", "List"},
	{"limits", "Limits"},
	{"coalescing", "Coalescing and atomicity"},
	{"transactions", "Transactions"},
	{"gates", "Gates and interleavings"},
	{"alarms", "Alarms"},
	{"aborts", "Aborts"},
	{"constructors", "Constructors"},
	{"stubs", "Stubs"},
	{"ids", "Ids"},
	{"websockets", "WebSockets"},
}

//go:embed package.json
var packages []byte

// version is that of the runtime on which the transcripts were recorded.
func version() string {
	var p struct{ DevDependencies map[string]string }
	if err := json.Unmarshal(packages, &p); err != nil {
		return err.Error()
	}
	return p.DevDependencies["workerd"]
}

// head is the page's text; its verbs are the runtime's version, and numbers of
// programs: all, the same, meant, bugs, pending.
const head = `# Compatibility

How kalpa's objects behave beside Durable Objects, shown by programs and not by promises. Each program
below runs on workerd (%s), the platform's own runtime, and on kalpa: the same events, the same
script. What each shows is compared line by line: results, errors and their properties, the order in
which the object did things, what survives a reset or a kill.

%d programs: %d are the same; %d differ, and are meant to; %d differ and should not; %d can't be run yet.

The name of a program leads to its file: what it does, and what was seen on workerd, and where kalpa
differs what is seen there. [Decision 0006](decisions/0006-where-objects-differ.md) says why kalpa
differs where it means to. This page is made from the files and the list of differences; a test fails
when it says something else.

` + "`make oracle`" + ` runs all of it on both (it needs Node: ` + "`make oracle-deps`" + ` installs the runtime);
` + "`make test`" + ` compares kalpa with what was recorded.
`

// Page is docs/compatibility.md.
func Page(files []*File, listed map[string]Difference) string {
	var s, tables strings.Builder
	counts := map[State]int{}
	for _, a := range areas {
		in := slices.DeleteFunc(slices.Clone(files), func(f *File) bool { return f.Area() != a.name })
		slices.SortFunc(in, func(x, y *File) int { return cmp.Compare(x.Name, y.Name) })
		if len(in) == 0 {
			continue
		}
		fmt.Fprintf(&tables, "\n## %s\n\n| program | what it shows | kalpa |\n|---|---|---|\n", a.title)
		for _, f := range in {
			d := listed[f.Name]
			counts[d.State]++
			fmt.Fprintf(&tables, "| [%s](../internal/oracle/testdata/oracle/%s.txt) | %s | %s |\n",
				f.Name, f.Name, strings.ReplaceAll(f.Title, "|", `\|`), d.cell())
		}
	}
	fmt.Fprintf(&s, head, version(), len(files), counts[""], counts[Meant], counts[Bug], counts[Pending])
	s.WriteString(tables.String())
	return s.String()
}

func (d Difference) cell() string {
	switch d.State {
	case Meant:
		return fmt.Sprintf("[differs](decisions/%s): %s", d.Decision, d.Reason)
	case Bug:
		return "differs, and should not: " + d.Reason
	case Pending:
		return "not yet: " + d.Reason
	default:
		return "same"
	}
}
