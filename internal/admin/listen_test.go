package admin_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/internal/admin"
)

// folder is for sockets, whose paths must be short.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kalpa") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return dir
}

func TestUnixSocketIsForItsOwner(t *testing.T) {
	w := newWorld(t, "")
	path := filepath.Join(folder(t), "k.sock")
	l, err := admin.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	s := &http.Server{Handler: w.handler}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	client, err := admin.NewClient("unix:"+path, "")
	check(t, err)
	if all, err := client.Isolates(t.Context()); err != nil || len(all.Isolates) != 4 {
		t.Errorf("%+v, %v", all, err)
	}

	// A living host's socket is not taken from it.
	if _, err := admin.ListenUnix(path); err == nil || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("a second listener: %v", err)
	}
	if _, err := client.Isolates(t.Context()); err != nil {
		t.Errorf("after a second listener tried: %v", err)
	}
	check(t, s.Close())
	<-served
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestSocketOfADeadHostIsRemovedAndNothingElse(t *testing.T) {
	path := filepath.Join(folder(t), "k.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // as after kill -9
	check(t, dead.Close())
	l, err := admin.ListenUnix(path)
	if err != nil {
		t.Fatalf("the socket of a dead host is in the way: %v", err)
	}
	check(t, l.Close())

	check(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := admin.ListenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file that is no socket: %v", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "mine" {
		t.Errorf("%q, %v", kept, err)
	}
	_, err = admin.ListenUnix(filepath.Join(filepath.Dir(path), strings.Repeat("x", 200)))
	if e, ok := errors.AsType[*admin.Error](err); !ok || !strings.Contains(e.Hint, "shorter") {
		t.Errorf("a path that is too long: %v", err)
	}
}
