package actor

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kalpahost/kalpa/internal/run"
	"github.com/kalpahost/kalpa/storage"
)

// Export writes what is stored of an object: its rows, its schedules and its alarm,
// as they are at one moment. The format is that of [storage.Export]. An object at
// rest is not woken; one that is in memory gives a turn to it. It fails with an error
// that wraps [storage.ErrNoObject] when nothing is stored. An alarm whose handler is
// running at that moment is left out, as it is for State.Alarm.
func (h *Host) Export(ctx context.Context, id storage.ID, w io.Writer) error {
	if leave := h.occupy(id); leave != nil {
		defer leave()
		return h.about("export", id, storage.Export(ctx, h.o.Store, id, w))
	}
	e := &inspect{wake: h.o.Runner.Signal()}
	if err := h.enqueue(id, envelope{event: e, fail: e.end}); err != nil {
		return err
	}
	defer h.o.Runner.AfterDone(ctx, e.wake.Set)()
	e.wake.Wait()
	switch end := e.ended.Load(); {
	case end == nil:
		return h.about("export", id, context.Cause(ctx))
	case end.err != nil:
		return h.about("export", id, end.err)
	}
	rows := func(yield func(storage.Entry, error) bool) {
		for _, row := range e.rows {
			if !yield(row, nil) {
				return
			}
		}
	}
	return h.about("export", id, storage.WriteExport(w, id, e.alarm, rows))
}

// Import makes an object what an export says, in one commit. With replace, an object
// that exists is replaced, and reset if it is in memory; else it is refused with an
// error that wraps [storage.ErrExists]. What is sent to the object meanwhile waits.
func (h *Host) Import(ctx context.Context, r io.Reader, replace bool) (storage.ID, error) {
	b, err := storage.ReadExport(r)
	if err != nil {
		return storage.ID{}, h.about("import", storage.ID{}, err)
	}
	id := b.ID
	if h.classes[id.Class] == nil {
		return id, h.noClass("import", id)
	}
	for {
		if leave := h.occupy(id); leave != nil {
			defer leave()
			return id, h.about("import", id, storage.Import(ctx, h.o.Store, b, replace))
		}
		if !replace {
			return id, h.about("import", id, storage.ErrExists)
		}
		h.Reset(id, Aborted, errReplaced)
		if !h.sleep(ctx, importPause) {
			return id, h.about("import", id, context.Cause(ctx))
		}
	}
}

var errReplaced = errors.New("the object is replaced by an import")

// importPause is how long an import waits for an object that is about to start or
// stop.
const importPause = 5 * time.Millisecond

func (h *Host) about(op string, id storage.ID, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, ID: id, Err: err}
	if errors.Is(err, storage.ErrExists) {
		e.Hint = "ask for it to be replaced"
	}
	return e
}

// occupy keeps an object that is at rest from starting until leave is called; nil
// when it is not at rest. What is sent to it waits.
func (h *Host) occupy(id storage.ID) (leave func()) {
	s := h.dir.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[id] != nil {
		return nil
	}
	en := &entry{} // as one that is about to start
	s.entries[id] = en
	return func() {
		s.mu.Lock()
		wanted := len(en.queue) > 0
		if !wanted {
			delete(s.entries, id)
		}
		s.mu.Unlock()
		if wanted {
			h.claim(id, h.classes[id.Class])
		}
		h.looked()
	}
}

// inspect is an event: all that an object has is read, in one turn.
type inspect struct {
	rows  []storage.Entry
	alarm storage.Alarm
	ended atomic.Pointer[ending]
	wake  run.Signal
}

type ending struct{ err error }

func (e *inspect) end(err error) {
	if e.ended.CompareAndSwap(nil, &ending{err}) {
		e.wake.Set()
	}
}

func (inc *incarnation) inspect(t *Turn, e *inspect) {
	forget := t.OnBreak(e.end)
	err := func() (err error) {
		if e.alarm, err = inc.alarmRow(); err != nil {
			return err
		}
		for row, err := range t.list(storage.Range{}) {
			if err != nil {
				return err
			}
			row.Value = slices.Clone(row.Value)
			e.rows = append(e.rows, row)
		}
		return nil
	}()
	t.After(func() { forget(); e.end(err) }) // when what was read is durable
	t.end()
}
