//go:build unix

package stdio

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe makes a pipe; the host reads when hostReads is set. Only the host's end is
// made non-blocking: the mode belongs to the end, not to the process, and
// programs that find their stdin or stdout so fail with EAGAIN.
func pipe(hostReads bool) (r, w *os.File, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	err = unix.Pipe(p[:])
	if err == nil {
		unix.CloseOnExec(p[0])
		unix.CloseOnExec(p[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	host := p[1]
	if hostReads {
		host = p[0]
	}
	if err := unix.SetNonblock(host, true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(p[0]), "|r"), os.NewFile(uintptr(p[1]), "|w"), nil
}

// writeNow writes as much to a pipe as it takes at once, which may be nothing.
func writeNow(fd uintptr, b []byte) (int, error) {
	n, err := unix.Write(int(fd), b)
	switch err {
	case nil:
		return n, nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	default:
		return 0, os.NewSyscallError("write", err)
	}
}
