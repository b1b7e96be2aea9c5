package pebble_test

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
	"github.com/kalpahost/kalpa/storage/storetest"
)

var silent = slog.New(slog.DiscardHandler)

// mustOpen opens a store whose failure is the test's.
func mustOpen(t testing.TB, o pebble.Options) *pebble.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = "data"
	}
	if o.Logger == nil {
		o.Logger = silent
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	s, err := pebble.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	for _, d := range []storage.Durability{storage.Sync, storage.Relaxed} {
		t.Run(d.String(), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storage.Store {
				return mustOpen(t, pebble.Options{FS: vfs.NewMem(), Durability: d})
			})
		})
	}
}

// diskWorld is a store on a disk in memory.
type diskWorld struct {
	t  *testing.T
	fs vfs.FS
}

func (w diskWorld) Open() storage.Store { return mustOpen(w.t, pebble.Options{FS: w.fs}) }

func (w diskWorld) Reopen(s storage.Store) storage.Store {
	if err := s.Close(); err != nil {
		w.t.Error(err)
	}
	return w.Open()
}

func TestStoreModel(t *testing.T) {
	storetest.Model(t, func() storetest.World { return diskWorld{t, vfs.NewMem()} })
}
