package session_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kalpahost/kalpa/storage/pebble"
)

// onDisk is the engine on a disk in memory, each fsync of which begins with a function.
func onDisk(t *testing.T, sync func()) *pebble.Store {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "data", FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			sync()
		}
		return nil
	}))})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
