//go:build unix

package pebble_test

import (
	"bytes"
	"context"
	"math/rand/v2"
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

// cuts are the disks that power cuts have left, each with what was acknowledged then.
type cuts struct {
	sync.Mutex
	*history
	disk    *vfs.MemFS
	rng     *rand.Rand
	zeroing bool // zeros were written and not synced
	left    []*vfs.MemFS
	points  []point
}

// inject cuts the power before zeros are written, and when they are and were not synced.
func (c *cuts) inject(op errorfs.Op) error {
	if !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	c.Lock()
	defer c.Unlock()
	now := op.Kind == errorfs.OpFileWriteAt
	switch {
	case now:
		c.zeroing = true
	case c.zeroing && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSyncData):
		now = true
		c.zeroing = op.Kind == errorfs.OpFileWrite
	}
	if !now || c.history == nil {
		return nil
	}
	for _, unsynced := range []int{0, 1 + c.rng.IntN(99), 100} {
		p := c.now() // before the disk is looked at
		c.left = append(c.left, c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: c.rng}))
		c.points = append(c.points, p)
	}
	return nil
}

// A power cut while zeros are written ahead of the log takes nothing that was acknowledged.
func TestAPowerCutWhileZerosAreWritten(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &cuts{disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 0))}
	fs := errorfs.Wrap(c.disk, errorfs.InjectorFunc(c.inject))
	h := newHistory(4)
	h.begin(t, pebble.Options{FS: fs}, seed)
	c.Lock()
	c.history = h
	c.Unlock()
	s := mustOpen(t, pebble.Options{FS: fs})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.run(ctx, t, s, seed)
	}()
	h.await(t, h.total()+250)
	cancel()
	<-ended
	c.Lock()
	c.history = nil
	c.Unlock()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(c.left) < 4*3 {
		t.Errorf("the power was cut %d times", len(c.left))
	}
	for i, disk := range c.left {
		r := mustOpen(t, pebble.Options{FS: disk})
		h.check(t, r, c.points[i], true)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A log ends in zeros, as many as were written at a time at most.
func TestALogIsWrittenOverZeros(t *testing.T) {
	t.Parallel()
	for d, want := range map[storage.Durability]bool{storage.Sync: true, storage.Relaxed: false} {
		fs := vfs.NewMem()
		s := mustOpen(t, pebble.Options{FS: fs, Durability: d})
		commitRow(t, s, storage.ID{Class: "c", Name: "n"}, "k", strings.Repeat("x", 1000))
		b := theLog(t, fs)
		written := len(bytes.TrimRight(b, "\x00"))
		if ahead := len(b) - written; written < 1000 || ahead > pebble.ZerosAhead || (ahead > pebble.ZerosAhead/2) != want {
			t.Errorf("%v: %d bytes and %d zeros", d, written, ahead)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// theLog is what is in the last log of a store in "data".
func theLog(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	log := ""
	for _, n := range names {
		if strings.HasSuffix(n, ".log") && n > log {
			log = n
		}
	}
	f, err := fs.Open("data/" + log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A disk without room for zeros, or that can't write them, is none that has failed.
func TestALogDoesWithoutZeros(t *testing.T) {
	t.Parallel()
	for _, kind := range []errorfs.OpKind{errorfs.OpFilePreallocate, errorfs.OpFileWriteAt} {
		var zeros atomic.Int64
		var tries sync.Map // by log
		disk := vfs.NewCrashableMem()
		s := mustOpen(t, pebble.Options{FS: errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch {
			case !strings.HasSuffix(op.Path, ".log"):
			case op.Kind == kind:
				if _, again := tries.LoadOrStore(op.Path, true); again {
					t.Errorf("%v: %s was tried again", kind, op.Path)
				}
				return syscall.ENOSPC
			case op.Kind == errorfs.OpFileWriteAt:
				zeros.Add(1)
			}
			return nil
		}))})
		commitRow(t, s, storage.ID{Class: "c", Name: "n"}, "k", strings.Repeat("x", 2*pebble.ZerosAhead))
		if z := zeros.Load(); z != 0 {
			t.Errorf("%v: zeros were written %d times", kind, z)
		}
		r := mustOpen(t, pebble.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
		if v, err := r.Get(t.Context(), storage.ID{Class: "c", Name: "n"}, "k"); err != nil || len(v) != 2*pebble.ZerosAhead {
			t.Errorf("%d bytes, %v", len(v), err)
		}
		for _, s := range []*pebble.Store{s, r} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
