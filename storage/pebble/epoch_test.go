package pebble_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// (a, I4) An epoch is never given out twice, whatever a power cut takes: ids of
// events are made of it. Nothing was written under these, so nothing of them is left.
func TestEpochsAreNeverGivenOutTwiceRuleA(t *testing.T) {
	for name, d := range map[string]storage.Durability{"sync": storage.Sync, "relaxed": storage.Relaxed} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			fs, last := vfs.NewCrashableMem(), uint64(0)
			for boot := range 4 {
				s, err := pebble.Open(pebble.Options{Dir: "a/data", FS: fs, Durability: d, Logger: silent,
					Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 20 {
					id := storage.ID{Class: "c", Name: fmt.Sprint(i % 3)}
					epoch, err := storage.Claim(ctx, s, id)
					if err != nil {
						t.Fatal(err)
					}
					if epoch <= last {
						t.Fatalf("boot %d: epoch %d follows %d", boot, epoch, last)
					}
					last = epoch
				}
				fs2 := fs.CrashClone(vfs.CrashCloneCfg{}) // nothing that is not synced survives
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				fs = fs2
			}
		})
	}
}
