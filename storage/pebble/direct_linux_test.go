//go:build linux && (amd64 || arm64)

package pebble

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// directFile makes a log that is written past the page cache.
func directFile(t *testing.T, path string) *directLog {
	t.Helper()
	fs, ok := overZeros(vfs.Default, filepath.Dir(path)).(zerosFS)
	if !ok {
		t.Skip("the file system does not write in place")
	}
	f, err := fs.Create(path, categoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := f.(*zerosLog).File.(*directLog)
	if !ok {
		_ = f.Close()
		t.Skip("the file system can't write past the page cache")
	}
	return d
}

// After a sync, whoever reads the file finds all that was written, and zeros.
func TestWhatWasSyncedIsInTheFile(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "000001.log")
	f := &zerosLog{File: directFile(t, path)}
	var want []byte
	for range 60 {
		for range rng.IntN(3) {
			p := make([]byte, rng.IntN([]int{10, pageSize, 3 * pageSize, 2*directBuffer + 1}[rng.IntN(4)]))
			for i := range p {
				p[i] = byte(rng.Uint32() | 1)
			}
			if n, err := f.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, p...)
		}
		if err := f.SyncData(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if rest := len(b) - len(want); !bytes.HasPrefix(b, want) || rest > zerosAhead || len(bytes.Trim(b[len(want):], "\x00")) > 0 {
			t.Fatalf("%d bytes were written, and %d are there", len(want), len(b))
		}
	}
	if _, err := f.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(b, append(want, "the end"...)) {
		t.Errorf("closing does not write what there is: %v", err)
	}
}

// Once a write has failed nothing is written, though the disk be well again: what a write has
// left of it nobody knows.
func TestAFailedWriteIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "000001.log")
	d := directFile(t, path)
	well := d.File
	broken, err := vfs.Default.Open(path) // for reading
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		on   vfs.File
		text string
	}{{well, "one"}, {broken, "two"}, {well, "three"}} {
		d.File = step.on
		_, _ = d.Write([]byte(step.text))
		if err := d.SyncData(); (err == nil) != (step.text == "one") {
			t.Errorf("%s: %v", step.text, err)
		}
	}
	if _, err := d.Write([]byte("four")); err == nil {
		t.Error("it goes on")
	}
	if err := d.Close(); err == nil {
		t.Error("it was closed as if nothing had happened")
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(bytes.TrimRight(b, "\x00"), []byte("one")) {
		t.Errorf("%.20q, %v", b, err)
	}
	_ = broken.Close()
}

// A file that can't be written past the page cache stays as it was.
func TestWhereItCanNotBeDirectNothingChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "000001.log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.Default.Open(path) // for reading
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if d := direct(f); d != f {
		t.Errorf("it is a %T", d)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_DIRECT != 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
}
