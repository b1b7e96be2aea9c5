package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kalpahost/kalpa/storage"
)

// backend implements storage.Backend on the engine.
type backend struct {
	db    *pebble.DB
	front front

	durability storage.Durability
	readOnly   bool
	boot       uint32 // the one that is under way
	unnumbered bool   // the rows about the store can't be read, and it is looked at all the same

	// writing is held by each write, and by who wants none meanwhile.
	writing sync.Mutex

	ranges int // range deletions since the last flush that they asked for

	mu   sync.Mutex
	fail func(error)
}

// failWith replaces what is told of a failure.
func (b *backend) failWith(f func(error)) {
	b.mu.Lock()
	b.fail = f
	b.mu.Unlock()
}

func (b *backend) failed(err error) {
	b.mu.Lock()
	f := b.fail
	b.mu.Unlock()
	f(err)
}

// NextBoot implements storage.Backend. The number is durable whatever the
// store's durability: a power cut may take events away, but it must not make an
// epoch begin again that a client has seen.
func (b *backend) NextBoot() (uint32, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.unnumbered {
		b.boot = 1
		return b.boot, nil
	}
	boot, err := b.lastBoot()
	if err != nil {
		return 0, err
	}
	if boot >= storage.MaxBoot {
		return 0, &storage.Error{Op: "open", Err: storage.ErrBootsExhausted,
			Hint: "copy the objects into a new store"}
	}
	boot++
	if b.readOnly {
		b.boot = boot
		return boot, nil
	}
	return boot, b.setBoot(boot)
}

func (b *backend) setBoot(boot uint32) error {
	b.boot = boot
	err := b.db.Set(storage.BootKey, binary.BigEndian.AppendUint32(nil, boot), pebble.Sync)
	if err == nil && b.durability == storage.Relaxed {
		err = b.db.Flush() // tables are synced, and only the log is not
	}
	return err
}

// lastBoot is the number of the last boot that is stored.
func (b *backend) lastBoot() (uint32, error) {
	v, err := b.get(storage.BootKey)
	switch {
	case err != nil || len(v) == 0:
		return 0, err
	case len(v) != 4:
		return 0, fmt.Errorf("a malformed boot row %x", v)
	}
	return binary.BigEndian.Uint32(v), nil
}

// Head implements storage.Backend. An object without a fence row has never been
// written to, so one read is enough for it, and the bloom filters answer that.
func (b *backend) Head(id storage.ID) (epoch uint64, alarm storage.Alarm, err error) {
	var buf [128]byte
	v, err := b.get(storage.AppendFenceKey(buf[:0], id))
	if err == nil && v != nil {
		if len(v) != 8 {
			err = fmt.Errorf("a malformed fence row %x", v)
		} else {
			epoch = binary.BigEndian.Uint64(v)
			alarm, err = b.alarm(id)
		}
	}
	if err != nil {
		return 0, storage.Alarm{}, &storage.Error{Op: "claim", ID: id, Err: err}
	}
	return epoch, alarm, nil
}

func (b *backend) alarm(id storage.ID) (storage.Alarm, error) {
	var buf [128]byte
	v, err := b.get(storage.AppendAlarmKey(buf[:0], id))
	if err != nil || v == nil {
		return storage.Alarm{}, err
	}
	return storage.DecodeAlarmRow(v)
}

// get returns a copy of a row's value, or nil.
func (b *backend) get(key []byte) ([]byte, error) {
	v, closer, err := b.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(v)), v...) // not nil, even if it is empty
	return out, closer.Close()
}

// NewGroup implements storage.Backend.
func (b *backend) NewGroup() storage.Group {
	return &group{backend: b, batch: b.db.NewBatch()}
}

// group implements storage.Group as one batch of the engine.
type group struct {
	backend  *backend
	batch    *pebble.Batch
	earliest time.Time // of the alarms that were set; zero if none was
	ranges   int       // range deletions
}

// Add implements storage.Group. Keys and values are encoded where they stay.
func (g *group) Add(w storage.Write) {
	id := w.ID
	if w.Clear {
		g.clear(id)
	}
	for _, k := range w.Deletes {
		op := g.batch.DeleteDeferred(storage.RowKeyLen(id, k))
		storage.AppendRowKey(op.Key[:0], id, k)
		finish(op)
	}
	for i := range w.Puts {
		e := &w.Puts[i]
		op := g.batch.SetDeferred(storage.RowKeyLen(id, e.Key), len(e.Value))
		storage.AppendRowKey(op.Key[:0], id, e.Key)
		copy(op.Value, e.Value)
		finish(op)
	}
	g.addAlarm(&w)
	if w.Fence {
		op := g.batch.SetDeferred(objectLen(id), 8)
		storage.AppendFenceKey(op.Key[:0], id)
		binary.BigEndian.PutUint64(op.Value, w.Epoch)
		finish(op)
	}
}

func (g *group) addAlarm(w *storage.Write) {
	id := w.ID
	var buf [20]byte
	switch {
	case w.AlarmRow():
		v := storage.AppendAlarmRow(buf[:0], w.Is)
		op := g.batch.SetDeferred(objectLen(id)+1, len(v))
		storage.AppendAlarmKey(op.Key[:0], id)
		copy(op.Value, v)
		finish(op)
	case w.DropAlarmRow():
		op := g.batch.DeleteDeferred(objectLen(id) + 1)
		storage.AppendAlarmKey(op.Key[:0], id)
		finish(op)
	}
	if w.DropIndexEntry() {
		op := g.batch.DeleteDeferred(objectLen(id) + 8)
		storage.AppendIndexKey(op.Key[:0], w.Was.At, id)
		finish(op)
	}
	if w.IndexEntry() {
		v := storage.AppendRetry(buf[:0], w.Is.Retry)
		op := g.batch.SetDeferred(objectLen(id)+8, len(v))
		storage.AppendIndexKey(op.Key[:0], w.Is.At, id)
		copy(op.Value, v)
		finish(op)
		if g.earliest.IsZero() || w.Is.At.Before(g.earliest) {
			g.earliest = w.Is.At
		}
	}
}

// objectLen is the length of a tag and an ID with its terminators.
func objectLen(id storage.ID) int { return len(id.Class) + len(id.Name) + 3 }

func finish(op *pebble.DeferredBatchOp) {
	if err := op.Finish(); err != nil {
		panic(err) // only an indexed batch can fail, and this is none
	}
}

// Apply implements storage.Group. Where the engine can't go on it calls Fatalf
// and expects not to come back; if Fatal has returned, as in a test, that ends
// here.
func (g *group) Apply() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = gaveUp(p)
		}
	}()
	g.backend.writing.Lock()
	err = g.backend.db.ApplyNoSyncWait(g.batch, pebble.Sync)
	g.backend.writing.Unlock()
	if err != nil {
		return err
	}
	if !g.earliest.IsZero() {
		g.backend.front.lower(g.earliest)
	}
	return g.backend.flushRanges(g.ranges)
}

// Wait implements storage.Group.
func (g *group) Wait() error {
	if err := g.batch.SyncWait(); err != nil {
		return fmt.Errorf("the log could not be made durable: %w", err)
	}
	return g.batch.Close()
}
