package pebble_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// However much is stored and read, what the engine keeps of it in memory has a bound:
// the block cache's, and two memtables'.
func TestWhatIsReadAndWrittenIsKeptWithinABound(t *testing.T) {
	const cache, memtable, slack = 1 << 20, 256 << 10, 128 << 10 // each part of the cache may go a block beyond its share
	s := mustOpen(t, pebble.Options{FS: vfs.NewMem(), Dir: "data", CacheSize: cache}.Tuned(func(o *engine.Options) {
		o.MemTableSize = memtable
	}))
	defer s.Close()
	ctx := context.Background()
	id := storage.ID{Class: "session", Name: "a"}
	epoch, err := storage.Claim(ctx, s, id)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 64 {
		value := make([]byte, 64<<10) // that can't be compressed
		for at := 0; at < len(value); at += 8 {
			binary.BigEndian.PutUint64(value[at:], random.Uint64())
		}
		if err := storage.Commit(ctx, s, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: fmt.Sprint(n), Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, err := range s.List(ctx, id, storage.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if rows != 64 || m.BlockCache.Size == 0 {
		t.Fatalf("%d rows were read, and %d bytes are in the cache", rows, m.BlockCache.Size)
	}
	memtables := int64(m.MemTable.Size + m.MemTable.ZombieSize) //nolint:gosec // few
	if m.BlockCache.Size+memtables > cache+2*memtable+slack {
		t.Errorf("%d bytes of blocks and %d of memtables are in memory, and the bound is %d", m.BlockCache.Size, memtables, cache+2*memtable)
	}
}
