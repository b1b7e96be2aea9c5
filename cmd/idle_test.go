package cmd_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// listen opens a GET stream of the session, and goes on. Whenever the stream ends
// the client comes back with the last event id that it has seen, until the script
// ends.
func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen URL")
	}
	session := ts.Getenv("SESSION") // here: the script goes on setting variables meanwhile
	ctx, cancel := context.WithCancel(context.Background())
	opened, ended := make(chan struct{}), make(chan struct{})
	get := func(after string) (last string) {
		last = after
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
		if err != nil {
			return last
		}
		request.Header.Set("Accept", "text/event-stream")
		request.Header.Set("Mcp-Session-Id", session)
		if after != "" {
			request.Header.Set("Last-Event-ID", after)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return last
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return ""
		}
		if after == "" {
			select {
			case <-opened:
			default:
				close(opened)
			}
		}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				last = id
			}
		}
		return last
	}
	go func() {
		defer close(ended)
		for after := ""; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			after = get(after)
		}
	}()
	ts.Defer(func() { cancel(); <-ended })
	select {
	case <-opened:
	case <-time.After(10 * time.Second):
		ts.Fatalf("no GET stream at %s", args[0])
	}
}

// disposed waits for the span of the disposal of the session's runtime in a trace
// file, and prints it.
func disposed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: disposed FILE")
	}
	session := ts.Getenv("SESSION")
	for end := time.Now().Add(3500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		spans, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
		for line := range strings.Lines(string(spans)) {
			if strings.HasPrefix(line, `{"name":"mcp.session.dispose",`) && strings.Contains(line, `"mcp.session.id":"`+session+`"`) {
				_, err := io.WriteString(ts.Stdout(), line)
				ts.Check(err)
				return
			}
		}
	}
	ts.Fatalf("no disposal span exported for session %s", session)
}

var fired = regexp.MustCompile(`(?m)^kalpa_alarm_fired_total(?:\{.*\})? (\d+)$`)

// quiet watches a host for a while, in which its alarms have to leave the session
// in peace.
func quiet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: quiet URL DURATION")
	}
	watch, err := time.ParseDuration(args[1])
	ts.Check(err)
	firings := func() int {
		response, err := http.Get(args[0])
		ts.Check(err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		ts.Check(err)
		found := fired.FindSubmatch(page)
		if found == nil {
			ts.Fatalf("%s does not tell how many alarms have fired:\n%s", args[0], page)
		}
		n, err := strconv.Atoi(string(found[1]))
		ts.Check(err)
		return n
	}
	before := firings()
	time.Sleep(watch)
	if n := firings() - before; n > 1 {
		ts.Fatalf("the alarm of session %s spins: %d firings in %v", ts.Getenv("SESSION"), n, watch)
	}
}
