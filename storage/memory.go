package storage

import (
	"cmp"
	"context"
	"iter"
	"sync/atomic"
	"time"
)

// Memory is a Store without a disk, for tests of what is built on storage. It
// has the committer and the fence of the real one; only its rows are in memory,
// and durable is what has been applied.
type Memory struct {
	*Committer
	rows   *Image
	closed atomic.Bool
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return NewMemoryWith(CommitterOptions{}) }

// NewMemoryWith returns an empty store whose committer has other bounds.
func NewMemoryWith(o CommitterOptions) *Memory {
	rows := NewImage()
	c, err := NewCommitter(memory{rows}, o)
	if err != nil {
		panic(err) // the first boot of a new store
	}
	return &Memory{Committer: c, rows: rows}
}

// memory is the Backend.
type memory struct{ *Image }

// NextBoot implements Backend.
func (m memory) NextBoot() (uint32, error) { return m.Image.NextBoot(), nil }

// Head implements Backend.
func (m memory) Head(id ID) (uint64, Alarm, error) {
	epoch, alarm := m.Image.Head(id)
	return epoch, alarm, nil
}

// NewGroup implements Backend.
func (m memory) NewGroup() Group { return &memoryGroup{rows: m.Image} }

type memoryGroup struct {
	rows   *Image
	writes []Write
}

func (g *memoryGroup) Add(w Write) { g.writes = append(g.writes, w) }
func (g *memoryGroup) Wait() error { return nil }
func (g *memoryGroup) Apply() error {
	for i := range g.writes {
		g.rows.Apply(&g.writes[i])
	}
	g.writes = nil
	return nil
}

// check is the common head of the reads; invalid is what is wrong with their
// arguments.
func (m *Memory) check(ctx context.Context, op string, id ID, invalid error) error {
	err := ctx.Err()
	if err == nil && m.closed.Load() {
		err = ErrClosed
	}
	if err = cmp.Or(err, invalid); err != nil {
		return &Error{Op: op, ID: id, Err: err}
	}
	return nil
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, id ID, key string) ([]byte, error) {
	if err := m.check(ctx, "get", id, cmp.Or(id.Validate(), ValidateKey(key))); err != nil {
		return nil, err
	}
	return m.rows.Get(id, key), nil
}

// List implements Store. It reads the rows at once, so that the store can be
// written to while they are ranged over.
func (m *Memory) List(ctx context.Context, id ID, r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := m.check(ctx, "list", id, id.Validate()); err != nil {
			yield(Entry{}, err)
			return
		}
		for _, e := range m.rows.List(id, r) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Alarm implements Store.
func (m *Memory) Alarm(ctx context.Context, id ID) (Alarm, error) {
	if err := m.check(ctx, "alarm", id, id.Validate()); err != nil {
		return Alarm{}, err
	}
	_, alarm := m.rows.Head(id)
	return alarm, nil
}

// Due implements Store.
func (m *Memory) Due(ctx context.Context, after Cursor, until time.Time, limit int) ([]Due, error) {
	if err := m.check(ctx, "due", ID{}, nil); err != nil {
		return nil, err
	}
	return m.rows.Due(after, until, limit), nil
}

// Objects implements Store.
func (m *Memory) Objects(ctx context.Context, class, after string, limit int) ([]ID, error) {
	if err := m.check(ctx, "objects", ID{}, ValidateClass(class)); err != nil {
		return nil, err
	}
	return m.rows.Objects(class, after, limit), nil
}

// Close implements Store.
func (m *Memory) Close() error {
	err := m.Committer.Close()
	m.closed.Store(true)
	return err
}
