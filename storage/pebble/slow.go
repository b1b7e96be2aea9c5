package pebble

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowFS is a disk whose fsync takes longer by a time, for benchmarks. Directories are
// synced as fast as ever: that happens when a log or a table begins, and not at a commit.
type slowFS struct {
	vfs.FS
	more time.Duration
}

func (s slowFS) Unwrap() vfs.FS { return s.FS }

func (s slowFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return s.slow(f), err
}

func (s slowFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(from, to, c)
	return s.slow(f), err
}

func (s slowFS) slow(f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return slowFile{f, s.more}
}

type slowFile struct {
	vfs.File
	more time.Duration
}

func (f slowFile) Sync() error {
	time.Sleep(f.more)
	return f.File.Sync()
}

func (f slowFile) SyncData() error {
	time.Sleep(f.more)
	return f.File.SyncData()
}
