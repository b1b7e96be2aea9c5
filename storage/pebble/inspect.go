package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kalpahost/kalpa/storage"
)

// Advice that findings share.
const (
	restoreAdvice = "restore a backup: kalpa restore"
	cutAdvice     = "restore a backup, or go on without what is lost: remove the file " + witnessName + " in the folder, and start the host"
)

// illegibleWitness is no damage to what is stored: it costs the second look at it.
var illegibleWitness = storage.Finding{
	Severity: storage.Warning, About: witnessName,
	What: "is not what a host has written: what the files were when the last host ended can't be compared",
	Lost: "nothing that is stored; but if the end of a log was lost as well, nobody can tell",
	Do:   "look at what happens to files in the folder; the next host that opens it writes this one anew",
}

// Inspect looks at every file of a store that nobody has open, changes none of them,
// and tells of all that is wrong with them. It returns the store, open for reading,
// as far as it can be read; nil when it can't be, or when what says which files are its
// own is damaged: what would be read then is not the store, and what would be found to be
// wrong with it would lead to harm. An error says that it could not be looked at.
func Inspect(ctx context.Context, o Options, found func(storage.Finding)) (*Store, error) {
	o.ReadOnly, o.unwitnessed = true, true
	o.fill()
	f, err := openFolder(&o)
	if err != nil {
		if e, ok := errors.AsType[*storage.Error](err); ok && errors.Is(err, storage.ErrDamaged) {
			unreadable(e, found)
			return nil, nil
		}
		return nil, err
	}
	w, err := f.witness()
	astray := false
	if err == nil {
		if w.illegible {
			found(illegibleWitness)
		}
		astray, err = f.inspectFiles(w, found)
	}
	if err = errors.Join(err, f.close()); err != nil {
		return nil, err
	}
	if astray {
		return nil, nil
	}
	s, err := Open(o)
	if err != nil {
		if e, ok := errors.AsType[*storage.Error](err); ok && errors.Is(err, storage.ErrDamaged) {
			unreadable(e, found)
			return nil, nil
		}
		return nil, err
	}
	if s.backend.unnumbered {
		found(storage.Finding{
			Severity: storage.Damage, About: "the store", What: "the rows that say in which format it is, and how often it was opened, can't be read",
			Lost: "what the findings about tables and objects say; and no host starts without these rows", Do: restoreAdvice,
		})
	} else if boot := s.backend.boot - 1; boot < w.boot { // a store that is open for reading counts itself
		found(storage.Finding{
			Severity: storage.Damage, About: "the log",
			What: fmt.Sprintf("the store had been opened %d times, and its rows know of %d", w.boot, boot),
			Lost: fmt.Sprintf("all that was committed since the %s start", ordinal(boot+1)), Do: cutAdvice,
		})
	}
	if err := s.inspectTables(ctx, found); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func ordinal(n uint32) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// badTable is a line of what the engine says of a table that is gone, or is not of the
// size that the manifest has. There is a line for each.
var badTable = regexp.MustCompile(`L\d+: (\d+): (.+)`)

// unreadable tells why the engine can't open the store.
func unreadable(e *storage.Error, found func(storage.Finding)) {
	tables := badTable.FindAllStringSubmatch(e.Err.Error(), -1)
	for _, t := range tables {
		f := storage.Finding{
			Severity: storage.Damage, About: "the table " + t[1] + ".sst", What: t[2],
			Lost: "rows of the table, which has another size than it was written with; without it the store is not opened", Do: restoreAdvice,
		}
		if strings.Contains(t[2], "unknown to the objstorage provider") {
			f.What, f.Lost = "is gone", "the rows of the table, if the file can't be brought back; without it the store is not opened"
		}
		found(f)
	}
	if len(tables) > 0 {
		return
	}
	f := storage.Finding{Severity: storage.Damage, About: "the store", What: FirstLine(e.Err), Do: restoreAdvice}
	switch text := e.Err.Error(); {
	case strings.Contains(text, "the file "+markerName):
		f.About = markerName
		f.Lost = "nothing, if the file can be brought back; without it the store is not opened"
		f.Do = "copy the file from a backup, or from another store of this version: it says only that the folder is a store, and in which format"
	case strings.Contains(text, "manifest"):
		f.About = "the manifest"
		f.Lost = "everything, unless the file can be brought back: it says which tables are the store's, and without it none of their rows can be reached"
	case strings.Contains(text, "not pristine"):
		f.About = "the mark of the engine's format (marker.format-version)"
		f.Lost = "nothing, if the file can be brought back; without it the store is not opened"
	case strings.Contains(text, "WAL"), strings.Contains(text, "invalid chunk"):
		f.About = "the log"
		f.Lost = "what was committed from the damaged place on; the finding about the log's file says where that is"
	}
	found(f)
}

// inspectFiles compares all files that a witness names, and reads the logs. astray: one
// that says which files are the store's is not what it was.
func (f *folder) inspectFiles(w witness, found func(storage.Finding)) (astray bool, err error) {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return astray, f.fail(err)
	}
	for _, was := range w.files {
		what, err := f.difference(was, w.closed)
		if err != nil {
			return astray, f.fail(err)
		}
		if what == "" {
			continue
		}
		about := storage.Finding{Severity: storage.Damage, About: was.name, What: what, Do: cutAdvice}
		switch {
		case strings.HasSuffix(was.name, ".log"):
			about.Lost = "commits that were acknowledged and only in this log"
		default:
			astray = true
			about.Lost = "nothing, if the file can be brought back; else what it leads to: it says which files are the store's, so none of its rows were looked at"
			about.Do = restoreAdvice
		}
		found(about)
	}
	slices.Sort(names)
	for _, name := range names {
		if number, ok := logNumber(name); ok {
			if err := f.inspectLog(name, number, w.closed, found); err != nil {
				return astray, err
			}
		}
	}
	return astray, nil
}

func logNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil
}

// inspectLog reads a log to its end, or to where it can't be read.
func (f *folder) inspectLog(name string, number uint64, closed bool, found func(storage.Finding)) error {
	in, err := f.fs.Open(f.fs.PathJoin(f.dir, name))
	if err != nil {
		return f.fail(err)
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return f.fail(err)
	}
	size, err := beforeZeros(in, info.Size())
	if err != nil {
		return f.fail(err)
	}
	r := newReader(record.NewReader, in, number)
	for records := 0; ; {
		end := r.Offset()
		rec, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		switch {
		case err == nil:
			records++
			continue
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
			found(storage.Finding{
				Severity: storage.Damage, About: name,
				What: fmt.Sprintf("after %d records, at byte %d of %d, there are bytes that are no record, and behind them is proof that they were one", records, end, size),
				Lost: fmt.Sprintf("what was committed with the last %d bytes of this log, at most", size-end), Do: restoreAdvice,
			})
			return nil
		case errors.Is(err, record.ErrUnexpectedEOF):
			if size > end && !closed {
				found(storage.Finding{
					Severity: storage.Note, About: name,
					What: fmt.Sprintf("the log ends within a record, at byte %d of %d", end, size),
					Lost: "nothing that was acknowledged, if the host was killed or the machine lost power: that is how it ends then. If neither happened, the file is damaged, and what was committed last is lost",
				})
			}
			return nil
		default:
			return f.fail(err)
		}
	}
}

// beforeZeros is the size of a file without the zeros at its end, of which a log has those
// that were written ahead of it.
func beforeZeros(in io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 32<<10)
	for size > 0 {
		part := buf[:min(size, int64(len(buf)))]
		if _, err := in.ReadAt(part, size-int64(len(part))); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if rest := len(bytes.TrimRight(part, "\x00")); rest > 0 {
			return size - int64(len(part)-rest), nil
		}
		size -= int64(len(part))
	}
	return 0, nil
}

// inspectTables compares every block of every table with its checksum.
func (s *Store) inspectTables(ctx context.Context, found func(storage.Finding)) error {
	levels, err := s.db.SSTables()
	if err != nil {
		return err
	}
	whole := true
	seen := map[string]bool{}
	for _, level := range levels {
		for _, t := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			name := fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum))
			if seen[name] {
				continue
			}
			seen[name] = true
			s.tables.count++
			s.tables.bytes += int64(t.Size)
			err := s.inspectTable(ctx, name, t)
			if err == nil {
				continue
			}
			whole = false
			s.tables.damaged = append(s.tables.damaged, slices.Clone(t.Largest.UserKey))
			found(storage.Finding{
				Severity: storage.Damage, About: name, What: "a block of the table is not what was written: " + FirstLine(err),
				Lost: fmt.Sprintf("rows between %s and %s; the findings about objects say which", keyName(t.Smallest.UserKey), keyName(t.Largest.UserKey)), Do: restoreAdvice,
			})
		}
	}
	slices.SortFunc(s.tables.damaged, slices.Compare)
	if !whole {
		return nil
	}
	if err := s.db.CheckLevels(nil); err != nil {
		found(storage.Finding{Severity: storage.Damage, About: "the tables", What: "they do not agree with each other: " + FirstLine(err), Lost: "it can't be told", Do: restoreAdvice})
	}
	return nil
}

