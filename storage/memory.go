package storage

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RaduBerinde/btreemap"
)

// Memory is a Store without a disk, for tests of what is built on storage. It
// has the committer and the fence of the real one; only its rows are in maps,
// and durable is what has been applied.
type Memory struct {
	*Committer
	rows   *memoryRows
	closed atomic.Bool
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return NewMemoryWith(CommitterOptions{}) }

// NewMemoryWith returns an empty store whose committer has other bounds.
func NewMemoryWith(o CommitterOptions) *Memory {
	rows := &memoryRows{
		objects: btreemap.New[ID, *memoryObject](16, compareIDs),
		fences:  make(map[ID]uint64),
		index:   btreemap.New[Cursor, int](16, compareCursors),
	}
	c, err := NewCommitter(rows, o)
	if err != nil {
		panic(err) // the first boot of a new store
	}
	return &Memory{Committer: c, rows: rows}
}

// memoryRows is the Backend: all rows, under one lock.
type memoryRows struct {
	mu      sync.RWMutex
	boot    uint32
	objects *btreemap.BTreeMap[ID, *memoryObject]
	fences  map[ID]uint64
	index   *btreemap.BTreeMap[Cursor, int]
}

type memoryObject struct {
	rows  *btreemap.BTreeMap[string, []byte]
	alarm Alarm
}

func newMemoryObject() *memoryObject {
	return &memoryObject{rows: btreemap.New[string, []byte](8, strings.Compare)}
}

func compareIDs(a, b ID) int {
	return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name))
}

func compareCursors(a, b Cursor) int { return cmp.Or(a.At.Compare(b.At), compareIDs(a.ID, b.ID)) }

// NextBoot implements Backend.
func (m *memoryRows) NextBoot() (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot++
	return m.boot, nil
}

// Head implements Backend.
func (m *memoryRows) Head(id ID) (uint64, Alarm, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var alarm Alarm
	if o, _ := m.object(id); o != nil {
		alarm = o.alarm
	}
	return m.fences[id], alarm, nil
}

// NewGroup implements Backend.
func (m *memoryRows) NewGroup() Group { return &memoryGroup{rows: m} }

type memoryGroup struct {
	rows   *memoryRows
	writes []Write
}

func (g *memoryGroup) Add(w Write) { g.writes = append(g.writes, w) }
func (g *memoryGroup) Wait() error { return nil }
func (g *memoryGroup) Apply() error {
	g.rows.mu.Lock()
	defer g.rows.mu.Unlock()
	for i := range g.writes {
		g.rows.apply(&g.writes[i])
	}
	g.writes = nil
	return nil
}

func (m *memoryRows) object(id ID) (*memoryObject, bool) {
	_, o, ok := m.objects.Get(id)
	return o, ok
}

func (m *memoryRows) apply(w *Write) {
	o, ok := m.object(w.ID)
	if !ok || w.Clear {
		o = newMemoryObject()
	}
	for _, k := range w.Deletes {
		o.rows.Delete(k)
	}
	for _, e := range w.Puts {
		if e.Value == nil {
			e.Value = []byte{} // a row that is there is never nil
		}
		o.rows.ReplaceOrInsert(e.Key, e.Value)
	}
	if w.DropIndexEntry() {
		m.index.Delete(Cursor{w.Was.At, w.ID})
	}
	if w.IndexEntry() {
		m.index.ReplaceOrInsert(Cursor{w.Is.At, w.ID}, w.Is.Retry)
	}
	o.alarm = w.Is
	if w.Fence {
		m.fences[w.ID] = w.Epoch
	}
	if o.rows.Len() == 0 && o.alarm.At.IsZero() {
		m.objects.Delete(w.ID)
	} else {
		m.objects.ReplaceOrInsert(w.ID, o)
	}
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
	m.rows.mu.RLock()
	defer m.rows.mu.RUnlock()
	o, ok := m.rows.object(id)
	if !ok {
		return nil, nil
	}
	_, v, _ := o.rows.Get(key)
	return v, nil
}

// List implements Store. It reads the rows at once, so that the store can be
// written to while they are ranged over.
func (m *Memory) List(ctx context.Context, id ID, r Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := m.check(ctx, "list", id, id.Validate()); err != nil {
			yield(Entry{}, err)
			return
		}
		for _, e := range m.rows.list(id, r) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memoryRows) list(id ID, r Range) []Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.object(id)
	if !ok {
		return nil
	}
	rows := o.rows.Ascend(btreemap.GE(max(r.Prefix, r.Start, r.After)), btreemap.Max[string]())
	if r.Reverse {
		rows = o.rows.Descend(btreemap.Max[string](), btreemap.Min[string]())
	}
	var out []Entry
	for k, v := range rows {
		if !r.Holds(k) {
			continue
		}
		if out = append(out, Entry{k, v}); len(out) == r.Limit {
			break
		}
	}
	return out
}

// Alarm implements Store.
func (m *Memory) Alarm(ctx context.Context, id ID) (Alarm, error) {
	if err := m.check(ctx, "alarm", id, id.Validate()); err != nil {
		return Alarm{}, err
	}
	_, alarm, err := m.rows.Head(id)
	return alarm, err
}

// Due implements Store.
func (m *Memory) Due(ctx context.Context, after Cursor, until time.Time, limit int) ([]Due, error) {
	if err := m.check(ctx, "due", ID{}, nil); err != nil {
		return nil, err
	}
	m.rows.mu.RLock()
	defer m.rows.mu.RUnlock()
	var out []Due
	for at, retry := range m.rows.index.Ascend(btreemap.GT(after), btreemap.Max[Cursor]()) {
		if len(out) >= limit || at.At.After(until) {
			break
		}
		out = append(out, Due{at.ID, Alarm{at.At, retry}})
	}
	return out, nil
}

// Objects implements Store.
func (m *Memory) Objects(ctx context.Context, class, after string, limit int) ([]ID, error) {
	if err := m.check(ctx, "objects", ID{}, ValidateClass(class)); err != nil {
		return nil, err
	}
	m.rows.mu.RLock()
	defer m.rows.mu.RUnlock()
	var out []ID
	for id := range m.rows.objects.Ascend(btreemap.GT(ID{class, after}), btreemap.Max[ID]()) {
		if len(out) >= limit || id.Class != class {
			break
		}
		out = append(out, id)
	}
	return out, nil
}

// Close implements Store.
func (m *Memory) Close() error {
	err := m.Committer.Close()
	m.closed.Store(true)
	return err
}
