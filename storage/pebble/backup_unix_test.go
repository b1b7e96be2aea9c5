//go:build unix

package pebble_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// load increments counters of some objects, two rows at a time, until stop is called.
type load struct {
	s     *pebble.Store
	acked [8]atomic.Uint64
	stop  chan struct{}
	ended sync.WaitGroup
}

func counterID(i int) storage.ID { return storage.ID{Class: "counter", Name: fmt.Sprint(i)} }

func startLoad(t *testing.T, s *pebble.Store) *load {
	l := &load{s: s, stop: make(chan struct{})}
	for i := range l.acked {
		epoch, err := storage.Claim(t.Context(), s, counterID(i))
		if err != nil {
			t.Fatal(err)
		}
		l.ended.Go(func() {
			padding := bytes.Repeat([]byte{byte(i)}, 10_000)
			for n := uint64(1); ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				v := binary.BigEndian.AppendUint64(nil, n)
				err := storage.Commit(context.Background(), s, &storage.Batch{ID: counterID(i), Epoch: epoch, Puts: []storage.Entry{{Key: "a", Value: v}, {Key: "b", Value: v}, {Key: "padding", Value: padding}}})
				if err != nil {
					t.Error(err)
					return
				}
				l.acked[i].Store(n)
			}
		})
	}
	return l
}

// now is what has been acknowledged of each.
func (l *load) now() (n [8]uint64) {
	for i := range l.acked {
		n[i] = l.acked[i].Load()
	}
	return n
}

func (l *load) end() { close(l.stop); l.ended.Wait() }

