//go:build unix

package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kalpahost/kalpa/storage"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// written makes a store with rows in tables and in the log, opened three times. Of a
// killed one the files are as its process has left them.
func written(t *testing.T, killed bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for boot := range 3 {
		s := mustOpen(t, pebble.Options{Dir: dir})
		for i := range 100 {
			commitRow(t, s, storage.ID{Class: "c", Name: fmt.Sprintf("n%d-%03d", boot, i)}, "k", strings.Repeat("x", 300))
		}
		if killed && boot == 2 {
			left := filepath.Join(t.TempDir(), "killed")
			if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return left
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func commitRow(t *testing.T, s storage.Store, id storage.ID, key, value string) {
	t.Helper()
	epoch, err := storage.Claim(context.Background(), s, id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release(id, epoch)
	if err := storage.Commit(context.Background(), s, &storage.Batch{ID: id, Epoch: epoch, Puts: []storage.Entry{{Key: key, Value: []byte(value)}}}); err != nil {
		t.Fatal(err)
	}
}

// last is the last file in a folder of a pattern.
func last(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no file %s in %s: %v", pattern, dir, err)
	}
	return found[len(found)-1]
}

// The kinds of damage.
func cut(b []byte) []byte  { return b[:len(b)/2] }
func empty([]byte) []byte  { return nil }
func flip(b []byte) []byte { b[len(b)/2] ^= 0x40; return b }
func noise(b []byte) []byte {
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func damage(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	if how == nil {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := bytes.TrimRight(b, "\x00") // behind it are the zeros that were written ahead
	if d := how(written); len(d) < len(written) {
		b = d
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A store with files that are not what was written is refused, and says so, with
// what to do; and it is refused again when it is tried again.
func TestADamagedStoreIsNotOpened(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		how           func([]byte) []byte
		killed        bool
		text          string
	}{
		{"a manifest that was cut", "MANIFEST-*", cut, false, "bytes, and had "},
		{"a manifest that was cut, after a kill", "MANIFEST-*", cut, true, "MANIFEST-"},
		{"an empty manifest, after a kill", "MANIFEST-*", empty, true, "MANIFEST-"},
		{"a flipped bit in the manifest", "MANIFEST-*", flip, false, "bytes in it have changed"},
		{"a flipped bit in the manifest, after a kill", "MANIFEST-*", flip, true, "MANIFEST-"},
		{"no manifest", "MANIFEST-*", nil, false, "is gone"},
		{"no manifest, after a kill", "MANIFEST-*", nil, true, "is gone"},
		{"nothing that names the manifest", "marker.manifest*", nil, false, "is gone"},
		{"nothing that names the manifest, after a kill", "marker.manifest*", nil, true, "is gone"},
		{"no mark of the store", "kalpa-store", nil, false, "the file kalpa-store is gone"},
		{"no mark of the store, after a kill", "kalpa-store", nil, true, "the file kalpa-store is gone"},
		{"no mark of the engine's format, after a kill", "marker.format*", nil, true, "not pristine"},
		{"a table that is gone", "*.sst", nil, false, "unknown to the objstorage"},
		{"a table that was cut, after a kill", "*.sst", cut, true, "size mismatch"},
		{"a flipped bit in the log", "*.log", flip, false, "bytes in it have changed"},
		{"a flipped bit in the log, after a kill", "*.log", flip, true, "invalid chunk"},
		{"a log of random bytes", "*.log", noise, false, "bytes in it have changed"},
		{"a log of random bytes, after a kill", "*.log", noise, true, "has lost what was acknowledged"},
		{"a log that is gone", "*.log", nil, false, "is gone"},
		{"a log that is gone, after a kill", "*.log", nil, true, "has lost what was acknowledged"},
		{"an empty log, after a kill", "*.log", empty, true, "has lost what was acknowledged"},
		{"a log that was cut", "*.log", cut, false, "bytes, and had "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := written(t, c.killed)
			damage(t, last(t, dir, c.pattern), c.how)
			for range 2 {
				_, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent})
				e, ok := errors.AsType[*storage.Error](err)
				if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), c.text) || !ok || e.Hint == "" {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// Without the witness, as after its removal on purpose, tables are enough to know that there
// was a manifest: a start that made another would delete them.
func TestTablesThatNothingNamesAreNotDeleted(t *testing.T) {
	dir := written(t, true)
	damage(t, filepath.Join(dir, "kalpa-witness"), nil)
	damage(t, last(t, dir, "marker.manifest*"), nil)
	tables := last(t, dir, "*.sst")
	if _, err := pebble.Open(pebble.Options{Dir: dir, Logger: silent}); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(tables); err != nil {
		t.Error(err)
	}
}

// What a crash leaves is no damage.
func TestAStoreThatWasNotClosedIsOpened(t *testing.T) {
	for name, tear := range map[string]func([]byte) []byte{ // the last record
		"cut off":          func(b []byte) []byte { return b[:len(b)-50] },
		"over zeros":       func(b []byte) []byte { clear(b[len(b)-50:]); return b },
		"over another log": func(b []byte) []byte { noise(b[len(b)-50:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := written(t, true)
			damage(t, last(t, dir, "*.log"), tear)
			s := mustOpen(t, pebble.Options{Dir: dir})
			defer s.Close()
			if v, err := s.Get(t.Context(), storage.ID{Class: "c", Name: "n2-098"}, "k"); err != nil || len(v) != 300 {
				t.Errorf("%d bytes, %v", len(v), err)
			}
		})
	}
}

// What is told of a log does not count the zeros that were written ahead of it.
func TestZerosBehindALogAreNoPartOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how  func([]byte) []byte
		what string
	}{
		"whole":   {func(b []byte) []byte { return b }, ""},
		"torn":    {func(b []byte) []byte { clear(b[len(b)-50:]); return b }, "ends within a record"},
		"damaged": {flip, "behind them is proof"},
	} {
		dir := written(t, true)
		log := last(t, dir, "*.log")
		damage(t, log, c.how)
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		size := len(bytes.TrimRight(b, "\x00"))
		if len(b)-size < 1000 {
			t.Fatalf("%s: %d bytes, of which %d were written", name, len(b), size)
		}
		var told []storage.Finding
		s, err := pebble.Inspect(t.Context(), pebble.Options{Dir: dir, Logger: silent}, func(f storage.Finding) {
			if strings.HasSuffix(f.About, ".log") {
				told = append(told, f)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if c.what == "" && len(told) == 0 {
			continue
		}
		if len(told) != 1 || !strings.Contains(told[0].What, c.what) || !strings.Contains(told[0].What, fmt.Sprintf(" of %d", size)) {
			t.Errorf("%s, of %d bytes: %+v", name, size, told)
		}
	}
}
