package pebble

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
)

// begin is the common head of the reads. If it returns nil, s.reads.leave must
// follow.
func (s *Store) begin(ctx context.Context, op string, id storage.ID, invalid error) error {
	err := cmp.Or(ctx.Err(), invalid)
	if err == nil && !s.reads.enter() {
		err = storage.ErrClosed
	}
	return failed(op, id, err)
}

func failed(op string, id storage.ID, err error) error {
	if err == nil {
		return nil
	}
	return &storage.Error{Op: op, ID: id, Err: legible{err}}
}

// Get implements storage.Store.
func (s *Store) Get(ctx context.Context, id storage.ID, key string) ([]byte, error) {
	if err := s.begin(ctx, "get", id, cmp.Or(id.Validate(), storage.ValidateKey(key))); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	var buf [192]byte
	v, err := s.backend.get(storage.AppendRowKey(buf[:0], id, key))
	return v, failed("get", id, err)
}

// Alarm implements storage.Store.
func (s *Store) Alarm(ctx context.Context, id storage.ID) (storage.Alarm, error) {
	if err := s.begin(ctx, "alarm", id, id.Validate()); err != nil {
		return storage.Alarm{}, err
	}
	defer s.reads.leave()
	a, err := s.backend.alarm(id)
	return a, failed("alarm", id, err)
}

// ctxRows is how many rows are read between two looks at the context.
const ctxRows = 256

// List implements storage.Store. It sees the store as it was when the loop began.
func (s *Store) List(ctx context.Context, id storage.ID, r storage.Range) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := s.begin(ctx, "list", id, id.Validate()); err != nil {
			yield(storage.Entry{}, err)
			return
		}
		defer s.reads.leave()
		if err := s.list(ctx, id, r, yield); err != nil {
			yield(storage.Entry{}, failed("list", id, err))
		}
	}
}

func (s *Store) list(ctx context.Context, id storage.ID, r storage.Range, yield func(storage.Entry, error) bool) error {
	lower, upper := storage.RowBounds(id, r)
	it, err := s.iterate(ctx, lower, upper)
	if err != nil || it == nil {
		return err
	}
	defer it.Close()
	first, next := it.First, it.Next
	if r.Reverse {
		first, next = it.Last, it.Prev
	}
	skip := storage.RowOffset(id)
	n := 0
	for ok := first(); ok; ok = next() {
		if n%ctxRows == ctxRows-1 && ctx.Err() != nil {
			return ctx.Err()
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		e := storage.Entry{Key: string(it.Key()[skip:]), Value: append(make([]byte, 0, len(v)), v...)}
		if n++; !yield(e, nil) || n == r.Limit {
			return nil
		}
	}
	return it.Error()
}

// iterate returns an iterator over the keys between two bounds, or nil if there
// can't be any.
func (s *Store) iterate(ctx context.Context, lower, upper []byte) (*pebble.Iterator, error) {
	if string(lower) >= string(upper) {
		return nil, nil
	}
	return s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

// Due implements storage.Store.
func (s *Store) Due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	if err := s.begin(ctx, "due", storage.ID{}, nil); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	due, err := s.due(ctx, after, until, limit)
	return due, failed("due", storage.ID{}, err)
}

func (s *Store) due(ctx context.Context, after storage.Cursor, until time.Time, limit int) ([]storage.Due, error) {
	if limit <= 0 {
		return nil, nil
	}
	after, scan := s.backend.front.begin(after)
	due, err := s.scanIndex(ctx, after, until, limit)
	switch {
	case err != nil:
	case len(due) > 0:
		s.backend.front.found(scan, due[0].At)
	default:
		s.backend.front.found(scan, until.Truncate(time.Microsecond).Add(time.Microsecond))
	}
	return due, err
}

func (s *Store) scanIndex(ctx context.Context, after storage.Cursor, until time.Time, limit int) (due []storage.Due, err error) {
	lower, upper := storage.IndexBounds(after, until)
	it, err := s.iterate(ctx, lower, upper)
	if err != nil || it == nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		d, err := s.indexEntry(it.Key(), v)
		if err != nil {
			s.aside.add(it.Key(), err)
			continue
		}
		if due = append(due, d); len(due) == limit {
			break
		}
	}
	return due, it.Error()
}

// indexEntry reads an entry of the alarm index. The object's alarm row is the
// alarm, and the entry only where to find it: with a value that does not decode
// the row tells what it was.
func (s *Store) indexEntry(k, v []byte) (storage.Due, error) {
	at, id, err := storage.DecodeIndexKey(k)
	if err != nil {
		return storage.Due{}, err
	}
	retry, err := storage.DecodeRetry(v)
	if err == nil {
		return storage.Due{ID: id, Alarm: storage.Alarm{At: at, Retry: retry}}, nil
	}
	if row, rowErr := s.backend.alarm(id); rowErr == nil && row.At.Equal(at) {
		row.Set = time.Time{} // as in a page of entries that decode
		return storage.Due{ID: id, Alarm: row}, nil
	}
	return storage.Due{}, err
}

// Objects implements storage.Store. It reads one key of each object and seeks
// past the others.
func (s *Store) Objects(ctx context.Context, class, after string, limit int) ([]storage.ID, error) {
	if err := s.begin(ctx, "objects", storage.ID{}, storage.ValidateClass(class)); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	ids, err := s.objects(ctx, class, after, limit)
	return ids, failed("objects", storage.ID{}, err)
}

func (s *Store) objects(ctx context.Context, class, after string, limit int) (ids []storage.ID, err error) {
	lower, upper := storage.ClassBounds(class, after)
	it, err := s.iterate(ctx, lower, upper)
	if err != nil || it == nil {
		return nil, err
	}
	defer it.Close()
	var end []byte
	for ok := it.First(); ok && len(ids) < limit; {
		id, err := storage.ObjectOf(it.Key())
		if err != nil {
			s.aside.add(it.Key(), err)
			ok = it.Next()
			continue
		}
		ids = append(ids, id)
		end = storage.AppendObjectEnd(end[:0], id)
		ok = it.SeekGE(end)
	}
	return ids, it.Error()
}

// Classes are the classes of which something is stored, sorted.
func (s *Store) Classes(ctx context.Context) ([]string, error) {
	if err := s.begin(ctx, "classes", storage.ID{}, nil); err != nil {
		return nil, err
	}
	defer s.reads.leave()
	classes, err := s.classes(ctx)
	return classes, failed("classes", storage.ID{}, err)
}

func (s *Store) classes(ctx context.Context) (classes []string, err error) {
	lower, upper := storage.ObjectBounds()
	it, err := s.iterate(ctx, lower, upper)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; {
		id, err := storage.ObjectOf(it.Key())
		if err != nil {
			s.aside.add(it.Key(), err)
			ok = it.Next()
			continue
		}
		classes = append(classes, id.Class)
		ok = it.SeekGE(storage.AfterClass(id.Class))
	}
	return classes, it.Error()
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.folder.dir }
