package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kalpahost/kalpa/storage"
)

// World is where the store of one history lives. Reopen closes a store and opens
// what it has kept; it returns nil for a store that keeps nothing.
type World interface {
	Open() storage.Store
	Reopen(storage.Store) storage.Store
}

// Model runs random histories against a store and against maps, and shrinks the
// first one on which they differ.
func Model(t *testing.T, world func() World) {
	rapid.Check(t, func(rt *rapid.T) {
		w := world()
		m := &machine{
			ctx: context.Background(), world: w, store: w.Open(),
			objects: map[storage.ID]*object{}, claims: map[storage.ID]uint64{},
		}
		defer func() { m.store.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"claim":   m.claim,
			"release": m.release,
			"commit":  m.commit,
			"burst":   m.burst,
			"reopen":  m.reopen,
			"due":     m.due,
			"objects": m.listObjects,
			"list":    m.list,
			"":        m.check,
		})
	})
}

type object struct {
	rows  map[string][]byte
	alarm storage.Alarm
}

type machine struct {
	ctx     context.Context
	world   World
	store   storage.Store
	objects map[storage.ID]*object // those that have rows or an alarm
	claims  map[storage.ID]uint64
	epochs  []uint64 // all that were given out
}

var (
	modelIDs = func() (ids []storage.ID) {
		for _, class := range []string{"a", "a-", "b"} {
			for _, name := range []string{"x", "x\x01", "xy", "é"} {
				ids = append(ids, storage.ID{Class: class, Name: name})
			}
		}
		return ids
	}()
	modelID   = rapid.SampledFrom(modelIDs)
	modelKey  = rapid.SampledFrom([]string{"\x00", "a", "a\x00", "a/", "a/1", "a/2", "b", "\xff"})
	modelTime = rapid.Custom(func(t *rapid.T) time.Time {
		return noon.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, "minutes")) * time.Minute)
	})
)

func (m *machine) object(id storage.ID) *object {
	if o := m.objects[id]; o != nil {
		return o
	}
	return &object{rows: map[string][]byte{}}
}

func (m *machine) claim(t *rapid.T) {
	id := modelID.Draw(t, "id")
	epoch, err := storage.Claim(m.ctx, m.store, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.epochs) > 0 && epoch <= m.epochs[len(m.epochs)-1] {
		t.Fatalf("epoch %d after %d", epoch, m.epochs[len(m.epochs)-1])
	}
	m.epochs = append(m.epochs, epoch)
	m.claims[id] = epoch
}

// epoch is most often the one that is claimed.
func (m *machine) epoch(t *rapid.T, id storage.ID) uint64 {
	if len(m.epochs) > 0 && rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		return rapid.SampledFrom(m.epochs).Draw(t, "epoch")
	}
	return m.claims[id]
}

func (m *machine) release(t *rapid.T) {
	id := modelID.Draw(t, "id")
	epoch := m.epoch(t, id)
	m.store.Release(id, epoch)
	if m.claims[id] == epoch {
		delete(m.claims, id)
	}
}

