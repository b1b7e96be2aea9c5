//go:build linux && (amd64 || arm64)

package pebble

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// directLog writes a log past the page cache of the system, and has the system do that
// while the goroutine waits as for a socket. An fsync is a thread that stands still: the
// runtime has to give its processor to another one and to look after it all the time.
//
// What is written is kept until a sync, which writes all of it and is done when the disk
// has it. Only whole pages can be written. So the last one is filled up with zeros, and
// written again with what follows.
type directLog struct {
	vfs.File
	queue *queue
	buf   []byte // what was not yet written, from the last whole page on
	n     int    // bytes of it
	at    int64  // where in the file it begins
	dirty bool   // there is something that was not synced
	err   error  // once writing has failed it is not tried again
}

// directBuffer is how much is written without a sync when it is more than that.
const directBuffer = 128 << 10

// direct is a file that is written so; f itself, where the system can't do it, which is
// found out by trying.
func direct(f vfs.File) vfs.File {
	q := takeQueue()
	if q == nil {
		return f
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	if err == nil {
		if err = q.write(f.Fd(), zeros[:pageSize], 0, unix.RWF_DSYNC); err == nil {
			return &directLog{File: f, queue: q, buf: pages(directBuffer)}
		}
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	}
	q.giveBack()
	return f
}

func (f *directLog) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if f.n == len(f.buf) {
			if err := f.put(0); err != nil {
				return n, err
			}
		}
		c := copy(f.buf[f.n:], p[n:])
		f.n += c
		n += c
		f.dirty = true
	}
	return n, f.err
}

// put writes what is in the buffer.
func (f *directLog) put(flags uint32) error {
	if f.err != nil {
		return f.err
	}
	end := (f.n + pageSize - 1) &^ (pageSize - 1)
	clear(f.buf[f.n:end])
	if f.err = f.queue.write(f.Fd(), f.buf[:end], f.at, flags); f.err != nil {
		return f.err
	}
	whole := f.n &^ (pageSize - 1)
	f.n = copy(f.buf, f.buf[whole:f.n])
	f.at += int64(whole)
	return nil
}

func (f *directLog) SyncData() error {
	if f.n == 0 && f.err == nil {
		f.err = f.File.SyncData() // all was written, and not synced
	} else {
		_ = f.put(unix.RWF_DSYNC)
	}
	f.dirty = f.dirty && f.err != nil
	return f.err
}

func (f *directLog) Sync() error { return f.SyncData() }

// SyncTo has nothing to hurry: there is nothing in the page cache.
func (f *directLog) SyncTo(int64) (bool, error) { return false, nil }

func (f *directLog) Close() error {
	err := f.err
	if f.dirty {
		err = f.SyncData()
	}
	if err == nil { // else something may be under way
		f.queue.giveBack()
	}
	return errors.Join(err, f.File.Close())
}

// queue is a place where one write at a time is under way.
type queue struct {
	context uintptr
	eventfd uint32
	done    syscall.RawConn // of the eventfd, which becomes readable when a write has ended
	request iocb
	event   event
}

// iocb and event are what the system calls struct iocb and struct io_event.
type iocb struct {
	_       uint64
	_       uint32 // the system's own
	flagsRW uint32
	opcode  uint16
	_       int16
	fd      uint32
	buf     uint64
	bytes   uint64
	offset  int64
	_       uint64
	flags   uint32
	eventfd uint32
}

type event struct {
	data, request  uint64
	result, second int64
}

const (
	iocbPwrite  = 1
	iocbEventfd = 1
)

func newQueue() (*queue, error) {
	q := &queue{}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&q.context)), 0); errno != 0 {
		return nil, errno
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err == nil {
		q.eventfd = uint32(fd)                                  //nolint:gosec // a descriptor is small
		q.done, err = os.NewFile(uintptr(fd), "").SyscallConn() //nolint:gosec // as above
	}
	if err == nil {
		return q, nil
	}
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, q.context, 0, 0)
	return nil, err
}

// write is done when all of p is in the file.
func (q *queue) write(fd uintptr, p []byte, at int64, flags uint32) error {
	q.request = iocb{
		flagsRW: flags, opcode: iocbPwrite, fd: uint32(fd), //nolint:gosec // a descriptor is small
		buf: uint64(uintptr(unsafe.Pointer(&p[0]))), bytes: uint64(len(p)), offset: at,
		flags: iocbEventfd, eventfd: q.eventfd,
	}
	requests := &q.request
	if _, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, q.context, 1, uintptr(unsafe.Pointer(&requests))); errno != 0 {
		return os.NewSyscallError("io_submit", errno)
	}
	var errno syscall.Errno
	err := q.done.Read(func(uintptr) bool {
		var n uintptr
		n, _, errno = unix.Syscall6(unix.SYS_IO_GETEVENTS, q.context, 0, 1, uintptr(unsafe.Pointer(&q.event)), 0, 0)
		return n == 1 || errno != 0 && errno != unix.EINTR
	})
	runtime.KeepAlive(p)
	switch {
	case err != nil:
		return err
	case errno != 0:
		return os.NewSyscallError("io_getevents", errno)
	case q.event.result < 0:
		return os.NewSyscallError("write", syscall.Errno(-q.event.result)) //nolint:gosec // it is one
	case q.event.result != int64(len(p)):
		return io.ErrShortWrite
	}
	return nil
}

// A queue is kept for the next log: the system takes milliseconds to take one back, and
// that would be while commits wait.
var queues struct {
	sync.Mutex
	idle []*queue
}

func takeQueue() *queue {
	queues.Lock()
	defer queues.Unlock()
	if n := len(queues.idle); n > 0 {
		q := queues.idle[n-1]
		queues.idle = queues.idle[:n-1]
		return q
	}
	q, err := newQueue()
	if err != nil {
		return nil
	}
	return q
}

func (q *queue) giveBack() {
	queues.Lock()
	defer queues.Unlock()
	queues.idle = append(queues.idle, q)
}

// overwrites tells whether the file system of a folder writes in place what is written
// again. Others put it somewhere else, which is slower where it was written before.
func overwrites(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && (s.Type == unix.EXT4_SUPER_MAGIC || s.Type == unix.XFS_SUPER_MAGIC)
}

func aligned(b []byte) []byte {
	return b[-uintptr(unsafe.Pointer(&b[0]))%pageSize:]
}
