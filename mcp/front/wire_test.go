package front

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kalpahost/kalpa/internal/clock"
	"github.com/kalpahost/kalpa/mcp"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata")

// TestWire plays testdata/*.txtar: each holds a request, what the session does
// (see fakeSessions), and what must come back and reach the session. -update
// rewrites the latter two.
//
//	-- options --   fields of Options, a line each; "listen public" for a connection
//	                that is not on loopback
//	-- request --   as on the wire; a Content-Length is added
//	-- session --   the script
//	-- response --
//	-- events --
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playWire(t, file) })
	}
}

func playWire(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clk := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	sessions := &fakeSessions{t: t, clock: clk, script: lines(section(a, "session"))}
	counted := &countedClock{Clock: clk}
	o := Options{Sessions: sessions, Server: "demo", Clock: counted, Logger: slog.New(slog.DiscardHandler)}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for _, line := range lines(section(a, "options")) {
		name, value, _ := strings.Cut(line, " ")
		if name == "listen" {
			local.IP = net.IPv4(192, 0, 2, 1)
			continue
		}
		if name == "Principal" {
			o.Principal = bearer(value)
			continue
		}
		setOption(t, &o, name, value)
	}
	set(&o.Hold, -1) // else what comes together depends on how fast it is
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
	defer cancel()
	sessions.front, sessions.disconnect = f, cancel
	w := httptest.NewRecorder()
	hung := time.AfterFunc(10*time.Second, func() {
		t.Error("the exchange hangs")
		cancel()
	})
	defer hung.Stop()
	f.ServeHTTP(w, readRequest(t, section(a, "request")).WithContext(ctx))
	sessions.stopTicking()
	if len(sessions.script) > 0 {
		t.Errorf("the script was not played to its end: %q", sessions.script)
	}
	if s := f.Stats(); s.Streams != 0 || s.Bodies != 0 {
		t.Errorf("held after the response: %+v", s)
	}
	if n := counted.armed.Load(); n != 0 {
		t.Errorf("%d timers are still armed", n)
	}
	if f.turns.free != f.o.MaxAttaching {
		t.Error("a turn to attach is still held")
	}
	expect(t, a, "response", sessions.named(dump(w)))
	expect(t, a, "events", sessions.named(strings.Join(sessions.events, "\n")+"\n"))
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func section(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func lines(s string) []string {
	return slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return l == "" })
}

func expect(t *testing.T, a *txtar.Archive, name, got string) {
	t.Helper()
	if !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if *update {
		for i := range a.Files {
			if a.Files[i].Name == name {
				a.Files[i].Data = []byte(got)
				return
			}
		}
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got)})
		return
	}
	if want := section(a, name); got != want {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", name, got, want)
	}
}

// readRequest reads a request whose lines may end in \n alone.
func readRequest(t *testing.T, text string) *http.Request {
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	if !strings.Contains(head, "Content-Length:") && body != "" {
		head += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	raw := strings.ReplaceAll(strings.TrimSuffix(head, "\n"), "\n", "\r\n") + "\r\n\r\n" + body
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal("the request can't be read:", err)
	}
	return r
}

// dump tells a response as it stands on the wire, its headers sorted.
func dump(w *httptest.ResponseRecorder) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %s\n", w.Code, http.StatusText(w.Code))
	head := w.Result().Header
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range head {
			if !yield(name) {
				return
			}
		}
	}) {
		if name != "Content-Length" { // follows from the body, whose ids vary
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(head[name], "; "))
		}
	}
	b.WriteByte('\n')
	b.Write(w.Body.Bytes())
	return b.String()
}

func setOption(t *testing.T, o *Options, name, value string) {
	field := reflect.ValueOf(o).Elem().FieldByName(name)
	switch field.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			t.Fatal(err)
		}
		field.SetInt(int64(d))
	case int, int64:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		field.SetInt(n)
	case bool:
		field.SetBool(value == "true")
	case []string:
		field.Set(reflect.Append(field, reflect.ValueOf(value)))
	default:
		t.Fatalf("unknown option %q", name)
	}
}

// bearer knows one token, and whose it is.
func bearer(token string) func(*http.Request) (mcp.Principal, *Refusal) {
	return func(r *http.Request) (mcp.Principal, *Refusal) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return mcp.Principal{}, refuse(http.StatusUnauthorized, "", -32600, "Send a valid token.").with("WWW-Authenticate", "Bearer")
		}
		return mcp.Principal{Subject: "owner of " + token}, nil
	}
}
