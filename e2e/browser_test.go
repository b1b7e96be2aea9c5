package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// chromium finds a browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium")
}

// browser is a real browser with one page (js/browser.mjs).
type browser struct {
	t     *testing.T
	stdin io.Writer
	lines *bufio.Scanner
}

// newBrowser starts a browser; it ends with the test, which must have seen no error of a
// script, no violation of the page's policy, and no request to anybody else.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	needNode(t)
	path, err := chromium()
	if err != nil {
		if os.Getenv("KALPA_E2E_REQUIRE") == "1" {
			t.Fatalf("a browser is needed, and KALPA_E2E_REQUIRE says that it is here: %v", err)
		}
		t.Skipf("skipped, needs a browser: %v", err)
	}
	cmd := exec.Command("node", "js/browser.mjs", path)
	stderr := newTail()
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t, stdin, bufio.NewScanner(stdout)}
	b.lines.Buffer(nil, 16<<20)
	t.Cleanup(func() {
		stdin.Close() // it closes the browser and ends
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Logf("stderr of the browser's driver:\n%s", stderr)
		}
	})
	return b
}

// do runs a command, and decodes what has come of it.
func (b *browser) do(name string, args object, result any) {
	b.t.Helper()
	line, err := json.Marshal(object{"do": name, "args": args})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.stdin.Write(append(line, '\n')); err != nil {
		b.t.Fatalf("the browser's driver has ended: %v", err)
	}
	if !b.lines.Scan() {
		b.t.Fatalf("the browser's driver has ended: %v", b.lines.Err())
	}
	var reply struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(b.lines.Bytes(), &reply); err != nil {
		b.t.Fatalf("%v: %s", err, b.lines.Bytes())
	}
	if reply.Error != "" {
		if path := os.Getenv("KALPA_E2E_SHOT"); path != "" && name != "shot" {
			b.do("shot", object{"path": path}, nil)
		}
		b.t.Fatalf("%s %v: %s", name, args, reply.Error)
	}
	if result != nil {
		if err := json.Unmarshal(reply.Result, result); err != nil {
			b.t.Fatalf("%s %v: %v: %s", name, args, err, reply.Result)
		}
	}
}

// open opens a page in a new window, as a visitor who has never been there.
func (b *browser) open(url string, more object) {
	b.t.Helper()
	args := object{"url": url}
	maps.Copy(args, more)
	b.do("open", args, nil)
}

// see waits until an element is seen, and gone until it is not.
func (b *browser) see(at string)  { b.t.Helper(); b.do("see", object{"at": at}, nil) }
func (b *browser) gone(at string) { b.t.Helper(); b.do("gone", object{"at": at}, nil) }

func (b *browser) click(at string) { b.t.Helper(); b.do("click", object{"at": at}, nil) }
func (b *browser) fill(at, text string) {
	b.t.Helper()
	b.do("fill", object{"at": at, "text": text}, nil)
}
func (b *browser) choose(at, text string) {
	b.t.Helper()
	b.do("select", object{"at": at, "text": text}, nil)
}

// press presses a key where the focus is.
func (b *browser) press(key string) { b.t.Helper(); b.do("press", object{"key": key}, nil) }

// until waits until an expression holds in the page.
func (b *browser) until(format string, a ...any) {
	b.t.Helper()
	b.holds(fmt.Sprintf(format, a...))
}

func (b *browser) holds(js string) { b.t.Helper(); b.do("until", object{"js": js}, nil) }

// eval is the value of an expression in the page.
func (b *browser) eval(js string) (s string) {
	b.t.Helper()
	b.do("eval", object{"js": "String(" + js + ")"}, &s)
	return s
}

func (b *browser) texts(at string) (all []string) {
	b.t.Helper()
	b.do("texts", object{"at": at}, &all)
	return all
}

// well fails the test when the page had a problem that nobody has seen.
func (b *browser) well() {
	b.t.Helper()
	var problems []string
	b.do("problems", nil, &problems)
	if len(problems) > 0 {
		b.t.Errorf("the page had problems:\n%s", strings.Join(problems, "\n"))
	}
}
