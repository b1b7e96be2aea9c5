//go:build unix

package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kalpahost/kalpa/mcp/wire"
)

func TestMessagesPassBothWays(t *testing.T) {
	o := start(t, "echo")
	for i := range 100 {
		params := fmt.Sprintf(`{"i":%d}`, i)
		if got := o.call(t, "echo", params); got != params {
			t.Fatalf("got %s, want %s", got, params)
		}
	}
}

func TestABigLinePasses(t *testing.T) {
	o := start(t, "echo")
	const size = 10 << 20
	got := o.call(t, "big", fmt.Sprintf(`{"n":%d}`, size))
	if len(got) != size+2 {
		t.Errorf("got %d bytes, want %d", len(got), size+2)
	}
	in := `{"x":"` + strings.Repeat("a", size) + `"}`
	if got := o.call(t, "echo", in); got != in {
		t.Errorf("%d bytes came back, want %d", len(got), len(in))
	}
}

func TestALineOverTheLimitIsSkipped(t *testing.T) {
	const max = 100_000
	o := start(t, "echo", func(c *Config) { c.MaxLine = max })
	frame := len(`{"id":1,"jsonrpc":"2.0","result":""}`)
	if got := o.call(t, "big", fmt.Sprintf(`{"n":%d}`, max-frame)); len(got) != max-frame+2 {
		t.Errorf("a line of exactly the limit: got %d bytes", len(got))
	}
	if err := o.Deliver(t.Context(), wire.NewRequest("2", "big", fmt.Appendf(nil, `{"n":%d}`, max-frame+1))); err != nil {
		t.Fatal(err)
	}
	if m := o.next(t); m.ID() != "2" || !m.IsError() {
		t.Errorf("in place of the long answer came %.200s", m)
	}
	if got := o.call(t, "echo", `{"after":1}`); got != `{"after":1}` {
		t.Errorf("after the long line: got %.80s", got)
	}
	has(t, o.logs.String(), "too long", "bytes=100001")
}

func TestNoiseOnStdoutIsSkippedAndLogged(t *testing.T) {
	o := start(t, "banner")
	o.waitFor(t, "notifications/early")
	if got := o.call(t, "echo", `{"a":1}`); got != `{"a":1}` {
		t.Errorf("got %s", got)
	}
	has(t, o.logs.String(), "Welcome to my server", "[1,2", "invalid message", "nonsense")
}

func TestABatchIsPassedOnMessageByMessage(t *testing.T) {
	o := start(t, "batch")
	o.waitFor(t, "one")
	o.waitFor(t, "two")
}

func TestAServerThatDiesIsReportedWithItsLastWords(t *testing.T) {
	for _, c := range []struct {
		mode, text string
	}{
		{"dies in initialize", "exited with status 3; the end of its stderr:\nno API key: [31mset FOO_KEY[0m"},
		{"dies by signal", "was ended by signal 9 (killed); the end of its stderr:\nabout to go"},
		{"closes stdout", "closed its stdout and did not exit, so it was killed; the end of its stderr:\nstdout is not needed"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			o := start(t, c.mode)
			began := time.Now()
			o.Deliver(t.Context(), wire.NewRequest("1", "initialize", []byte(`{}`)))
			err := o.exit(t)
			has(t, err.Error(), c.text)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("reported after %v", took)
			}
			if err := o.Deliver(t.Context(), wire.NewRequest("2", "x", nil)); err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Deliver afterwards: %v", err)
			}
			if err := o.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if n := o.exits.Load(); n != 1 {
				t.Errorf("Exited was called %d times", n)
			}
		})
	}
}

func TestWhatWasWrittenBeforeTheExitArrivesBeforeIt(t *testing.T) {
	o := start(t, "answers and exits")
	eventually(t, "Send blocks", func() bool { return len(o.sent) == cap(o.sent) })
	time.Sleep(100 * time.Millisecond)
	if o.exits.Load() != 0 {
		t.Fatal("Exited came before what was written")
	}
	for i := range 40 {
		o.waitFor(t, fmt.Sprintf("n%d", i))
	}
	if err := o.exit(t); err.Code != 7 || err.Tail != "bye" {
		t.Errorf("got %v", err)
	}
}

func TestADeadStdinIsAnErrorAndEndsTheServer(t *testing.T) {
	o := start(t, "closes stdin")
	o.waitFor(t, "deaf")
	if err := o.Deliver(t.Context(), wire.NewRequest("1", "x", nil)); err == nil {
		t.Fatal("delivered to a server that has closed its stdin")
	}
	has(t, o.exit(t).Error(), "closed its stdin and did not exit")
}