// A backup under load has all that was acknowledged before it began, and nothing of
// a commit without the rest of it; a restored store goes on with epochs of its own.
func TestABackupUnderLoadIsOneMoment(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, pebble.Options{Dir: filepath.Join(t.TempDir(), "data")})
	defer s.Close()
	l := startLoad(t, s)
	defer l.end()
	for round := range 4 {
		for l.now()[0] < uint64(round+1)*100 { // until there is something to be torn
			if t.Failed() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		before := l.now()
		var archive bytes.Buffer
		b, err := s.Backup(t.Context(), &archive)
		if err != nil {
			t.Fatal(err)
		}
		after := l.now()
		dir := t.TempDir()
		backup, data := filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
		if _, err := pebble.Unpack(&archive, backup); err != nil {
			t.Fatal(err)
		}
		if _, err := pebble.Restore(backup, data); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, pebble.Options{Dir: data})
		for i := range before {
			row := func(key string) uint64 {
				v, err := r.Get(t.Context(), counterID(i), key)
				if err != nil || len(v) != 8 {
					t.Fatalf("%v: %x, %v", counterID(i), v, err)
				}
				return binary.BigEndian.Uint64(v)
			}
			// One more may have been durable and not yet acknowledged.
			if n := row("a"); n < before[i] || n > after[i]+1 || n != row("b") {
				t.Errorf("%v: %d and %d, acknowledged were %d before the backup and %d after it", counterID(i), n, row("b"), before[i], after[i])
			}
		}
		epoch, err := storage.Claim(t.Context(), r, counterID(0))
		if boot, _ := storage.SplitEpoch(epoch); err != nil || boot <= b.Boot+100 {
			t.Errorf("an epoch of boot %d, after a backup at boot %d: %v", boot, b.Boot, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(last(t, s.Dir(), "kalpa-store")), "kalpa-checkpoint-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func backedUp(t *testing.T) (backup string) {
	t.Helper()
	s := mustOpen(t, pebble.Options{Dir: written(t, false)})
	defer s.Close()
	var archive bytes.Buffer
	if _, err := s.Backup(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	whole := archive.Bytes()
	backup = filepath.Join(t.TempDir(), "backup")
	for _, n := range []int{0, 100, len(whole) / 2, len(whole) - 1500} {
		if _, err := pebble.Unpack(bytes.NewReader(whole[:n]), backup); err == nil {
			t.Errorf("a backup of which %d of %d bytes arrived is taken for one", n, len(whole))
		}
		if entries, err := os.ReadDir(filepath.Dir(backup)); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	}
	if _, err := pebble.Unpack(bytes.NewReader(whole), backup); err != nil {
		t.Fatal(err)
	}
	return backup
}

// What is damaged, incomplete or would overwrite something is not restored, and
// nothing is left behind.
func TestOnlyAWholeBackupIsRestored(t *testing.T) {
	t.Parallel()
	backup := backedUp(t)
	refuse := func(what, text string, data string) {
		t.Helper()
		if _, err := pebble.Restore(backup, data); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	where := t.TempDir()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuse("a folder that is not empty", `not empty: it holds "mine"`, full)
	refuse("the backup itself", "not empty", backup)
	if _, err := pebble.Open(pebble.Options{Dir: backup, Logger: silent}); !errors.Is(err, storage.ErrForeign) || !strings.Contains(err.Error(), "kalpa restore") {
		t.Errorf("a backup is opened as a store: %v", err)
	}
	if _, err := pebble.Restore(backup, filepath.Join(where, "fine")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(where, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := pebble.Restore(backup, filepath.Join(where, "there")); err != nil {
		t.Errorf("into an empty folder: %v", err)
	}
	damage(t, last(t, backup, "*.sst"), flip)
	refuse("a flipped bit", "checksum differs", filepath.Join(where, "x"))
	damage(t, last(t, backup, "*.sst"), nil)
	refuse("a missing file", "is gone", filepath.Join(where, "x"))
	damage(t, last(t, backup, "kalpa-backup"), cut)
	refuse("a cut list", "not a whole backup", filepath.Join(where, "x"))
	damage(t, last(t, backup, "kalpa-backup"), nil)
	refuse("no list", "not a whole backup", filepath.Join(where, "x"))
	if entries, err := os.ReadDir(where); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Who looks at a store changes nothing of it.
func TestReadingLeavesAStoreAsItWas(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		dir := written(t, killed)
		before := contents(t, dir)
		s := mustOpen(t, pebble.Options{Dir: dir, ReadOnly: true})
		if v, err := s.Get(t.Context(), storage.ID{Class: "c", Name: "n2-099"}, "k"); err != nil || len(v) != 300 {
			t.Errorf("%d bytes, %v", len(v), err)
		}
		if classes, err := s.Classes(t.Context()); err != nil || len(classes) != 1 || classes[0] != "c" {
			t.Errorf("classes %v, %v", classes, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if after := contents(t, dir); after != before {
			t.Errorf("killed %v: before\n%s\nafter\n%s", killed, before, after)
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := pebble.Open(pebble.Options{Dir: none, ReadOnly: true, Logger: silent}); !errors.Is(err, storage.ErrNoStore) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("the folder was made")
	}
}

// contents is a folder's files with their sizes, without the note of who holds it.
func contents(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for _, e := range entries {
		if e.Name() == "kalpa-holder" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&s, "%s %d %x\n", e.Name(), len(b), b[:min(len(b), 8)])
	}
	return s.String()
}

// Who is kept out is told how to reach who is in.
func TestTheHolderSaysHowItIsReached(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := mustOpen(t, pebble.Options{Dir: dir, Contact: "127.0.0.1:9090"})
	defer s.Close()
	if h := pebble.ReadHolder(dir); h.PID != os.Getpid() || h.Contact != "127.0.0.1:9090" {
		t.Errorf("%+v", h)
	}
	_, err := pebble.Open(pebble.Options{Dir: dir, ReadOnly: true, Logger: silent})
	if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d (", os.Getpid())) {
		t.Error(err)
	}
}

// While the log is copied nothing is committed: a log file that is used again has old
// bytes behind its end, and what a writer puts there in the middle of a copy makes the
// copy a damaged one.
func TestNothingIsCommittedWhileTheLogIsCopied(t *testing.T) {
	t.Parallel()
	var copying atomic.Bool
	var s *pebble.Store
	var epoch uint64
	var committed sync.WaitGroup
	looked := atomic.Int64{}
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind != errorfs.OpFileRead && op.Kind != errorfs.OpFileReadAt) || !strings.HasSuffix(op.Path, ".log") || strings.Contains(op.Path, "checkpoint") || !copying.CompareAndSwap(true, false) {
			return nil
		}
		looked.Add(1)
		done := make(chan error, 1)
		committed.Add(1)
		s.Submit(&storage.Batch{ID: counterID(0), Epoch: epoch, Puts: []storage.Entry{{Key: "late", Value: []byte("1")}}}, func(err error) { done <- err; committed.Done() })
		select {
		case err := <-done:
			t.Errorf("a commit has gone through in the middle of a copy: %v", err)
		case <-time.After(100 * time.Millisecond): // it waits; who takes the pause out sees it at once
		}
		return nil
	}))
	s = mustOpen(t, pebble.Options{Dir: "data", FS: fs})
	defer s.Close()
	var err error
	if epoch, err = storage.Claim(t.Context(), s, counterID(0)); err != nil {
		t.Fatal(err)
	}
	if err := storage.Commit(t.Context(), s, &storage.Batch{ID: counterID(0), Epoch: epoch, Puts: []storage.Entry{{Key: "early", Value: []byte("1")}}}); err != nil {
		t.Fatal(err)
	}
	copying.Store(true)
	if _, err := s.Backup(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	committed.Wait() // afterwards it goes on
	if looked.Load() != 1 {
		t.Error("no log was copied")
	}
}
