package cmd_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa"
)

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"kalpa": kalpa.Main})
}

// leakless runs tests, and fails when goroutines are left.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// TestScripts runs the sessions at the prompt in testdata/script. Besides
// testscript's own, they have these commands:
//
//	start ARG...          starts kalpa ARG... and waits until it has told all; $URL is
//	                      its first address, $BASE that without a path, $ADDRESS without
//	                      a scheme too, $ADMIN what it says behind admin, and
//	                      $METRICS where Prometheus would look
//	signal NAME...        sends signals to it: TERM, INT, KILL
//	ended CODE DURATION   waits for its end and checks its exit code; its output is in
//	                      the files host.stdout and host.stderr
//	post URL BODY         POSTs a JSON-RPC message, with the session id that the last
//	                      response had, and prints status and body; $SESSION is that id
//	post& URL BODY        the same, and goes on without waiting
//	took LEAST MOST       checks how long the last post or get took
//	get URL               GETs, and prints status and body
//	until URL REGEXP      GETs until the body matches, and prints status and body
//	collect, collected    runs a collector of telemetry for the hosts to come; prints
//	                      the names that it has got
//	metrics URL           prints the names and labels of kalpa's metrics
//	listen URL            opens a GET stream of the session and goes on; whenever it
//	                      ends the client comes back
//	disposed FILE         waits for the span of the disposal of the session's runtime
//	                      in a trace file, and prints it
//	exits CODE COMMAND    runs a command and checks its exit code
//	quiet URL DURATION    checks that no alarm spins while nothing is to be done
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Values["host"], e.Values["collector"] = &process{}, &collector{}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "signal": send, "ended": ended, "post": post, "post&": postAside, "get": get, "metrics": metrics, "until": until, "took": took,
			"collect": collect, "collected": collected, "listen": listen, "disposed": disposed, "quiet": quiet,
			"exits": exits,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// process is the kalpa that a script has started.
type process struct {
	cmd            *exec.Cmd
	took           time.Duration // by the last exchange with it
	stdout, stderr bytes.Buffer
	read           chan struct{} // closed when all of stdout has been read
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("host").(*process)
	if neg || p.cmd != nil {
		ts.Fatalf("usage: start ARG..., with no other running")
	}
	p.stdout.Reset()
	p.stderr.Reset()
	p.read = make(chan struct{})
	path, err := exec.LookPath("kalpa")
	ts.Check(err)
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"), "GREETING="+ts.Getenv("GREETING"),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+ts.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	ts.Defer(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	told := make(chan map[string]string, 1)
	go func() {
		defer close(p.read)
		defer close(told)
		env := map[string]string{}
		lines := bufio.NewScanner(io.TeeReader(out, &p.stdout))
		for lines.Scan() {
			word := strings.Fields(lines.Text())
			switch {
			case strings.HasPrefix(lines.Text(), "kalpa is listening on ") && env["URL"] == "":
				env["URL"] = word[len(word)-1]
			case word[0] == "admin":
				env["ADMIN"] = word[1]
				env["METRICS"] = strings.TrimSuffix(word[1], "healthz") + "metrics"
				env["READY"] = strings.TrimSuffix(word[1], "healthz") + "readyz"
			case word[0] == "client":
				told <- env
			}
		}
	}()
	select {
	case env, ok := <-told:
		if !ok {
			_ = p.cmd.Wait()
			p.cmd = nil
			ts.Fatalf("kalpa ended before it listened:\n%s", p.stderr.String())
		}
		url, err := url.Parse(env["URL"])
		ts.Check(err)
		env["ADDRESS"], env["BASE"] = url.Host, "http://"+url.Host
		for name, value := range env {
			ts.Setenv(name, value)
		}
	case <-time.After(20 * time.Second):
		ts.Fatalf("kalpa does not listen after 20 s")
	}
}

func send(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("host").(*process)
	if neg || p.cmd == nil {
		ts.Fatalf("usage: signal NAME..., with a host running")
	}
	for i, name := range args {
		if i > 0 {
			time.Sleep(100 * time.Millisecond) // two at once may be delivered as one
		}
		s, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[name]
		if !ok {
			ts.Fatalf("unknown signal %s", name)
		}
		ts.Check(p.cmd.Process.Signal(s))
	}
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value("host").(*process)
	if neg || p.cmd == nil || len(args) != 2 {
		ts.Fatalf("usage: ended CODE DURATION, with a host running")
	}
	limit, err := time.ParseDuration(args[1])
	ts.Check(err)
	done := make(chan error, 1)
	started := time.Now()
	go func() {
		<-p.read
		done <- p.cmd.Wait()
	}()
	select {
	case err := <-done:
		code := p.cmd.ProcessState.ExitCode()
		p.cmd = nil
		ts.Check(os.WriteFile(ts.MkAbs("host.stdout"), p.stdout.Bytes(), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("host.stderr"), p.stderr.Bytes(), 0o600))
		ts.Logf("ended after %v: %v\n%s", time.Since(started).Round(time.Millisecond), err, p.stderr.String())
		if strconv.Itoa(code) != args[0] {
			ts.Fatalf("exit code %d, want %s", code, args[0])
		}
	case <-time.After(limit):
		ts.Fatalf("still running after %v:\n%s", limit, p.stderr.String())
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post URL BODY")
	}
	response := exchange(ts, message(ts, args))
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		ts.Setenv("SESSION", id)
	}
}

func postAside(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post& URL BODY")
	}
	request := message(ts, args)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if response, err := http.DefaultClient.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}()
	ts.Defer(func() { <-done }) // the host is gone by then
	time.Sleep(300 * time.Millisecond)
}

func message(ts *testscript.TestScript, args []string) *http.Request {
	request, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if id := ts.Getenv("SESSION"); id != "" {
		request.Header.Set("Mcp-Session-Id", id)
	}
	return request
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: get URL")
	}
	request, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	exchange(ts, request)
}

func took(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: took LEAST MOST")
	}
	least, err := time.ParseDuration(args[0])
	ts.Check(err)
	most, err := time.ParseDuration(args[1])
	ts.Check(err)
	if d := ts.Value("host").(*process).took; d < least || d > most {
		ts.Fatalf("it took %v", d)
	}
}

func exchange(ts *testscript.TestScript, request *http.Request) *http.Response {
	began := time.Now()
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	ts.Check(err)
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	_ = response.Body.Close()
	ts.Value("host").(*process).took = time.Since(began)
	_, err = io.WriteString(ts.Stdout(), response.Status+"\n"+string(body)+"\n")
	ts.Check(err)
	return response
}
