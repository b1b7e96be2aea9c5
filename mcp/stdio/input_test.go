//go:build unix

package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestWhatAPipeHasNoRoomForIsWrittenAsItIsRead(t *testing.T) {
	r, in := newPipe(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // many times what a pipe holds
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result)
	go func() {
		n, err := in.write(t.Context(), want)
		wrote <- result{n, err}
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	if w := <-wrote; w.n != len(want) || w.err != nil {
		t.Errorf("wrote %d of %d bytes, %v", w.n, len(want), w.err)
	}
	if !bytes.Equal(got, want) {
		t.Error("what was read is not what was written")
	}
}

func TestAWriteThatIsLateSaysHowFarItCame(t *testing.T) {
	r, in := newPipe(t)
	late := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	big := make([]byte, 1<<20)
	n, err := in.write(late(), big)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(big) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	if n, err := in.write(late(), []byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full pipe has taken %d bytes, %v", n, err)
	}
	if _, err := io.ReadFull(r, big[:n]); err != nil {
		t.Fatal(err)
	}
	if n, err := in.write(t.Context(), []byte("next")); n != 4 || err != nil { // an old deadline means nothing to it
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

func TestAWriteFailsWhereNobodyReads(t *testing.T) {
	r, in := newPipe(t)
	r.Close()
	if n, err := in.write(t.Context(), []byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("no reader: wrote %d bytes, %v", n, err)
	}
	in.Close()
	if n, err := in.write(t.Context(), []byte("x")); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: wrote %d bytes, %v", n, err)
	}
}

func newPipe(t *testing.T) (*os.File, *inlet) {
	r, w, err := pipe(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, newInlet(w)
}
