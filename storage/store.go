package storage

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
)

// ID names an object: one identity of a class.
type ID struct{ Class, Name string }

func (id ID) String() string { return id.Class + "/" + id.Name }

// Entry is one row of an object.
type Entry struct {
	Key   string
	Value []byte
}

// Alarm is an object's alarm row. The zero At means that there is none.
type Alarm struct {
	// At is when it is due; stored in UTC and rounded up to a microsecond.
	At time.Time
	// Retry counts the failed runs so far.
	Retry int
	// Set is the time that it was set to where At is that of a retry; zero: At is.
	Set time.Time
}

// Batch is what one turn of an object writes, atomically. Clear is applied
// first, then Deletes, then Puts; the alarm comes last.
type Batch struct {
	ID    ID
	Epoch uint64
	// Clear deletes every row of the object and its alarm. The fence row stays.
	Clear   bool
	Deletes []string
	Puts    []Entry
	// Alarm replaces the alarm row; a zero At deletes it; nil leaves it alone.
	Alarm *Alarm
	// Fresh: nothing was ever committed to the object before, so there is nothing that a
	// batch which joins this one could have to delete.
	Fresh bool
	// Lingers: another batch of the object is expected within moments, and this one may
	// wait for it, so that the two land as one. It waits no longer than a bound of the
	// store's, and not when it is large or the object is claimed.
	Lingers bool
}

// Size is the number of bytes that the batch holds in memory, about.
func (b *Batch) Size() int {
	n := 64
	for _, k := range b.Deletes {
		n += len(k) + 16
	}
	for _, e := range b.Puts {
		n += len(e.Key) + len(e.Value) + 40
	}
	return n
}

// Range selects rows in the byte order of their keys. The zero Range is every row.
type Range struct {
	// Prefix, if not empty, restricts the rows to keys that begin with it.
	Prefix string
	// Start is the first key (inclusive); After excludes a key and all before it.
	// At most one of the two is set.
	Start, After string
	// End is exclusive; empty means none.
	End string
	// Limit bounds the number of rows; 0 means no bound.
	Limit int
	// Reverse returns the same rows from the last to the first.
	Reverse bool
}

// Due is one row of the alarm index. Set is not there: the object's alarm row has it.
type Due struct {
	ID ID
	Alarm
}

// Cursor is a position in the alarm index: that of a row, by time and then by ID.
// The zero Cursor is before every row.
type Cursor struct {
	At time.Time
	ID ID
}

// Store is durable storage for objects. Its methods may be called from any
// goroutine.
type Store interface {
	// Claim begins a new incarnation of an object. Everything that was submitted
	// before is durable or refused by the time done is called. An object is fresh when
	// nothing was ever committed to it: then it has neither rows nor an alarm. Claim does
	// not block, and may be called in a callback.
	Claim(id ID, done func(epoch uint64, fresh bool, err error))

	// Release ends an incarnation: from here on its batches are refused. It is a
	// no-op when a newer incarnation has been claimed already. It does not block.
	Release(id ID, epoch uint64)

	// Submit queues a batch. The batch belongs to the store from here on. done is
	// called once and never within Submit, with nil when the batch is durable, or
	// with a *Error that wraps ErrStaleEpoch, ErrClosed, ErrInvalid or the failure of
	// the store. A batch that is refused for what it holds ends its incarnation, so
	// that none lands behind it. Submit blocks while the queue is full, so it must
	// not be called in a callback.
	Submit(b *Batch, done func(error))

	// Get reads one row. A key that is not there gives nil and no error. The value
	// must not be modified.
	Get(ctx context.Context, id ID, key string) ([]byte, error)

	// List reads the rows of r. It ends after the first error.
	List(ctx context.Context, id ID, r Range) iter.Seq2[Entry, error]

	// Alarm reads an object's alarm row; the zero Alarm when there is none.
	Alarm(ctx context.Context, id ID) (Alarm, error)

	// Due returns at most max rows of the alarm index after the cursor and not
	// later than until, earliest first. A row that does not decode is left out and
	// reported: it must not hold up the others.
	Due(ctx context.Context, after Cursor, until time.Time, max int) ([]Due, error)

	// Objects lists at most max objects of a class that have rows or an alarm, by
	// name, after the name given.
	Objects(ctx context.Context, class, after string, max int) ([]ID, error)

	// OnAlarm registers the one observer of alarm rows: it is called with each
	// alarm that is set, after the row can be seen by Due and before the batch's
	// own callback, on the committer's goroutine.
	OnAlarm(func(id ID, at time.Time))

	// Close waits for what was submitted and closes the store. Later calls fail
	// with ErrClosed.
	Close() error
}

// Outcomes that callers tell apart with errors.Is.
var (
	// ErrStaleEpoch refuses a batch of an incarnation that is not the newest.
	ErrStaleEpoch = errors.New("a newer incarnation of the object exists")
	// ErrClosed is the answer of a store that has been closed.
	ErrClosed = errors.New("the store is closed")
	// ErrInvalid refuses an ID or a key that can't be stored.
	ErrInvalid = errors.New("not a valid object or key")
	// ErrLocked: another process has the folder open.
	ErrLocked = errors.New("the data folder is in use by another process")
	// ErrForeign: the folder holds something that is not a kalpa store.
	ErrForeign = errors.New("the folder is not a kalpa store")
	// ErrNewerFormat: the store was written by a newer kalpa.
	ErrNewerFormat = errors.New("the store has a newer format")
	// ErrNoStore: there is no store in the folder that was to be looked at.
	ErrNoStore = errors.New("there is no kalpa store here")
	// ErrDamaged: files of the store are not what was written into them, or are gone.
	ErrDamaged = errors.New("the store is damaged")
	// ErrReadOnly: the folder or the file system can't be written.
	ErrReadOnly = errors.New("the data folder can't be written")
)

// Error says which operation failed, on what, why, and what to do about it.
type Error struct {
	Op   string // "open", "commit", "get", ...
	ID   ID     // zero when the operation concerns no object
	Path string // the data folder, where it matters
	Err  error
	Hint string
}

func (e *Error) Error() string {
	s := "storage: " + e.Op
	if e.ID != (ID{}) {
		s += " " + e.ID.String()
	}
	if e.Path != "" {
		s += " " + e.Path
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Commit submits a batch and waits until it is durable.
func Commit(ctx context.Context, s Store, b *Batch) error {
	done := make(chan error, 1)
	s.Submit(b, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Claim begins an incarnation and waits for its epoch.
func Claim(ctx context.Context, s Store, id ID) (uint64, error) {
	type claimed struct {
		epoch uint64
		err   error
	}
	done := make(chan claimed, 1)
	s.Claim(id, func(epoch uint64, _ bool, err error) { done <- claimed{epoch, err} })
	select {
	case c := <-done:
		return c.epoch, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Holds reports whether a key lies in the range, apart from its Limit.
func (r Range) Holds(key string) bool {
	return strings.HasPrefix(key, r.Prefix) && key >= r.Start &&
		(r.After == "" || key > r.After) && (r.End == "" || key < r.End)
}