func TestDeliverEndsWithItsContextAndLeavesNoHalfMessage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	o := start(t, "reads late", func(c *Config) { c.Env[fileVar] = file })
	o.waitFor(t, "ready")
	big := wire.NewRequest("1", "x", []byte(`{"x":"`+strings.Repeat("a", 1<<20)+`"}`))
	for range 2 { // the second time not a byte goes out
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := o.Deliver(ctx, big); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Deliver(t.Context(), wire.NewRequest("2", "x", []byte(`{"b":2}`))); err != nil {
		t.Fatal(err)
	}
	if m := o.next(t); !m.IsError() || m.ID() != "null" {
		t.Errorf("the half message was understood: %.200s", m)
	}
	if m := o.next(t); string(m.Result()) != `{"b":2}` {
		t.Errorf("the next one was not: %.200s", m)
	}
}

func TestCloseFreesADeliverThatWaitsForTheServer(t *testing.T) {
	o := start(t, "reads nothing", func(c *Config) { c.CloseGrace, c.TermGrace = 50*time.Millisecond, 50*time.Millisecond })
	o.waitFor(t, "ready")
	delivered := make(chan error)
	big := wire.NewRequest("1", "x", []byte(`{"x":"`+strings.Repeat("a", 1<<20)+`"}`))
	go func() { delivered <- o.Deliver(context.Background(), big) }()
	select {
	case err := <-delivered:
		t.Fatalf("Deliver did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-delivered:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	case <-time.After(patience):
		t.Fatal("Deliver still waits")
	}
}

func TestASessionThatTakesNothingHoldsTheServerBack(t *testing.T) {
	o := start(t, "echo")
	if err := o.Deliver(t.Context(), wire.NewRequest("1", "flood", nil)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Send blocks", func() bool { return len(o.sent) == cap(o.sent) })
	time.Sleep(100 * time.Millisecond)
	for i := range 1000 { // nothing was dropped meanwhile
		if got, want := string(o.next(t).Params()), fmt.Sprintf(`{"i":%d}`, i); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	began := time.Now() // Close frees the blocked Send
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestAfterAResetTheServerIsStillReadUntilClose(t *testing.T) {
	o := start(t, "echo")
	o.reset.Store(true)
	for range 20 { // each answer is larger than a pipe
		if err := o.Deliver(t.Context(), wire.NewRequest("1", "big", []byte(`{"n":200000}`))); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if o.exits.Load() != 0 {
		t.Error("Exited was called")
	}
}

func TestCloseAsksThenInsists(t *testing.T) {
	grace := func(c *Config) { c.CloseGrace, c.TermGrace = 300*time.Millisecond, 300*time.Millisecond }
	t.Run("the end of stdin is enough", func(t *testing.T) {
		o := start(t, "echo", func(c *Config) { c.CloseGrace, c.TermGrace = time.Minute, time.Minute })
		o.call(t, "echo", "{}")
		timeClose(t, o, 0, 10*time.Second)
	})
	t.Run("SIGTERM comes next", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "f")
		o := start(t, "waits for SIGTERM", func(c *Config) {
			c.CloseGrace, c.TermGrace = 300*time.Millisecond, time.Minute
			c.Env[fileVar] = file
		})
		o.waitFor(t, "ready")
		timeClose(t, o, 300*time.Millisecond, 10*time.Second)
		if b, err := os.ReadFile(file); string(b) != "terminated" {
			t.Errorf("the server did not get SIGTERM: %v", err)
		}
	})
	t.Run("SIGKILL is last", func(t *testing.T) {
		o := start(t, "stubborn", grace)
		o.waitFor(t, "ready")
		timeClose(t, o, 600*time.Millisecond, 10*time.Second)
	})
	t.Run("SIGKILL comes at once when the context ends", func(t *testing.T) {
		o := start(t, "stubborn", func(c *Config) { c.CloseGrace, c.TermGrace = time.Minute, time.Minute })
		o.waitFor(t, "ready")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := o.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

func timeClose(t *testing.T, o one, least, most time.Duration) {
	t.Helper()
	began := time.Now()
	for range 3 {
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took < least || took > most {
		t.Errorf("Close took %v, want %v to %v", took, least, most)
	}
	if left := tagged(t, o.tag); len(left) > 0 {
		t.Errorf("after Close: %v", left)
	}
	if o.exits.Load() != 0 {
		t.Error("Exited was called after Close")
	}
	if err := o.Deliver(t.Context(), wire.NewRequest("1", "x", nil)); err == nil {
		t.Error("delivered after Close")
	}
}

func TestStderrIsLoggedAtARateAndItsTailKept(t *testing.T) {
	t.Run("a flood", func(t *testing.T) {
		o := start(t, "floods stderr")
		if err := o.Deliver(t.Context(), wire.NewRequest("1", "exit", nil)); err != nil {
			t.Fatal(err)
		}
		err := o.exit(t)
		has(t, err.Tail, "049999 xxx")
		if n := len(err.Tail); n > DefaultStderrTail || n < DefaultStderrTail-200 {
			t.Errorf("the tail has %d bytes", n)
		}
		if n := strings.Count(o.logs.String(), "server stderr"); n < logBurst || n > 10*logBurst {
			t.Errorf("%d of 50000 lines were logged", n)
		}
	})
	t.Run("a long line", func(t *testing.T) {
		o := start(t, "long stderr line")
		if err := o.Deliver(t.Context(), wire.NewRequest("1", "exit", nil)); err != nil {
			t.Fatal(err)
		}
		if err := o.exit(t); err.Tail != "the last words" {
			t.Errorf("got the tail %q", err.Tail)
		}
		for line := range strings.Lines(o.logs.String()) {
			if len(line) > maxLogLine+300 {
				t.Errorf("a log record of %d bytes", len(line))
			}
		}
	})
}

func TestBuildRefusesWhatCantBeStarted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name   string
		config Config
		parts  []string
	}{
		{"nothing", Config{}, []string{"no command is given"}},
		{"unknown", Config{Command: "no-such-server", Env: map[string]string{"PATH": "/a:/b"}},
			[]string{`can't start "no-such-server"`, `command not found in PATH "/a:/b"`, "set PATH"}},
		{"missing file", Config{Command: "./gone", Dir: dir}, []string{dir + "/gone", "no such file"}},
		{"not executable", Config{Command: write("text", "x", 0o644)}, []string{"permission denied", "chmod +x"}},
		{"a folder", Config{Command: dir}, []string{"is a directory"}},
		{"no folder", Config{Command: "sh", Dir: "/no/such"}, []string{"working folder", "/no/such"}},
		{"no interpreter", Config{Command: write("script", "#!/no/such/node\n", 0o755)}, []string{"interpreter"}},
		{"no program", Config{Command: write("junk", "\x00\x01\x02", 0o755)}, []string{"exec format error", "#!"}},
		{"a zero", Config{Command: "sh", Args: []string{"\x00"}, Env: map[string]string{"A=B": ""}},
			[]string{"zero byte", "can't be set"}},
		{"too long", Config{Command: "sh", Args: []string{strings.Repeat("x", 5<<20)}}, []string{"too long"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(c.config)
			defer p.Close(context.Background())
			r, err := p.Build(t.Context(), newSession())
			if err == nil {
				r.Close(t.Context())
				t.Fatal("it was started")
			}
			has(t, err.Error(), c.parts...)
		})
	}
}

func TestACancelledBuildLeavesNothing(t *testing.T) {
	tag := newTag()
	p := New(configOf(t, "stubborn", tag))
	defer p.Close(context.Background())
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
		r, err := p.Build(ctx, newSession())
		cancel()
		if err == nil { // it was quicker
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Close(ended); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if left := tagged(t, tag); len(left) > 0 {
			t.Fatalf("round %d: left behind: %v", i, left)
		}
	}
}

func TestPluginCloseEndsItsServersAndRefusesNewOnes(t *testing.T) {
	o := start(t, "stubborn", func(c *Config) { c.CloseGrace, c.TermGrace = time.Minute, time.Minute })
	o.waitFor(t, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := o.plugin.Close(ctx); err != nil {
		t.Error(err)
	}
	if left := tagged(t, o.tag); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := o.plugin.Build(t.Context(), newSession()); !errors.Is(err, ErrClosed) {
		t.Errorf("Build: %v", err)
	}
}

func TestTheTailIsTheEndOfWhatWasWritten(t *testing.T) {
	for _, c := range []struct {
		max    int
		writes []string
		want   string
	}{
		{10, nil, ""},
		{10, []string{"abc\n"}, "abc"},
		{10, []string{"abcdef", "ghijkl"}, "cdefghijkl"},
		{10, []string{"one\ntwo\n", "three\n"}, "three"},
		{10, []string{"12345", "a much longer one"}, "longer one"},
		{10, []string{"0123456789\n"}, "123456789"},
		{20, []string{"\xff \x1b[1mred\x07\t\u00e9"}, "\ufffd [1mred\t\u00e9"},
	} {
		tl := tail{max: c.max}
		for _, w := range c.writes {
			tl.write([]byte(w))
		}
		if got := tl.String(); got != c.want {
			t.Errorf("%q of %d bytes: got %q, want %q", c.writes, c.max, got, c.want)
		}
	}
}
