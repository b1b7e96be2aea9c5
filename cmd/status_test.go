package cmd

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/internal/admin"
)

func TestStatusShowsWhatKeepsAServerFromStarting(t *testing.T) {
	o := &hostStatus{Overview: &admin.Overview{}, Servers: []admin.Server{
		{Hosted: admin.Hosted{Name: "fine", URL: "http://127.0.0.1/mcp/fine", Runs: "fine"}, State: "running"},
		{Hosted: admin.Hosted{Name: "ends", URL: "http://127.0.0.1/mcp/ends", Runs: "ends"}, State: "crash_loop", Crashes: 5, RetryAt: time.Now().Add(90*time.Minute + 30*time.Second), Exits: []admin.Exit{
			{Why: "exited with status 1", Stderr: "not these"}, {Why: "exited with status 3", Stderr: "no such\n\tfile\n"},
		}},
		{Hosted: admin.Hosted{Name: "waits", URL: "http://127.0.0.1/mcp/waits", Runs: "waits"}, State: "crash_loop", Crashes: 6, RetryAt: time.Now().Add(-time.Minute)},
		{Hosted: admin.Hosted{Name: "ended", URL: "http://127.0.0.1/mcp/ended", Runs: "ended"}, State: "idle", Crashes: 1, Exits: []admin.Exit{{Why: "exited with status 2"}}},
		{Hosted: admin.Hosted{Name: "gone", URL: "http://127.0.0.1/mcp/gone", Runs: "gone"}, State: "cannot_start", Problem: `can't start "gone": command not found`},
	}}
	var s strings.Builder
	if err := new(output).print(&s, o, func(w io.Writer) { statusText(w, o) }); err != nil {
		t.Fatal(err)
	}
	want := `server    fine at http://127.0.0.1/mcp/fine: fine
server    ends at http://127.0.0.1/mcp/ends: ends
          crash loop: 5 in a row ended before saying anything, the next may start in 90m; the last exited with status 3
          no such
          \tfile
server    waits at http://127.0.0.1/mcp/waits: waits
          crash loop: 6 in a row ended before saying anything, the next may be tried now
server    ended at http://127.0.0.1/mcp/ended: ended
          1 in a row ended before saying anything; the last exited with status 2
server    gone at http://127.0.0.1/mcp/gone: gone
          can't start "gone": command not found
resident  0 runtimes`
	if got := s.String(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}

// The script terminal.txtar has a client that tries it.
func TestWhatOthersWroteIsPrintedAsText(t *testing.T) {
	var s strings.Builder
	err := new(output).print(&s, nil, func(w io.Writer) {
		table(w, []string{"a\tb", "c\nd", "e\x1b[2J"}, []string{"é\u202e", "\u009b", "ok"})
		_, _ = io.WriteString(w, "line\x07\r\nline 2")
	})
	want := `a\tb     c\nd    e\x1b[2J` + "\n" + `é\u202e  \u009b  ok` + "\n" + `line\a\r` + "\nline 2"
	if err != nil || s.String() != want {
		t.Errorf("%v, and\n%s\nwant\n%s", err, s.String(), want)
	}
}
