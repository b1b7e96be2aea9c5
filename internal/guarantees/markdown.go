package guarantees

import (
	"fmt"
	"strings"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/mcp/session"
)

// CellTable is [Cells] for docs/guarantees.md: a row for each point, a column for
// each situation.
func CellTable() string {
	var s strings.Builder
	fmt.Fprint(&s, "| the session is reset |")
	for _, situation := range Situations() {
		fmt.Fprintf(&s, " %s |", situation)
	}
	fmt.Fprintf(&s, "\n|---|%s\n", strings.Repeat("---|", len(Situations())))
	var row actor.Point
	for _, c := range cells {
		if c.Point != row {
			if row != actor.NoPoint {
				fmt.Fprintln(&s)
			}
			row = c.Point
			fmt.Fprintf(&s, "| `%s` |", row)
		}
		fmt.Fprintf(&s, " %s |", c.words())
	}
	fmt.Fprintln(&s)
	return s.String()
}

func (c Cell) words() string {
	s := "**" + c.Outcome.String() + "**"
	if c.Outcome == Lost {
		s += fmt.Sprintf(", `started: %v`", c.Started)
		if c.StartedCold != c.Started {
			s += fmt.Sprintf(" (`%v` where no server was up)", c.StartedCold)
		}
	}
	if c.Where != Nowhere {
		s += ", " + c.Where.String()
	}
	return s
}

// LossTable is [Causes] and [Reasons] for docs/guarantees.md.
func LossTable() string {
	var s strings.Builder
	fmt.Fprint(&s, "| `reason` | the sentence in the message | `retryable` | what is reset | when |\n|---|---|---|---|---|\n")
	for _, c := range causes {
		l := session.LostTo(c.Cause)
		fmt.Fprintf(&s, "| `%s` | %s | %v | %s | %s |\n", l.Reason, l.Sentence, l.Retryable, c.scope(), c.When)
	}
	for _, r := range reasons {
		l := session.Lost(r.Reason)
		fmt.Fprintf(&s, "| `%s` | %s | %v | | %s |\n", l.Reason, l.Sentence, l.Retryable, r.When)
	}
	return s.String()
}

func (c Cause) scope() string {
	return [...]string{"the session", "its isolate", "all of the host"}[c.Scope]
}