// FirstLine is what people can read of an error of the engine.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// keyName names a key for people: the object that it belongs to.
func keyName(k []byte) string {
	if id, err := storage.ObjectOf(k); err == nil {
		return "object " + id.String()
	}
	if at, id, err := storage.DecodeIndexKey(k); err == nil {
		return fmt.Sprintf("the alarm of %s at %s", id, at.Format("2006-01-02 15:04:05"))
	}
	if id, err := storage.DecodeFenceKey(k); err == nil {
		return "the epoch of " + id.String()
	}
	return fmt.Sprintf("key %q", k)
}

func (s *Store) inspectTable(ctx context.Context, name string, t pebble.SSTableInfo) error {
	file, err := s.folder.fs.Open(s.folder.fs.PathJoin(s.folder.dir, name))
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	o := sstable.ReaderOptions{Comparer: pebble.DefaultComparer, Filters: map[string]pebble.FilterPolicy{bloom.FilterPolicy(bloomBits).Name(): bloom.FilterPolicy(bloomBits)}}
	o.CacheOpts.FileNum = t.BackingSSTNum // its errors name it
	r, err := sstable.NewReader(ctx, readable, o)
	if err != nil {
		return err // it has closed the file
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// RawRow is a row as the engine has it.
type RawRow struct{ Key, Value []byte }

// Rows reads all rows of a store that Inspect has opened, in the order of their keys;
// both are valid until the next one. Where a block can't be read it goes on behind it:
// skipped is called with the last key that was read, or where reading was to go on,
// and proposes the place to go on from; nil: behind the damaged table.
func (s *Store) Rows(ctx context.Context, skipped func(last []byte, err error) (next []byte)) iter.Seq2[RawRow, error] {
	return func(yield func(RawRow, error) bool) {
		if err := s.begin(ctx, "rows", storage.ID{}, nil); err != nil {
			yield(RawRow{}, err)
			return
		}
		defer s.reads.leave()
		var from []byte
		for {
			last, err := s.rows(ctx, from, yield)
			if err == nil || ctx.Err() != nil {
				if err != nil {
					yield(RawRow{}, err)
				}
				return
			}
			at := last
			if string(from) > string(last) {
				at = from // not even the first could be read
			}
			next := s.past(string(at), skipped(at, err))
			if next == nil {
				return
			}
			from = next
		}
	}
}

// past is a place to go on from that is behind a key: the one proposed, or where a
// damaged table ends.
func (s *Store) past(key string, next []byte) []byte {
	if string(next) > key {
		return next
	}
	for _, end := range s.tables.damaged {
		if string(end) > key {
			return append(slices.Clone(end), 0)
		}
	}
	return nil
}

func (s *Store) rows(ctx context.Context, from []byte, yield func(RawRow, error) bool) (last []byte, err error) {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%ctxRows == 0 && ctx.Err() != nil {
			return last, ctx.Err()
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return last, err
		}
		last = append(last[:0], it.Key()...)
		if !yield(RawRow{it.Key(), v}, nil) {
			return last, nil
		}
	}
	return last, it.Error()
}

// Raw reads one row by its key; nil when it is not there.
func (s *Store) Raw(key []byte) ([]byte, error) { return s.backend.get(key) }

// NextFence is the object whose fence row comes first after an object's; false when
// there is none, or it can't be read.
func (s *Store) NextFence(after storage.ID) (id storage.ID, ok bool) {
	lower, upper := storage.FenceBounds(after)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return id, false
	}
	defer it.Close()
	if !it.First() {
		return id, false
	}
	id, err = storage.DecodeFenceKey(it.Key())
	return id, err == nil
}

// Tables is how many tables Inspect has read, and their bytes.
func (s *Store) Tables() (count int, bytes int64) { return s.tables.count, s.tables.bytes }

// Boot is the number of this boot.
func (s *Store) Boot() uint32 { return s.backend.boot }

// IsStore tells whether there is a store in a folder.
func IsStore(dir string) bool {
	_, err := os.Stat(vfs.Default.PathJoin(dir, markerName))
	return err == nil || errors.Is(err, fs.ErrPermission) // which opening it says
}
