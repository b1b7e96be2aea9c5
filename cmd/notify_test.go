package cmd_test

import (
	"bytes"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A service manager hears when the host serves, that it lives, and when it ends.
func TestServiceManagerIsTold(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	var told bytes.Buffer
	host := exec.CommandContext(t.Context(), "kalpa", "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	host.Env = append(host.Environ(), "NOTIFY_SOCKET="+socket.LocalAddr().String(), "WATCHDOG_USEC=200000")
	host.Stderr = &told
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, 64)
		n, err := socket.Read(word)
		if err != nil {
			_ = host.Process.Kill()
			_ = host.Wait()
			t.Fatalf("nothing is told: %v\n%s", err, told.Bytes())
		}
		return string(word[:n])
	}
	words := []string{next(), next(), next()}
	if want := []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"}; !slices.Equal(words, want) {
		t.Errorf("%q was told, want %q", words, want)
	}
	if err := host.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for word := next(); word != "STOPPING=1"; word = next() {
		if word != "WATCHDOG=1" {
			t.Errorf("%q was told", word)
		}
	}
	if err := host.Wait(); err != nil {
		t.Errorf("%v\n%s", err, told.Bytes())
	}
}
