package stdio

import (
	"context"
	"os"
	"syscall"
	"time"
)

// inlet is the writing end of a child's stdin, for one writer at a time.
type inlet struct {
	*os.File
	conn syscall.RawConn

	// A write that does not wait: what is to be written, and what came of it.
	rest []byte
	n    int
	err  error
	try  func(fd uintptr) bool // made once, since each would be allocated
}

func newInlet(f *os.File) *inlet {
	i := &inlet{File: f}
	i.conn, _ = f.SyscallConn() // fails for no file only
	i.try = func(fd uintptr) bool {
		i.n, i.err = writeNow(fd, i.rest)
		return true
	}
	return i
}

// write writes b, and waits for the child to read where the pipe is full. When ctx ends
// meanwhile, the error is os.ErrDeadlineExceeded, and n says how much was written.
func (i *inlet) write(ctx context.Context, b []byte) (n int, err error) {
	i.rest, i.n, i.err = b, 0, nil
	_ = i.conn.Write(i.try) // what is wrong with the file, Write says below
	i.rest = nil
	if i.err != nil || i.n == len(b) { // most often: so only the rest is worth a deadline
		return i.n, i.err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(late)
		i.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err = i.Write(b[i.n:])
	if !stop() {
		<-late
		i.SetWriteDeadline(time.Time{})
	}
	return i.n + n, err
}
