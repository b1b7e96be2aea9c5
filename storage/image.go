package storage

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/RaduBerinde/btreemap"
)

// Image is the content of a store, in memory: what Memory keeps, and what the disk
// of the simulated world holds. Its methods may be called from any goroutine.
type Image struct {
	mu      sync.RWMutex
	boot    uint32
	objects *btreemap.BTreeMap[ID, *imageObject]
	fences  map[ID]uint64
	index   *btreemap.BTreeMap[Cursor, int]
}

type imageObject struct {
	rows  *btreemap.BTreeMap[string, []byte]
	alarm Alarm
}

// NewImage returns an empty image.
func NewImage() *Image {
	return &Image{
		objects: btreemap.New[ID, *imageObject](16, compareIDs),
		fences:  make(map[ID]uint64),
		index:   btreemap.New[Cursor, int](16, compareCursors),
	}
}

func newImageObject() *imageObject {
	return &imageObject{rows: btreemap.New[string, []byte](8, strings.Compare)}
}

func compareIDs(a, b ID) int {
	return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Name, b.Name))
}

func compareCursors(a, b Cursor) int { return cmp.Or(a.At.Compare(b.At), compareIDs(a.ID, b.ID)) }

// NextBoot counts a boot.
func (m *Image) NextBoot() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot++
	return m.boot
}

// Head reads the epoch of an object's fence row (0: none) and its alarm.
func (m *Image) Head(id ID) (epoch uint64, alarm Alarm) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if o := m.object(id); o != nil {
		alarm = o.alarm
	}
	return m.fences[id], alarm
}

func (m *Image) object(id ID) *imageObject {
	_, o, _ := m.objects.Get(id)
	return o
}

// Apply writes what a batch holds.
func (m *Image) Apply(w *Write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.object(w.ID)
	if o == nil || w.Clear {
		o = newImageObject()
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
	m.keep(w.ID, o)
}

// keep holds an object that has something, and no other.
func (m *Image) keep(id ID, o *imageObject) {
	if o.rows.Len() == 0 && o.alarm.At.IsZero() {
		m.objects.Delete(id)
	} else {
		m.objects.ReplaceOrInsert(id, o)
	}
}

// Undo returns what takes a batch back that is about to be applied: a disk that
// loses power forgets what was not yet durable, the latest first.
func (m *Image) Undo(w *Write) func() {
	m.mu.RLock()
	defer m.mu.RUnlock()
	was, fence := m.object(w.ID), m.fences[w.ID]
	if was == nil {
		was = newImageObject()
	}
	alarm := was.alarm
	var rows []Entry // as they were; nil values for none
	if !w.Clear {
		for _, k := range w.Deletes {
			_, v, _ := was.rows.Get(k)
			rows = append(rows, Entry{k, v})
		}
		for _, e := range w.Puts {
			_, v, _ := was.rows.Get(e.Key)
			rows = append(rows, Entry{e.Key, v})
		}
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, e := range rows {
			if e.Value == nil {
				was.rows.Delete(e.Key)
			} else {
				was.rows.ReplaceOrInsert(e.Key, e.Value)
			}
		}
		if o := m.object(w.ID); o != nil && !o.alarm.At.IsZero() {
			m.index.Delete(Cursor{o.alarm.At, w.ID})
		}
		if was.alarm = alarm; !alarm.At.IsZero() {
			m.index.ReplaceOrInsert(Cursor{alarm.At, w.ID}, alarm.Retry)
		}
		if w.Fence {
			m.fences[w.ID] = fence
		}
		m.keep(w.ID, was)
	}
}

// Get is Store.Get.
func (m *Image) Get(id ID, key string) []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.object(id)
	if o == nil {
		return nil
	}
	_, v, _ := o.rows.Get(key)
	return v
}

// List is Store.List, read at once, so that the image can be written to while the
// rows are ranged over.
func (m *Image) List(id ID, r Range) []Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o := m.object(id)
	if o == nil {
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

// Due is Store.Due.
func (m *Image) Due(after Cursor, until time.Time, limit int) []Due {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Due
	for at, retry := range m.index.Ascend(btreemap.GT(after), btreemap.Max[Cursor]()) {
		if len(out) >= limit || at.At.After(until) {
			break
		}
		out = append(out, Due{at.ID, Alarm{At: at.At, Retry: retry}})
	}
	return out
}

// Objects is Store.Objects.
func (m *Image) Objects(class, after string, limit int) []ID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []ID
	for id := range m.objects.Ascend(btreemap.GT(ID{class, after}), btreemap.Max[ID]()) {
		if len(out) >= limit || id.Class != class {
			break
		}
		out = append(out, id)
	}
	return out
}
