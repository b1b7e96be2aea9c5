package pebble

import (
	"bytes"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log that is written over another one needs no zeros where that one was written.
func TestALogOverAnotherIsNotZeroed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	old, err := mem.Create("1.log", categoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = old.Write(bytes.Repeat([]byte("x"), zerosAhead))
	if err != nil {
		t.Fatal(err)
	}
	f, err := overZeros(mem, ".").ReuseForWrite("1.log", "2.log", categoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range []int{zerosAhead, 2 * zerosAhead} {
		if _, err := f.Write(bytes.Repeat([]byte("y"), []int{10, zerosAhead}[at])); err != nil {
			t.Fatal(err)
		}
		r, err := mem.Open("2.log")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || len(b) != want || at == 0 && bytes.Count(b, []byte("x")) != zerosAhead-10 {
			t.Errorf("%d bytes are there, %v", len(b), err)
		}
	}
}
