package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// What differs from run to run, and so does not stand in the recorded page.
var (
	value   = regexp.MustCompile(` \S+$`)
	varying = regexp.MustCompile(`(isolate|version|go_version|revision)="[^"]*"`)
)

// collector takes OTLP, and notes what is in it.
type collector struct {
	mu   sync.Mutex
	seen strings.Builder
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Names are written out in protobuf.
	for _, name := range regexp.MustCompile(`(mcp|kalpa)\.[a-z_.]+`).FindAll(body, -1) {
		fmt.Fprintf(&c.seen, "%s %s\n", r.URL.Path, name)
	}
}

func collect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: collect")
	}
	c := ts.Value("collector").(*collector)
	s := httptest.NewServer(c)
	ts.Defer(s.Close)
	ts.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
}

func collected(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: collected")
	}
	c := ts.Value("collector").(*collector)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := io.WriteString(ts.Stdout(), c.seen.String())
	ts.Check(err)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until URL REGEXP")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(args[0])
		ts.Check(err)
		page, err := io.ReadAll(response.Body)
		ts.Check(err)
		_ = response.Body.Close()
		if pattern.Match(page) {
			_, err = io.WriteString(ts.Stdout(), response.Status+"\n"+string(page))
			ts.Check(err)
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s does not say %s:\n%s", args[0], args[1], page)
		}
	}
}

// metrics prints the series of a Prometheus page that are kalpa's own, without
// their values: names, types and labels are what dashboards rely on.
func metrics(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: metrics URL")
	}
	response, err := http.Get(args[0])
	ts.Check(err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	ts.Check(err)
	var series []string
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		about, ok := strings.CutPrefix(line, "# TYPE ")
		switch {
		case !ok && strings.HasPrefix(line, "#"), strings.Contains(line, `le="`):
			continue
		case ok:
			line = strings.ReplaceAll(about, " ", " is a ")
		default:
			line = varying.ReplaceAllString(value.ReplaceAllString(line, ""), `$1="..."`)
		}
		if strings.HasPrefix(line, "kalpa_") || strings.HasPrefix(line, "mcp_") {
			series = append(series, line)
		}
	}
	slices.Sort(series)
	_, err = io.WriteString(ts.Stdout(), strings.Join(slices.Compact(series), "\n")+"\n")
	ts.Check(err)
}
