package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// ListenUnix listens on a unix socket that the user alone can open. The file that
// a host left which has died is removed; one that somebody answers at, or that is
// no socket, is an *Error. The file goes when the listener is closed.
func ListenUnix(path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, cannot(path, err, "")
	case info.Mode().Type() != fs.ModeSocket:
		return nil, cannot(path, errors.New("there is a file that is no socket"), "choose another path, or remove it")
	default:
		var d net.Dialer
		c, err := d.DialContext(context.Background(), "unix", path)
		if err == nil {
			_ = c.Close()
			return nil, cannot(path, errors.New("another program listens there"), "it is perhaps another kalpa: end that one, or choose another path")
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, cannot(path, err, "")
		}
		if err := os.Remove(path); err != nil {
			return nil, cannot(path, err, "")
		}
	}
	// The permissions are those from the first moment on: no window in which others
	// could connect. The mask is the process's, which does nothing else yet.
	mask := syscall.Umask(0o177)
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "unix", path)
	syscall.Umask(mask)
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EINVAL) {
			hint = "a path of more than some 100 bytes can't be a socket: choose a shorter one"
		}
		return nil, cannot(path, err, hint)
	}
	return l, nil
}

func cannot(path string, err error, hint string) *Error {
	return &Error{Text: fmt.Sprintf("can't listen on the unix socket %s: %v", path, err), Hint: hint, Err: err}
}
