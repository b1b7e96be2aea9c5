//go:build unix

package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

var errInjected = errors.New("injected")

// faults fails operations of one kind on files of one kind, from when it is on.
type faults struct {
	on     atomic.Bool
	kinds  []errorfs.OpKind
	suffix string
	hits   atomic.Int64
}

func (f *faults) inject(op errorfs.Op) error {
	if !f.on.Load() || !strings.HasSuffix(op.Path, f.suffix) || !slices.Contains(f.kinds, op.Kind) {
		return nil
	}
	f.hits.Add(1)
	return errInjected
}

var (
	syncs  = []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	writes = []errorfs.OpKind{errorfs.OpFileWrite}
)

// A failed fsync or write of the log is told to Fatal, nothing is acknowledged,
// and nothing after it: neither while the disk is broken nor when it has healed.
func TestAFailedLogIsFatalAndAcknowledgesNothing(t *testing.T) {
	for name, kinds := range map[string][]errorfs.OpKind{"fsync": syncs, "write": writes} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			f := &faults{kinds: kinds, suffix: ".log"}
			var mu sync.Mutex
			var fatal []error
			s := mustOpen(t, pebble.Options{
				FS: errorfs.Wrap(disk, errorfs.InjectorFunc(f.inject)),
				Fatal: func(err error) {
					mu.Lock()
					defer mu.Unlock()
					fatal = append(fatal, err)
				},
			})
			h := newHistory(1)
			c := h.objects[0]
			epoch, err := storage.Claim(context.Background(), s, c.id)
			if err != nil {
				t.Fatal(err)
			}
			for n := range int64(5) {
				if err := storage.Commit(context.Background(), s, c.batch(epoch, n+1, 10)); err != nil {
					t.Fatal(err)
				}
			}
			p := h.now()
			p.acknowledged[0] = 5
			c.submitted.Store(15)
			f.on.Store(true)
			outcomes := make(chan error, 10)
			for n := range int64(10) {
				s.Submit(c.batch(epoch, n+6, 10), func(err error) { outcomes <- err })
				if n == 4 {
					if err := <-outcomes; !errors.Is(err, errInjected) {
						t.Errorf("batch 6: %v", err)
					}
					f.on.Store(false) // healed: an fsync that failed must not be tried again
				}
			}
			for range 9 {
				if err := <-outcomes; !errors.Is(err, errInjected) {
					t.Errorf("a batch after the failure: %v", err)
				}
			}
			if _, err := storage.Claim(context.Background(), s, storage.ID{Class: "c", Name: "n"}); !errors.Is(err, errInjected) {
				t.Errorf("a claim after the failure: %v", err)
			}
			if err := s.Close(); !errors.Is(err, errInjected) {
				t.Errorf("close: %v", err)
			}
			var e *storage.Error
			if len(fatal) != 1 || !errors.Is(fatal[0], errInjected) || !errors.As(fatal[0], &e) || e.Path != "data" {
				t.Errorf("fatal: %v", fatal)
			}
			if f.hits.Load() == 0 {
				t.Error("nothing was injected")
			}
			// The process is dead now; the disk has what it synced.
			r := mustOpen(t, pebble.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
			defer r.Close()
			if n := h.check(t, r, p, true); n != 5 {
				t.Errorf("%d turns are on the disk, and 5 were synced", n)
			}
		})
	}
}

// A relaxed store does not sync its log while it writes to it, and does before it
// is closed.
func TestARelaxedLogIsSyncedOnlyWhenItIsClosed(t *testing.T) {
	f := &faults{kinds: syncs, suffix: ".log"}
	s := mustOpen(t, pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(f.inject)), Durability: storage.Relaxed})
	id := storage.ID{Class: "c", Name: "n"}
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	f.on.Store(true)
	for range 10 {
		if err := storage.Commit(context.Background(), s, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: "k"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.hits.Load(); n != 0 {
		t.Errorf("the log was synced %d times", n)
	}
	if err := s.Close(); !errors.Is(err, errInjected) || f.hits.Load() == 0 {
		t.Errorf("close: %v", err)
	}
}

// failForEver is the child of TestAFailedDiskEndsTheProcess.
func failForEver(dir string) error {
	f := &faults{kinds: syncs, suffix: ".log"}
	s, err := pebble.Open(pebble.Options{
		Dir: dir, FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(f.inject)),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	id := storage.ID{Class: "c", Name: "n"}
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		return err
	}
	f.on.Store(true)
	if err := storage.Commit(context.Background(), s, &storage.Batch{ID: id, Epoch: epoch}); err == nil {
		fmt.Println("acknowledged after a failed fsync")
	}
	return errors.New("the process goes on")
}

// Whatever the disk refuses while a store is opened, Open returns an error that
// names the folder, and the folder opens once the disk is well.
func TestOpenFailsCleanlyAtEveryOperation(t *testing.T) {
	for i := int64(1); ; i++ {
		disk := vfs.NewCrashableMem()
		var n atomic.Int64
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && n.Add(1) == i {
				return &os.PathError{Op: "write", Path: op.Path, Err: syscall.EROFS}
			}
			return nil
		}))
		s, err := pebble.Open(pebble.Options{Dir: "a/data", FS: fs, Logger: silent, Fatal: func(err error) { t.Errorf("operation %d: fatal: %v", i, err) }})
		operations := n.Swap(i) // what follows is not Open's
		var e *storage.Error
		switch {
		case err == nil && operations < i:
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if i < 20 {
				t.Errorf("only %d operations", i)
			}
			return
		case err == nil:
			// The operation was one that did not matter, as closing what was read.
			if err := s.Close(); err != nil {
				t.Errorf("operation %d: close: %v", i, err)
			}
		case !errors.Is(err, storage.ErrReadOnly) || !errors.As(err, &e) || e.Path != "a/data":
			t.Errorf("operation %d: %v", i, err)
		}
		// The next process: a clone, since an engine that gave up keeps its lock.
		disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
		r, err := pebble.Open(pebble.Options{Dir: "a/data", FS: disk, Logger: silent})
		if err != nil {
			t.Fatalf("after a failure of operation %d: %v", i, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
