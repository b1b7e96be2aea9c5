package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kalpahost/kalpa/storage"
)

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Text writes a report for people.
func (r *Report) Text(w io.Writer) {
	fmt.Fprintf(w, "store     %s\n", r.Data)
	if r.Readable {
		every := "every row was read"
		if r.Damaged {
			every = "as far as they could be read"
		}
		if r.Boot > 0 {
			fmt.Fprintf(w, "boot      %d\n", r.Boot)
		}
		fmt.Fprintf(w, "tables    %d, %d bytes: every block was read\n", r.Tables, r.Bytes)
		fmt.Fprintf(w, "rows      %d, %d bytes: %s\n", r.Rows, r.RowBytes, every)
		var classes []string
		for _, c := range slices.Sorted(maps.Keys(r.Objects)) {
			classes = append(classes, fmt.Sprintf("%d %s", r.Objects[c], c))
		}
		if len(classes) > 0 {
			fmt.Fprintf(w, "objects   %s\n", strings.Join(classes, ", "))
		}
		fmt.Fprintf(w, "alarms    %d\n", r.Alarms)
		if r.Schedules > 0 {
			fmt.Fprintf(w, "schedules %d\n", r.Schedules)
		}
		fmt.Fprintf(w, "owed      %d requests of sessions\n", r.Owed)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "\n%s: %s: %s\n", f.Severity, f.About, f.What)
		if f.Lost != "" {
			fmt.Fprintf(w, "  lost:  %s\n", f.Lost)
		}
		if f.Do != "" {
			fmt.Fprintf(w, "  to do: %s\n", f.Do)
		}
	}
	listed := 0
	for _, n := range r.Counts {
		listed += n
	}
	if more := listed - len(r.Findings); more > 0 {
		fmt.Fprintf(w, "\n%d more were found.\n", more)
	}
	fmt.Fprintln(w)
	switch {
	case r.Damaged:
		fmt.Fprintf(w, "The store is DAMAGED: %s.\n", counted(r.Counts[storage.Damage], "finding"))
	case r.Counts[storage.Warning] > 0:
		fmt.Fprintf(w, "Nothing is lost; %s.\n", counted(r.Counts[storage.Warning], "warning"))
	default:
		fmt.Fprintln(w, "The store is as it should be.")
	}
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
