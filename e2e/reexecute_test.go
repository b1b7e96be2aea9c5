package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// optedIn hosts the fake server with a mode of re-execution.
func optedIn(t *testing.T, mode string, log *journal) *host {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kalpa.yaml")
	yaml := fmt.Sprintf("servers:\n  fake:\n    command: %q\n    args: [%q, \"-journal\", %q]\n    reexecute: %s\n", os.Args[0], fakeServerArg, log.path, mode)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, hosting{flags: []string{"--config", file}})
}

// A call that was lost with its host, or with its process alone, is run again where
// its server has opted in and the tool's annotations allow it, and its client sees an
// answer. Everything else is answered as lost.
func TestLostCallsAreRunAgainWhereTheServerOptedIn(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode, tool string
		again      bool
	}{
		{"read-only", "wait", true},
		{"read-only", "steps", false},
		{"idempotent", "steps", true},
		{"never", "wait", false},
	} {
		for _, killed := range []string{"host", "child"} {
			t.Run(fmt.Sprintf("%s, %s, kill -9 of the %s", tc.mode, tc.tool, killed), func(t *testing.T) {
				t.Parallel()
				log := newJournal(t)
				h := optedIn(t, tc.mode, log)
				c := h.session()
				if tc.mode != "never" { // its tools are known when the server has answered what it was asked after them
					eventually(t, 5*time.Second, "the server lists its tools", func() bool { return len(log.entries("tools/list")) > 0 })
					c.post(call("1", "echo", `{"text":"hi"}`)).result()
				}
				x := c.post(call("7", tc.tool, `{"ms":1500,"count":1,"text":"done"}`))
				first := <-x.frames
				if !first.primes() {
					t.Fatalf("the first frame is %q", first.raw)
				}
				started := func(n int) func() bool {
					return func() bool { return len(calls(log, tc.tool)) == n }
				}
				eventually(t, 5*time.Second, "the call is under way", started(1))
				if killed == "host" {
					h.kill()
					for range x.frames {
					}
					h.restart()
					c.url = h.url
					x = c.get(first.id)
				} else if err := syscall.Kill(calls(log, tc.tool)[0].PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				m := x.answer()
				if string(m.ID) != "7" {
					t.Errorf("answered %s", m.ID)
				}
				runs := calls(log, tc.tool)
				switch {
				case tc.again && (m.Error != nil || m.Text() != "done" || len(runs) != 2 || runs[0].PID == runs[1].PID):
					t.Errorf("answered %+v after %d runs", m, len(runs))
				case !tc.again && (m.Error == nil || m.Error.Code != -32010 || len(runs) != 1):
					t.Errorf("answered %+v after %d runs, want an error that it was lost", m, len(runs))
				}
				if rest := c.get(first.id); len(answers(t, rest.all())) != 1 {
					t.Error("what is stored is not the one answer")
				}
			})
		}
	}
}

// calls are those of one tool.
func calls(log *journal, tool string) (found []entry) {
	for _, e := range log.entries("tools/call") {
		if strings.Contains(string(e.Params), fmt.Sprintf(`"name":%q`, tool)) {
			found = append(found, e)
		}
	}
	return found
}

// What a runtime that is gone had asked its client is answered to nobody: 202, a line
// in the log, and the runtime that has asked since hears its own answer alone.
func TestAnswerToADeadQuestionReachesNobody(t *testing.T) {
	t.Parallel()
	log := newJournal(t)
	h := serve(t, hosting{command: fake("-journal", log.path)})
	c := h.session()
	question := func(x *exchange) message {
		t.Helper()
		f, ok := x.next()
		m := parse(t, f.data)
		if !ok || m.Method != "sampling/createMessage" {
			t.Fatalf("asked %+v", m)
		}
		return m
	}
	dead := question(c.post(call("1", "ask", `{"method":"sampling/createMessage"}`)))
	h.crash()
	x := c.post(call("2", "ask", `{"method":"sampling/createMessage"}`))
	alive := question(x)
	if string(dead.ID) == string(alive.ID) {
		t.Fatalf("two questions have the id %s", alive.ID)
	}
	answer := func(m message, text string) {
		t.Helper()
		if got := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":%q}}`, m.ID, text)); got.status != 202 {
			t.Fatalf("the answer to %s got %d: %s", m.ID, got.status, got.body())
		}
	}
	answer(dead, "late")
	if f, ok := x.within(300 * time.Millisecond); ok {
		t.Fatalf("the late answer had an effect: %s", f.data)
	}
	if line := "answer to a request that nobody waits for"; !strings.Contains(h.stderr.String(), line) {
		t.Errorf("no line %q in the log", line)
	}
	answer(alive, "in time")
	if got := x.answer().Text(); !strings.Contains(got, "in time") || strings.Contains(got, "late") {
		t.Errorf("the runtime heard %s", got)
	}
}
