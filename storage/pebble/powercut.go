package pebble

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// relaxedName is there while a store is open with storage.Relaxed, and stays
// when it was not closed. It says that the end of the log may be torn.
const relaxedName = "kalpa-relaxed"

// A log that was not synced can have holes after a power cut: the system writes
// its blocks in any order. Pebble takes a hole for damage, because the blocks
// after it claim that the log was synced up to there, as relaxedFS made it
// believe; and refuses to open the store. But losing the end of the history is
// what storage.Relaxed means. So the log is cut off before the hole.
//
// Only the last log can be torn: the one before it was synced when it was closed.

// openTorn opens a store whose log may be torn.
func openTorn(f *folder, opts *pebble.Options, warn func(cut string, err error)) (*pebble.DB, error) {
	db, err := pebble.Open(f.dir, opts)
	if err == nil || !pebble.IsCorruptionError(err) || !f.has(relaxedName) {
		return db, err
	}
	cut, cutErr := cutLog(f)
	if cutErr != nil {
		return nil, errors.Join(err, cutErr)
	}
	if cut == "" {
		return nil, err
	}
	warn(cut, err)
	return pebble.Open(f.dir, opts)
}

// cutLog removes from the last log what follows its last readable record, and
// says what it did; nothing, if the log can be read to its end.
func cutLog(f *folder) (cut string, err error) {
	name, number, err := lastLog(f)
	if err != nil || name == "" {
		return "", err
	}
	path := f.fs.PathJoin(f.dir, name)
	in, err := f.fs.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	end, err := readable(in, number)
	if err != nil || end == whole {
		return "", err
	}
	if err := copyStart(f, path, in, end); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after %d bytes", name, end), nil
}

func lastLog(f *folder) (name string, number uint64, err error) {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return "", 0, err
	}
	for _, n := range names {
		digits, ok := strings.CutSuffix(n, ".log")
		if !ok {
			continue
		}
		if v, err := strconv.ParseUint(digits, 10, 64); err == nil && v >= number {
			name, number = n, v
		}
	}
	return name, number, nil
}

const whole = -1

// readable is the length of the log's beginning before a hole; whole, if there
// is none.
func readable(log io.Reader, number uint64) (int64, error) {
	r := newReader(record.NewReader, log, number)
	for {
		end := r.Offset()
		rec, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		switch {
		case err == nil:
		case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
			return end, nil
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
			return whole, nil // an end that Pebble accepts
		default:
			return 0, err
		}
	}
}

// newReader calls record.NewReader, whose second parameter has a type that can't
// be named outside of Pebble.
func newReader[N ~uint64](f func(io.Reader, N) *record.Reader, log io.Reader, number uint64) *record.Reader {
	return f(log, N(number))
}

// copyStart replaces a file by its beginning, durably.
func copyStart(f *folder, path string, in vfs.File, size int64) error {
	out, err := f.fs.Create(path+".cut", categoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, 0, size))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := f.fs.Rename(path+".cut", path); err != nil {
		return err
	}
	return syncDir(f.fs, f.dir)
}
