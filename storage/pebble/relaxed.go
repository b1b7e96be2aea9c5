package pebble

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// relaxedFS is how storage.Relaxed is done. Pebble's own way to skip an fsync
// (NoSync) keeps commits in the memory of the process until a block of the log
// is full, and kill -9 loses them. So every commit asks for a sync, which makes
// Pebble hand the log to the operating system, and the sync itself is skipped
// here.
//
// Only the log that is being written is treated so. Before it is closed it is
// synced in earnest: the next log must never be on the disk without it, or a
// power cut would take away the middle of the history and not its end.
type relaxedFS struct{ vfs.FS }

func (r relaxedFS) Unwrap() vfs.FS { return r.FS }

func (r relaxedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, c)
	return relaxLog(f, name), err
}

func (r relaxedFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.ReuseForWrite(from, to, c)
	return relaxLog(f, to), err
}

func relaxLog(f vfs.File, name string) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	return relaxedLog{f}
}

type relaxedLog struct{ vfs.File }

func (f relaxedLog) Sync() error                { return nil }
func (f relaxedLog) SyncData() error            { return nil }
func (f relaxedLog) SyncTo(int64) (bool, error) { return false, nil }

func (f relaxedLog) Close() error {
	err := f.File.Sync()
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
