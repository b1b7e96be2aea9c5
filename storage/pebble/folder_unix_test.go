//go:build unix

package pebble_test

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// wantRefusal checks an error of Open: its kind, the folder, the words, a hint.
func wantRefusal(t *testing.T, err, kind error, dir string, words ...string) {
	t.Helper()
	var e *storage.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Fatalf("open: %v, want %v", err, kind)
	}
	if !strings.HasPrefix(e.Path, dir) || e.Hint == "" {
		t.Errorf("path %q, hint %q; want the folder %q and a hint", e.Path, e.Hint, dir)
	}
	for _, w := range append(words, dir) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// snapshot is everything in a folder: names, contents, times.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%v %x", info.ModTime(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same leaves out Pebble's lock file: taking a lock opens it for writing.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, m := range []map[string]string{before, after} {
		maps.DeleteFunc(m, func(path, _ string) bool { return filepath.Base(path) == "LOCK" })
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the folder was touched (-before +after):\n%s", diff)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestANewFolderIsMadeWithItsParents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "data")
	for range 2 {
		s := mustOpen(t, pebble.Options{Dir: dir})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v, want 0700", info.Mode(), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kalpa-store"))
	if err != nil || !strings.Contains(string(text), "\nformat 1\n") {
		t.Errorf("the marker says %q, %v", text, err)
	}
	if _, err := pebble.Open(pebble.Options{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no folder at all: %v", err)
	}
}

func TestAnEmptyOrHalfMadeFolderIsTaken(t *testing.T) {
	for name, files := range map[string][]string{
		"empty": nil, "locked once": {"LOCK"}, "half a marker": {"LOCK", "kalpa-store.new"},
		"a marker and nothing else": {"LOCK", "kalpa-store"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range files {
				text := ""
				if f == "kalpa-store" {
					text = "format 1\n"
				}
				write(t, filepath.Join(dir, f), text)
			}
			if err := mustOpen(t, pebble.Options{Dir: dir}).Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAForeignFolderIsNotTouched(t *testing.T) {
	for name, file := range map[string]string{"a file": "notes.txt", "a hidden one": ".git/config", "another engine's": "CURRENT"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, file), "mine")
			before := snapshot(t, dir)
			_, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
			wantRefusal(t, err, storage.ErrForeign, dir, strings.Split(file, "/")[0])
			after := snapshot(t, dir)
			if _, ok := after[filepath.Join(dir, "LOCK")]; ok {
				t.Error("a lock file was made")
			}
			same(t, before, after)
		})
	}
}

func TestAFileInPlaceOfAFolderIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	write(t, file, "mine")
	before := snapshot(t, filepath.Dir(file))
	_, err := pebble.Open(pebble.Options{Dir: file, Logger: silent})
	wantRefusal(t, err, storage.ErrForeign, file, "it is a file")
	_, err = pebble.Open(pebble.Options{Dir: filepath.Join(file, "below"), Logger: silent})
	wantRefusal(t, err, storage.ErrForeign, file, "not a directory")
	same(t, before, snapshot(t, filepath.Dir(file)))
}

func TestANewerFormatIsNotTouched(t *testing.T) {
	for name, spoil := range map[string]struct{ file, text, word string }{
		"the store's":  {"kalpa-store", "anything\nformat 2\nmore to come\n", "format 2, and this kalpa knows 1"},
		"the engine's": {"marker.format-version.000099.999", "", "999"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := mustOpen(t, pebble.Options{Dir: dir}).Close(); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, spoil.file), spoil.text)
			before := snapshot(t, dir)
			_, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
			wantRefusal(t, err, storage.ErrNewerFormat, dir, spoil.word)
			same(t, before, snapshot(t, dir))
		})
	}
}

func TestAMarkerThatCantBeReadIsRefused(t *testing.T) {
	for _, text := range []string{"", "format\n", "format one\n", "format 0\n", "kalpa 1\n"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "kalpa-store"), text)
		before := snapshot(t, dir)
		_, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
		wantRefusal(t, err, storage.ErrForeign, dir, "kalpa-store")
		same(t, before, snapshot(t, dir))
	}
}

func TestAFolderThatCantBeWrittenIsRefused(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		for _, state := range []string{"new", "empty", "a store"} {
			t.Run(errno.Error()+"/"+state, func(t *testing.T) {
				disk := vfs.NewMem()
				switch state {
				case "empty":
					if err := disk.MkdirAll("/data", 0o700); err != nil {
						t.Fatal(err)
					}
				case "a store":
					if err := mustOpen(t, pebble.Options{Dir: "/data", FS: disk}).Close(); err != nil {
						t.Fatal(err)
					}
				}
				fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
						return &os.PathError{Op: "open", Path: op.Path, Err: errno}
					}
					return nil
				}))
				before := disk.String()
				_, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, Logger: silent})
				wantRefusal(t, err, storage.ErrReadOnly, "/data", errno.Error())
				if after := disk.String(); after != before {
					t.Errorf("the folder was touched:\n%s", after)
				}
			})
		}
	}
}

func TestANewerKeyLayoutIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	if err := mustOpen(t, pebble.Options{Dir: "/data", FS: fs}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := engine.Open("/data", &engine.Options{FS: fs, FormatMajorVersion: engine.FormatNewest, Logger: engine.DefaultLogger})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set(storage.FormatKey, []byte{0, 0, 0, 2}, engine.Sync); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), fs.Remove("/data/kalpa-witness")); err != nil {
		t.Fatal(err)
	}
	_, err = pebble.Open(pebble.Options{Dir: "/data", FS: fs, Logger: silent})
	wantRefusal(t, err, storage.ErrNewerFormat, "/data", "key layout 2")
}

func TestANewStoreIsSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := mustOpen(t, pebble.Options{Dir: dir})
	defer s.Close()
	m, err := s.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if m.MemTable.Size > 1<<20 || m.BlockCache.Size > 1<<20 {
		t.Errorf("memtables of %d bytes, a cache of %d: they should grow with use", m.MemTable.Size, m.BlockCache.Size)
	}
	blocks := int64(0)
	err = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return err
		}
		blocks += st.Blocks
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KB on disk", blocks/2)
	if blocks*512 > 128<<20 {
		t.Errorf("an empty store takes %d MB of disk", blocks/2048)
	}
}
