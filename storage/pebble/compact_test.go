package pebble_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// What was written over and deleted leaves the disk, and what is there stays.
func TestCompactGivesTheDiskBack(t *testing.T) {
	s := mustOpen(t, pebble.Options{FS: vfs.NewMem()})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, id := t.Context(), storage.ID{Class: "c", Name: "n"}
	epoch, err := storage.Claim(ctx, s, id)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		value := make([]byte, 64<<10)
		for i := range value { // nothing that can be compressed
			value[i] = byte(i*i*(n+3) + i>>3)
		}
		if err := storage.Commit(ctx, s, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k", Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if size := m.Total().TablesSize; size == 0 || size > 1<<20 {
		t.Errorf("%d bytes of tables for one row of 64 KiB", size)
	}
	if v, err := s.Get(ctx, id, "k"); err != nil || len(v) != 64<<10 {
		t.Errorf("%d bytes are left of the row, %v", len(v), err)
	}
}
