package pebble_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// The tests may run as root, whom no mode stops; a read-only mount does.
func TestAReadOnlyMountIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("no right to mount a file system: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	if err := mustOpen(t, pebble.Options{Dir: filepath.Join(dir, "store")}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("no right to remount: %v", err)
	}
	for _, d := range []string{filepath.Join(dir, "store"), filepath.Join(dir, "new"), filepath.Join(dir, "new", "below"), dir} {
		_, err := pebble.Open(pebble.Options{Dir: d, Logger: silent})
		if d == dir { // it holds a folder
			wantRefusal(t, err, storage.ErrForeign, d)
			continue
		}
		wantRefusal(t, err, storage.ErrReadOnly, d, "read-only")
	}
}
