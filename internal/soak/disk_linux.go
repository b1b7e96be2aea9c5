package soak

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// smallDisk is a file system that can be full.
type smallDisk struct{ dir string }

// smallSize is how large it is: some storms' rows, and what the store allots ahead.
const smallSize = 192 << 20

func newSmallDisk(dir string) (*smallDisk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("kalpa-soak", dir, "tmpfs", 0, fmt.Sprintf("size=%d", smallSize)); err != nil {
		return nil, fmt.Errorf("a file system in memory can't be mounted: %w", err)
	}
	return &smallDisk{dir}, nil
}

func (d *smallDisk) fill(full bool) error {
	ballast := filepath.Join(d.dir, "ballast")
	if !full {
		return os.Remove(ballast)
	}
	f, err := os.Create(ballast) //nolint:gosec // in a folder of its own
	if err != nil {
		return err
	}
	// Until nothing fits any more: the host takes and gives back room all the time.
	at := int64(0)
	for size := int64(16 << 20); size >= 4<<10; {
		if err := syscall.Fallocate(int(f.Fd()), 0, at, size); errors.Is(err, syscall.ENOSPC) { //nolint:gosec // a descriptor is small
			size /= 2
			continue
		} else if err != nil {
			return errors.Join(err, f.Close())
		}
		at += size
	}
	return f.Close()
}

func (d *smallDisk) close() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}

// marked are the processes that have a variable in their environment: children inherit
// it, however far they go from those that started them.
func marked(mark string) (found []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is a good one
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ")) //nolint:gosec // a process's
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) //nolint:gosec // likewise; it may be gone
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
		}
	}
	return found
}
