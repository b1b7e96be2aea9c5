package pebble_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/internal/seams"
	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// A slow disk makes each commit that nobody shares an fsync with at least as slow.
func TestASlowDiskIsWaitedFor(t *testing.T) {
	const ms, commits = 20, 3
	s := mustOpen(t, pebble.Options{FS: vfs.NewMem(), Committer: storage.CommitterOptions{Seams: seams.Storage{SlowSync: ms}}})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	id := storage.ID{Class: "c", Name: "n"}
	epoch, err := storage.Claim(t.Context(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range commits {
		if err := storage.Commit(t.Context(), s, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < commits*ms*time.Millisecond {
		t.Errorf("%d commits took %v", commits, took)
	}
}
