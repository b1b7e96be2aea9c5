package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kalpahost/kalpa/internal/admin"
)

func newStatus() *cobra.Command {
	f := &whichFlags{}
	cmd := &cobra.Command{
		Use: "status", Short: "Show what a running host is doing, in figures", Args: noArgs,
		Long: "status prints the figures of a running host.\n\n" + hostRule,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(f, cmd, running, func(ctx context.Context, t *target) (*hostStatus, error) {
				overview, err := t.Overview(ctx, false)
				if err != nil {
					return nil, err
				}
				servers, err := t.Servers(ctx)
				if err != nil {
					return nil, err
				}
				return &hostStatus{overview, servers.Servers}, nil
			}, statusText)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// hostStatus is what status says: the overview, and of the servers how they fare.
type hostStatus struct {
	*admin.Overview
	Servers []admin.Server `json:"servers"` // instead of the overview's
}

func statusText(w io.Writer, o *hostStatus) {
	rows := [][]string{
		{"host", fmt.Sprintf("kalpa %s, pid %d, %s since %s", o.Version, o.PID, o.State, stamp(o.Started))},
		{"data", fmt.Sprintf("%s (durability %s)", o.Data, o.Durability)},
	}
	for _, s := range o.Servers {
		rows = append(rows, []string{"server", fmt.Sprintf("%s at %s: %s", s.Name, s.URL, s.Runs)})
		rows = append(rows, failing(&s)...)
	}
	rows = append(rows, []string{"resident", fmt.Sprintf("%d runtimes", o.Resident)})
	for _, class := range slices.Sorted(maps.Keys(o.InMemory)) {
		rows = append(rows, []string{"in memory", fmt.Sprintf("%d %s", o.InMemory[class], class)})
	}
	rows = append(rows, []string{"requests", fmt.Sprintf("%d settled: %d results, %d errors, %d lost, %d cancelled; %.1f a second in the last minute", o.Requests.Settled, o.Requests.Outcomes["result"], o.Requests.Outcomes["error"], o.Requests.Outcomes["lost"], o.Requests.Outcomes["cancelled"], o.Requests.Rate)},
		[]string{"latency", fmt.Sprintf("p50 %.1f ms, p95 %.1f ms, p99 %.1f ms in the last minute", o.Requests.Latency.P50*1000, o.Requests.Latency.P95*1000, o.Requests.Latency.P99*1000)})
	pending := "being counted"
	if o.Alarms.Pending != nil {
		pending = strconv.FormatInt(*o.Alarms.Pending, 10)
	}
	rows = append(rows, []string{"alarms", fmt.Sprintf("%s set, %d running, %d fired, %d failed; overdue by %.1f s", pending, o.Alarms.InFlight, o.Alarms.Fired, o.Alarms.Failed, o.Alarms.Overdue)})
	if s := o.Storage; s != nil {
		rows = append(rows, []string{"store", fmt.Sprintf("%s on the disk, opened %d times, %d commits in %d groups, %s waiting", bytesOf(s.Bytes), s.Boot, s.Commits, s.Groups, bytesOf(int64(s.Queue)))})
	}
	for _, i := range o.Isolates {
		rows = append(rows, []string{fmt.Sprintf("isolate %d", i.Number), fmt.Sprintf("%d objects, %d resident, heap %s of %s", i.Objects, i.Resident, bytesOf(i.Heap), bytesOf(i.HeapLimit))})
	}
	rows = append(rows, []string{"process", fmt.Sprintf("%d goroutines, %s of Go's heap in use, %s from the system", o.Process.Goroutines, bytesOf(int64(o.Process.Heap)), bytesOf(int64(o.Process.Memory)))})
	table(w, rows...)
}

// failing is what there is to say of a server that can't be started, or that has ended at its
// start: why, and its last words.
func failing(s *admin.Server) (rows [][]string) {
	if s.Problem != "" {
		rows = append(rows, []string{"", s.Problem})
	}
	if s.Crashes == 0 {
		return rows
	}
	row := fmt.Sprintf("%d in a row ended before saying anything", s.Crashes)
	if s.State == "crash_loop" {
		next := "may start " + ago(s.RetryAt)
		if !s.RetryAt.After(time.Now()) {
			next = "may be tried now"
		}
		row = fmt.Sprintf("crash loop: %s, the next %s", row, next)
	}
	if len(s.Exits) == 0 {
		return append(rows, []string{"", row})
	}
	last := s.Exits[len(s.Exits)-1]
	rows = append(rows, []string{"", row + "; the last " + last.Why})
	for line := range strings.Lines(last.Stderr) {
		rows = append(rows, []string{"", strings.TrimSuffix(line, "\n")})
	}
	return rows
}
