package cmd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/kalpahost/kalpa"
	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/cmd"
	"github.com/kalpahost/kalpa/mcp/session"
)

type visitors struct{ state *actor.State }

func (v *visitors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/socket" {
		if _, err := v.state.AcceptWebSocket(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return
	}
	if r.URL.Path == "/caller" {
		_, _ = fmt.Fprintf(w, "%q", actor.Caller(r.Context()))
		return
	}
	b, err := v.state.Get("n")
	if err == nil {
		b = append(b, 'I')
		err = v.state.Put("n", b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b)
}

func (v *visitors) WebSocketMessage(_ context.Context, ws *actor.WebSocket, m actor.Message) error {
	return ws.Send(m.Text())
}

func class(name string) *actor.Class[visitors] {
	return actor.Define(name, func(_ context.Context, s *actor.State) (*visitors, error) { return &visitors{s}, nil })
}

// program runs a command line in this process until the test ends, and returns what it
// says about itself.
func program(t *testing.T, args ...string) (said []string, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var errors strings.Builder
	code := make(chan int, 1)
	go func() {
		c := cmd.Run(ctx, args, out, &errors)
		out.CloseWithError(fmt.Errorf("exit code %d: %s", c, errors.String()))
		code <- c
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		said = append(said, lines.Text())
		if strings.HasPrefix(lines.Text(), "  pid ") {
			break
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, in)
	return said, func() int { cancel(); return <-code }
}

// A program's classes live in the host that Main runs, beside sessions or alone.
func TestAProgramHostsItsObjects(t *testing.T) {
	kalpa.Register(class("visitors").Serve(), class("hidden"))
	for _, name := range []string{"visitors", session.Class, ""} {
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, "can't be registered") {
					t.Errorf("%q is registered: %v", name, p)
				}
			}()
			kalpa.Register(class(name))
		}()
	}
	data := t.TempDir()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--log-level", "error"}
	said, end := program(t, serve...)
	all := strings.Join(said, "\n")
	base, ok := strings.CutPrefix(said[0], "kalpa is listening on ")
	if !ok || !strings.HasSuffix(base, "/objects/visitors/") || strings.Contains(all, "/mcp") || !strings.Contains(all, "of class hidden") {
		t.Fatalf("it says\n%s", all)
	}
	base = strings.TrimSuffix(base, "objects/visitors/")
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	get := func(path, origin string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprintf("%d %.40s", res.StatusCode, b)
	}
	for _, c := range [][3]string{
		{"objects/visitors/a", "", "200 I"}, {"objects/visitors/a/", "", "200 II"},
		{"objects/visitors/a/", "http://localhost:1", "200 III"},
		{"objects/visitors/a/", "https://evil.example", `403 The origin "https://evil.example" may no`},
		{"objects/hidden/a", "", `404 There is no class "hidden" here: a progr`},
		{"mcp", "", "404 There is nothing at this path. Objects a"},
	} {
		if got := get(c[0], c[1]); got != c[2] {
			t.Errorf("%s from %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	ws, _, err := websocket.Dial(t.Context(), base+"objects/visitors/a/socket", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {"http://localhost:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.Write(t.Context(), websocket.MessageText, []byte("hello"))
	if _, b, err := ws.Read(t.Context()); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	gone := make(chan error)
	go func() { _, _, err := ws.Read(t.Context()); gone <- err }()
	if code := end(); code != cmd.ExitOK {
		t.Errorf("it ends with %d", code)
	}
	if err := <-gone; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v", err)
	}

	// With a server beside them, on what was stored.
	said, end = program(t, append(serve, "--plugin", "demo")...)
	if all = strings.Join(said, "\n"); !strings.Contains(all, "/mcp\n") || !strings.Contains(all, "/objects/visitors/\n") {
		t.Errorf("it says\n%s", all)
	}
	base = strings.TrimSuffix(strings.TrimPrefix(said[0], "kalpa is listening on "), "mcp")
	if got := get("objects/visitors/a", ""); got != "200 IIII" {
		t.Errorf("after a restart: %q", got)
	}
	if got := get("objects/visitors/a/caller", ""); got != `200 ""` {
		t.Errorf("without credentials the caller is %q", got)
	}
	if code := end(); code != cmd.ExitOK {
		t.Errorf("it ends with %d", code)
	}

	// With credentials they know who calls, and nobody can say to be another.
	lines, token := tokens(t, "ada", "root")
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	said, end = program(t, append(serve, "--auth-tokens-file", file)...)
	base = strings.TrimPrefix(said[0], "kalpa is listening on ")
	for bearer, want := range map[string]string{"Bearer " + token["ada"]: `200 "token:ada"`, "Bearer " + token["root"]: `200 "token:root"`, "": "401 ", "Bearer root": "401 "} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"a/caller", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, forged := range []string{"Kalpa-Caller", "X-Forwarded-User", "X-Remote-User", "X-Auth-Request-User"} {
			r.Header.Set(forged, "root")
		}
		if bearer != "" {
			r.Header.Set("Authorization", bearer)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, b); !strings.HasPrefix(got, want) {
			t.Errorf("with %q the caller is %s, want %s", bearer, got, want)
		}
	}
	if code := end(); code != cmd.ExitOK {
		t.Errorf("it ends with %d", code)
	}
}