func (m *machine) batch(t *rapid.T) *storage.Batch {
	b := &storage.Batch{ID: modelID.Draw(t, "id")}
	if len(m.claims) > 0 && rapid.IntRange(0, 9).Draw(t, "claimed") > 0 {
		claimed := slices.SortedFunc(maps.Keys(m.claims), func(a, b storage.ID) int { return strings.Compare(a.String(), b.String()) })
		b.ID = rapid.SampledFrom(claimed).Draw(t, "id")
	}
	b.Epoch = m.epoch(t, b.ID)
	b.Clear = rapid.IntRange(0, 7).Draw(t, "clear") == 0
	b.Deletes = rapid.SliceOfN(modelKey, 0, 2).Draw(t, "deletes")
	for range rapid.IntRange(0, 3).Draw(t, "puts") {
		b.Puts = append(b.Puts, storage.Entry{Key: modelKey.Draw(t, "key"), Value: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")})
	}
	switch rapid.IntRange(0, 5).Draw(t, "alarm") {
	case 0:
		b.Alarm = &storage.Alarm{}
	case 1, 2, 3:
		b.Alarm = &storage.Alarm{At: modelTime.Draw(t, "at"), Retry: rapid.IntRange(0, 2).Draw(t, "retry")}
		if set := modelTime.Draw(t, "set"); b.Alarm.Retry > 0 && !set.Equal(b.Alarm.At) {
			b.Alarm.Set = set
		}
	}
	return b
}

// apply tells what the batch's outcome has to be, and does it.
func (m *machine) apply(b *storage.Batch) error {
	if claimed, ok := m.claims[b.ID]; !ok || b.Epoch != claimed {
		return storage.ErrStaleEpoch
	}
	o := m.object(b.ID)
	if b.Clear {
		o = &object{rows: map[string][]byte{}}
	}
	for _, k := range b.Deletes {
		delete(o.rows, k)
	}
	for _, e := range b.Puts {
		o.rows[e.Key] = bytes.Clone(e.Value)
	}
	if b.Alarm != nil {
		o.alarm = *b.Alarm
	}
	if delete(m.objects, b.ID); len(o.rows) > 0 || !o.alarm.At.IsZero() {
		m.objects[b.ID] = o
	}
	return nil
}

func (m *machine) commit(t *rapid.T) {
	b := m.batch(t)
	want := m.apply(b)
	if err := storage.Commit(m.ctx, m.store, b); !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Fatalf("commit of %+v: %v, want %v", b, err, want)
	}
}

// burst submits without waiting, so that batches share groups, with releases
// and claims between them, and some linger. They are answered in order: those of one
// object, and of all those that do not linger.
func (m *machine) burst(t *rapid.T) {
	type answer struct {
		i   int
		err error
	}
	var wants []error
	var all []*storage.Batch
	last := map[storage.ID]int{} // of each object, and under the zero ID of those that do not linger
	answers := make(chan answer, 32)
	for i := range rapid.IntRange(2, 8).Draw(t, "batches") {
		if rapid.IntRange(0, 5).Draw(t, "release") == 0 {
			m.release(t)
		}
		b := m.batch(t)
		b.Lingers = rapid.IntRange(0, 2).Draw(t, "lingers") == 0
		wants, all = append(wants, m.apply(b)), append(all, b)
		m.store.Submit(b, func(err error) { answers <- answer{i, err} })
	}
	for range wants {
		a := <-answers
		b, want := all[a.i], wants[a.i]
		of := []storage.ID{b.ID}
		if !b.Lingers {
			of = append(of, storage.ID{})
		}
		for _, id := range of {
			if before, ok := last[id]; ok && before > a.i {
				t.Fatalf("batch %d of %v is answered after batch %d", a.i, b.ID, before)
			}
			last[id] = a.i
		}
		if !errors.Is(a.err, want) || (a.err == nil) != (want == nil) {
			t.Fatalf("batch %d of %v: %v, want %v", a.i, b.ID, a.err, want)
		}
	}
}

func (m *machine) reopen(t *rapid.T) {
	if s := m.world.Reopen(m.store); s != nil {
		m.store = s
		clear(m.claims)
	}
}

func (m *machine) due(t *rapid.T) {
	var after storage.Cursor
	if rapid.Bool().Draw(t, "cursor") {
		after = storage.Cursor{At: modelTime.Draw(t, "after")}
		if rapid.Bool().Draw(t, "with an ID") {
			after.ID = modelID.Draw(t, "after ID")
		}
	}
	until, limit := modelTime.Draw(t, "until"), rapid.IntRange(0, 4).Draw(t, "limit")
	m.checkDue(t, after, until, limit)
}

func (m *machine) checkDue(t *rapid.T, after storage.Cursor, until time.Time, limit int) {
	order := func(at time.Time, id storage.ID, than storage.Cursor) int {
		return cmp.Or(at.Compare(than.At), strings.Compare(id.Class, than.ID.Class), strings.Compare(id.Name, than.ID.Name))
	}
	var want []storage.Due
	for id, o := range m.objects {
		if !o.alarm.At.IsZero() && !o.alarm.At.After(until) && order(o.alarm.At, id, after) > 0 {
			want = append(want, storage.Due{ID: id, Alarm: storage.Alarm{At: o.alarm.At, Retry: o.alarm.Retry}})
		}
	}
	slices.SortFunc(want, func(a, b storage.Due) int { return order(a.At, a.ID, storage.Cursor{At: b.At, ID: b.ID}) })
	if len(want) > limit {
		want = want[:limit]
	}
	if len(want) == 0 {
		want = nil
	}
	got, err := m.store.Due(m.ctx, after, until, limit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("due after %v until %v, at most %d (-want +got):\n%s", after, until, limit, diff)
	}
}

func (m *machine) listObjects(t *rapid.T) {
	after := modelID.Draw(t, "after")
	limit := rapid.IntRange(0, 4).Draw(t, "limit")
	if rapid.Bool().Draw(t, "first") {
		after.Name = ""
	}
	var want []string
	for id := range m.objects {
		if id.Class == after.Class && id.Name > after.Name {
			want = append(want, id.Name)
		}
	}
	slices.Sort(want)
	if len(want) > limit {
		want = want[:limit]
	}
	ids, err := m.store.Objects(m.ctx, after.Class, after.Name, limit)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range ids {
		got = append(got, id.Name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("objects of %q after %q, at most %d: %q, want %q", after.Class, after.Name, limit, got, want)
	}
}

func (m *machine) list(t *rapid.T) {
	id := modelID.Draw(t, "id")
	some := rapid.OneOf(rapid.Just(""), modelKey)
	r := storage.Range{Prefix: some.Draw(t, "prefix"), End: some.Draw(t, "end"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse")}
	if rapid.Bool().Draw(t, "exclusive") {
		r.After = some.Draw(t, "after")
	} else {
		r.Start = some.Draw(t, "start")
	}
	m.checkList(t, id, r)
}

func (m *machine) checkList(t *rapid.T, id storage.ID, r storage.Range) {
	var want, got []string
	rows := m.object(id).rows
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if r.Holds(k) {
			want = append(want, fmt.Sprintf("%q=%x", k, rows[k]))
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	if r.Limit > 0 && len(want) > r.Limit {
		want = want[:r.Limit]
	}
	for e, err := range m.store.List(m.ctx, id, r) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q=%x", e.Key, e.Value))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("list of %q, %+v: %v, want %v", id, r, got, want)
	}
}

// check compares one object in full after each step, and the whole index.
func (m *machine) check(t *rapid.T) {
	id := modelID.Draw(t, "checked")
	m.checkList(t, id, storage.Range{})
	alarm, err := m.store.Alarm(m.ctx, id)
	if want := m.object(id).alarm; err != nil || alarm != want {
		t.Fatalf("alarm of %q: %v, %v, want %v", id, alarm, err, want)
	}
	key := modelKey.Draw(t, "checked key")
	v, err := m.store.Get(m.ctx, id, key)
	if want, ok := m.object(id).rows[key]; err != nil || (v != nil) != ok || !bytes.Equal(v, want) {
		t.Fatalf("%q of %q: %x, %v, want %x, %v", key, id, v, err, want, ok)
	}
	m.checkDue(t, storage.Cursor{}, noon.Add(time.Hour), 100)
}
