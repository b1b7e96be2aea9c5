package oracle

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed differences.txt
var differences string

// State is why a program is not the same on kalpa.
type State string

// The states of a difference.
const (
	// Meant: kalpa differs on purpose, as a decision says.
	Meant State = "meant"
	// Pending: kalpa has nothing yet to run it with.
	Pending State = "pending"
	// Bug: kalpa should not differ.
	Bug State = "bug"
)

// Difference is a program's line in the list.
type Difference struct {
	State State
	// Decision is the record's file in docs/decisions and perhaps a heading in it, for
	// what is meant.
	Decision string
	Reason   string
}

// Differences is the reviewed list, by program.
func Differences() (map[string]Difference, error) { return parseDifferences(differences) }

func parseDifferences(text string) (map[string]Difference, error) {
	all := map[string]Difference{}
	for i, l := range strings.Split(text, "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		parts := strings.SplitN(l, " | ", 4)
		if len(parts) != 4 {
			return nil, fmt.Errorf("differences.txt:%d: it is not program | state | decision | reason", i+1)
		}
		d := Difference{State(strings.TrimSpace(parts[1])), strings.TrimSpace(parts[2]), strings.TrimSpace(parts[3])}
		name := strings.TrimSpace(parts[0])
		switch _, twice := all[name]; {
		case twice:
			return nil, fmt.Errorf("differences.txt:%d: %s is there twice", i+1, name)
		case d.State != Meant && d.State != Pending && d.State != Bug:
			return nil, fmt.Errorf("differences.txt:%d: there is no state %q", i+1, d.State)
		case (d.State == Meant) != (d.Decision != "-"), d.Reason == "":
			return nil, fmt.Errorf("differences.txt:%d: what is meant has a decision, the others -, and all have a reason", i+1)
		}
		all[name] = d
	}
	return all, nil
}
