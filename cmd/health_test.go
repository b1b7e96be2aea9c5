package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// While a host ends, it lives and is not ready: who sends requests to hosts leaves it out,
// and who restarts hosts leaves it alone.
func TestAHostThatDrainsLivesAndIsNotReady(t *testing.T) {
	h := host(t, nil, "--admin", "127.0.0.1:0", "--drain", "2m")
	_, at, _ := strings.Cut(h.out.String(), "\n  admin     ")
	health, _, _ := strings.Cut(at, "\n")
	ready := strings.TrimSuffix(health, "healthz") + "readyz"
	ask := func(url string) string {
		t.Helper()
		response, err := h.client.Get(url)
		if err != nil {
			t.Fatalf("%v; its log:\n%s", err, h.log)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(body)))
	}
	for _, url := range []string{health, ready} {
		if got := ask(url); got != "200 ok" {
			t.Errorf("%s of a host that serves: %s", url, got)
		}
	}

	// A request whose body does not come holds the end up.
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the body is not waited for: %q, %v", line, err)
	}
	h.signal(syscall.SIGTERM)
	h.within("it drains", func() bool { return ask(ready) != "200 ok" })
	if got := ask(ready); !strings.HasPrefix(got, "503 draining: ") {
		t.Errorf("readyz of a host that drains: %s", got)
	}
	if got := ask(health); got != "200 ok" {
		t.Errorf("healthz of a host that drains: %s", got)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.cmd.Wait() }()
	select {
	case err := <-ended:
		h.cmd = nil
		if err != nil {
			t.Errorf("it ended with %v; its log:\n%s", err, h.log)
		}
	case <-time.After(time.Minute):
		t.Fatalf("it does not end; its log:\n%s", h.log)
	}
	if _, err := (&http.Client{Timeout: 10 * time.Second}).Get(health); err == nil {
		t.Error("somebody answers for a host that has ended")
	}
}
