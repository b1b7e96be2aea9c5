package pebble

import (
	"math"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// zerosFS writes logs over zeros. An fsync of a file that grows has three things to
// write: the blocks that are new, where they are, and how long the file is now. One
// over blocks that were written before has the blocks. So zeros are written ahead of
// the log, and become durable with the first commit after them.
//
// Whoever reads the log takes zeros for its end: that is what a log looks like on a
// file system that gives a file more room than was written, and the old bytes of a log
// that is written over another one are passed over in the same way.
type zerosFS struct {
	vfs.FS
	// direct: logs are written by directLog, where that can be done.
	direct bool
}

// overZeros is a file system that writes logs over zeros; fs itself, where that would
// be work for nothing.
func overZeros(fs vfs.FS, dir string) vfs.FS {
	system := fs == vfs.Default
	if system && !overwrites(dir) {
		return fs
	}
	return zerosFS{fs, system}
}

func (z zerosFS) Unwrap() vfs.FS { return z.FS }

func (z zerosFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := z.FS.Create(name, c)
	return z.log(f, name), err
}

func (z zerosFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := z.FS.ReuseForWrite(from, to, c)
	return z.log(f, to), err
}

func (z zerosFS) log(f vfs.File, name string) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	l := &zerosLog{File: f}
	if info, err := f.Stat(); err == nil {
		l.end = info.Size() // it is written over another log
	}
	if z.direct {
		l.File = direct(f)
	}
	return l
}

// zerosAhead is how many zeros are written at a time.
const zerosAhead = 256 << 10

var zeros = pages(zerosAhead)

type zerosLog struct {
	vfs.File
	at  int64 // how much of the log is written
	end int64 // of the blocks that were written before
}

func (f *zerosLog) Write(p []byte) (int, error) {
	for f.end < f.at+int64(len(p)) {
		f.zero()
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}

// zero writes zeros, if the disk has room for them. Where it has none the log goes on
// without: if it can't be written either, that is for its own write to find out.
func (f *zerosLog) zero() {
	err := f.Preallocate(f.end, zerosAhead)
	if err == nil {
		_, err = f.WriteAt(zeros, f.end)
	}
	if f.end += zerosAhead; err != nil {
		f.end = math.MaxInt64
	}
}

// pageSize is what the system reads and writes at once.
const pageSize = 4 << 10

// pages are n bytes that begin where a page does.
func pages(n int) []byte {
	b := make([]byte, n+pageSize)
	return aligned(b)[:n:n]
}
